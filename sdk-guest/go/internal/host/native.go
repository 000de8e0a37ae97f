//go:build !wasip1

package host

import (
	"fmt"
	"unsafe"
)

// Native is the host of tests, which run natively.
var Native struct{ state }

// Reset forgets all that it was told.
func Reset() { Native.state = state{} }

type state struct {
	Pod, Target, Config []byte
	// Waiting has the UIDs of pods that wait on Permit.
	Waiting map[string]bool
	// Statuses and Scores of nodes are JSON.
	Statuses, Scores []byte
	NodeName         string
	Nodes            map[string][]byte
	// Asked has the nodes whose objects were asked for, Reasons and Results what was handed over.
	Asked, Reasons, Results, Logged, Events []string
	Severity                                int32
}

func currentPod(buf *byte, limit uint32) uint32 { return write(Native.Pod, buf, limit) }

func currentNodeName(buf *byte, limit uint32) uint32 {
	return write([]byte(Native.NodeName), buf, limit)
}

func node(name string, buf *byte, limit uint32) uint32 {
	Native.Asked = append(Native.Asked, name)
	return write(Native.Nodes[name], buf, limit)
}

func targetPod(buf *byte, limit uint32) uint32 { return write(Native.Target, buf, limit) }

func nodeToStatusMap(buf *byte, limit uint32) uint32 { return write(Native.Statuses, buf, limit) }

func nodeScoreList(buf *byte, limit uint32) uint32 { return write(Native.Scores, buf, limit) }

func rejectWaitingPod(uid string, buf *byte, limit uint32) {
	if Native.Waiting[uid] {
		delete(Native.Waiting, uid)
		write([]byte("\x01\x00\x00\x00\x00\x00\x00\x00"), buf, limit)
	}
}

func config(buf *byte, limit uint32) uint32 { return write(Native.Config, buf, limit) }

func StatusReason(reason string) { Native.Reasons = append(Native.Reasons, reason) }

func ClusterEvents(pairs string) { result("cluster_events", pairs) }

func NodeNames(names string) { result("node_names", names) }

func NominatedNodeName(name string) { result("nominated_node_name", name) }

func NormalizedScores(scores string) { result("normalized_score_list", scores) }

func Eventf(event string) { Native.Events = append(Native.Events, event) }

func Severity() int32 { return Native.Severity }

func Log(severity int32, message string) {
	Native.Logged = append(Native.Logged, fmt.Sprint(severity, " ", message))
}

func result(name, value string) { Native.Results = append(Native.Results, name+" "+value) }

func write(value []byte, buf *byte, limit uint32) uint32 {
	if uint32(len(value)) <= limit {
		copy(unsafe.Slice(buf, limit), value)
	}
	return uint32(len(value))
}
