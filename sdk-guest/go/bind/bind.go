// Package bind has modules that import it export bind.
package bind

import (
	"guest"
	"guest/internal/onnode"
	"guest/nodes"
	"guest/pods"
)

var plugin func() guest.Status

// Register makes bind the plugin's Bind: Success if it has bound the pod to the
// node, Skip to leave that to others.
func Register[P, N any](pod *pods.View[P], node *nodes.View[N], bind func(P, N) guest.Status) {
	plugin = onnode.Answer(pod, node, bind)
}

//go:wasmexport bind
func bind() int32 { return plugin().Send() }
