// Package reserve has modules that import it export reserve and unreserve.
package reserve

import (
	"kwx.dev/guest"
	"kwx.dev/guest/internal/hooks"
	"kwx.dev/guest/internal/onnode"
	"kwx.dev/guest/internal/podview"
	"kwx.dev/guest/internal/residents"
)

var (
	taken func() guest.Status
	freed func()
)

func init() { hooks.Reserve, hooks.Unreserve = reserve, unreserve }

// Register makes reserve and unreserve the plugin's Reserve and Unreserve: the
// pod is to come to the node, and will not come there after all. Unreserve may
// come for a pod that was never reserved.
func Register[P, N any](
	pod *podview.View[P], node *residents.View[N], reserve func(P, N) guest.Status, unreserve func(P, N),
) {
	taken, freed = onnode.Answer(pod, node, reserve), onnode.Notice(pod, node, unreserve)
}

//go:wasmexport reserve
func reserve() int32 { return taken().Send() }

//go:wasmexport unreserve
func unreserve() { freed() }
