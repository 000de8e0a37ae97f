// Package postbind has modules that import it export postbind.
package postbind

import (
	"kwx.dev/guest/internal/hooks"
	"kwx.dev/guest/internal/onnode"
	"kwx.dev/guest/internal/podview"
	"kwx.dev/guest/internal/residents"
)

var plugin func()

func init() { hooks.PostBind = postbind }

// Register makes postBind the plugin's PostBind: the pod is bound to the node.
func Register[P, N any](pod *podview.View[P], node *residents.View[N], postBind func(P, N)) {
	plugin = onnode.Notice(pod, node, postBind)
}

//go:wasmexport postbind
func postbind() { plugin() }
