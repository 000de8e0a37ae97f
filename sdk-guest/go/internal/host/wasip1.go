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
