// Package prebind has modules that import it export prebind.
package prebind

import (
	"guest"
	"guest/internal/onnode"
	"guest/nodes"
	"guest/pods"
)

var plugin func() guest.Status

// Register makes preBind the plugin's PreBind: what has to be done, or to be
// so, before the pod is bound to the node.
func Register[P, N any](pod *pods.View[P], node *nodes.View[N], preBind func(P, N) guest.Status) {
	plugin = onnode.Answer(pod, node, preBind)
}

//go:wasmexport prebind
func prebind() int32 { return plugin().Send() }
