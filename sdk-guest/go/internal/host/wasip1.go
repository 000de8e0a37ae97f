//go:build wasip1

package host

//go:wasmimport k8s.io/scheduler currentPod
//go:noescape
func currentPod(buf *byte, limit uint32) uint32

//go:wasmimport k8s.io/scheduler currentNodeName
//go:noescape
func currentNodeName(buf *byte, limit uint32) uint32

//go:wasmimport k8s.io/api node
//go:noescape
func node(name string, buf *byte, limit uint32) uint32

//go:wasmimport k8s.io/scheduler get_config
//go:noescape
func config(buf *byte, limit uint32) uint32

//go:wasmimport k8s.io/scheduler targetPod
//go:noescape
func targetPod(buf *byte, limit uint32) uint32

//go:wasmimport k8s.io/scheduler nodeToStatusMap
//go:noescape
func nodeToStatusMap(buf *byte, limit uint32) uint32

//go:wasmimport k8s.io/scheduler nodeScoreList
//go:noescape
func nodeScoreList(buf *byte, limit uint32) uint32

//go:wasmimport k8s.io/scheduler handle.reject_waiting_pod
//go:noescape
func rejectWaitingPod(uid string, buf *byte, limit uint32)

// ClusterEvents hands over pairs of u32: a resource and an action type.
//
//go:wasmimport k8s.io/scheduler result.cluster_events
//go:noescape
func ClusterEvents(pairs string)

// NodeNames hands over the only nodes to look at, each name ended by a NUL.
//
//go:wasmimport k8s.io/scheduler result.node_names
//go:noescape
func NodeNames(names string)

// NominatedNodeName hands over the node that PostFilter chose.
//
//go:wasmimport k8s.io/scheduler result.nominated_node_name
//go:noescape
func NominatedNodeName(name string)

// NormalizedScores hands over a JSON object of node names and scores.
//
//go:wasmimport k8s.io/scheduler result.normalized_score_list
//go:noescape
func NormalizedScores(scores string)

// Eventf records an Event, which is JSON.
//
//go:wasmimport k8s.io/scheduler handle.eventrecorder.eventf
//go:noescape
func Eventf(event string)

// StatusReason hands over why a code is what it is.
//
//go:wasmimport k8s.io/scheduler result.status_reason
//go:noescape
func StatusReason(reason string)

// Severity is the least that is logged.
//
//go:wasmimport k8s.io/klog severity
func Severity() int32

// Log writes a line to the host's log.
//
//go:wasmimport k8s.io/klog log
//go:noescape
func Log(severity int32, message string)
