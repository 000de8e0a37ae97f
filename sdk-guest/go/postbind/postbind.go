// Package postbind has modules that import it export postbind.
package postbind

import (
	"guest/internal/onnode"
	"guest/nodes"
	"guest/pods"
)

var plugin func()

// Register makes postBind the plugin's PostBind: the pod is bound to the node.
func Register[P, N any](pod *pods.View[P], node *nodes.View[N], postBind func(P, N)) {
	plugin = onnode.Notice(pod, node, postBind)
}

//go:wasmexport postbind
func postbind() { plugin() }
