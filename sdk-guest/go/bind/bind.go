// Package bind has modules that import it export bind.
package bind

import (
	"kwx.dev/guest"
	"kwx.dev/guest/internal/hooks"
	"kwx.dev/guest/internal/onnode"
	"kwx.dev/guest/internal/podview"
	"kwx.dev/guest/internal/residents"
)

var plugin func() guest.Status

func init() { hooks.Bind = bind }

// Register makes bind the plugin's Bind: Success if it has bound the pod to the
// node, Skip to leave that to others.
func Register[P, N any](pod *podview.View[P], node *residents.View[N], bind func(P, N) guest.Status) {
	plugin = onnode.Answer(pod, node, bind)
}

//go:wasmexport bind
func bind() int32 { return plugin().Send() }
