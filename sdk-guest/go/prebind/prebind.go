// Package prebind has modules that import it export prebind.
package prebind

import (
	"kwx.dev/guest"
	"kwx.dev/guest/internal/hooks"
	"kwx.dev/guest/internal/onnode"
	"kwx.dev/guest/internal/podview"
	"kwx.dev/guest/internal/residents"
)

var plugin func() guest.Status

func init() { hooks.PreBind = prebind }

// Register makes preBind the plugin's PreBind: what has to be done, or to be
// so, before the pod is bound to the node.
func Register[P, N any](pod *podview.View[P], node *residents.View[N], preBind func(P, N) guest.Status) {
	plugin = onnode.Answer(pod, node, preBind)
}

//go:wasmexport prebind
func prebind() int32 { return plugin().Send() }
