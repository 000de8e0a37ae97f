// Package host asks the host. A module imports only the functions that it calls.
package host

// answer is where the host writes, as large as its longest answer so far.
var answer = make([]byte, 16<<10)

// CurrentPod is the pod of the cycle, a protobuf v1.Pod. As all bytes from this
// package it is valid until the next question.
func CurrentPod() []byte { return read(currentPod) }

// CurrentNodeName is the node that the call is about.
func CurrentNodeName() []byte { return read(currentNodeName) }

// Node is a protobuf v1.Node, or empty for a name that the host does not know.
func Node(name string) []byte {
	return read(func(buf *byte, limit uint32) uint32 { return node(name, buf, limit) })
}

// TargetPod is the pod that a call of AddPod or RemovePod is about, a protobuf v1.Pod.
func TargetPod() []byte { return read(targetPod) }

// NodeToStatusMap is a JSON object of node names and the codes that Filter gave them.
func NodeToStatusMap() []byte { return read(nodeToStatusMap) }

// NodeScoreList is a JSON object of node names and the scores that Score gave them.
func NodeScoreList() []byte { return read(nodeScoreList) }

// RejectWaitingPod ends a pod's wait on Permit; false if it did not wait.
func RejectWaitingPod(uid string) bool {
	var has [8]byte
	rejectWaitingPod(uid, &has[0], uint32(len(has)))
	return has != [8]byte{}
}

// Config is the plugin's guestConfig.
func Config() []byte { return read(config) }

// read asks again with a larger buffer where the answer does not fit: nothing
// is written then, and the length that it needs is returned.
func read(ask func(buf *byte, limit uint32) uint32) []byte {
	length := ask(&answer[0], uint32(len(answer)))
	if length > uint32(len(answer)) {
		answer = make([]byte, length)
		ask(&answer[0], length)
	}
	return answer[:length]
}
