// Package prefilterextensions has modules that import it export addpod and
// removepod, which preemption calls around Filter.
package prefilterextensions

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"kwx.dev/guest"
	"kwx.dev/guest/internal/hooks"
	"kwx.dev/guest/internal/host"
	"kwx.dev/guest/internal/onnode"
	"kwx.dev/guest/internal/podview"
	"kwx.dev/guest/internal/residents"
)

var add, remove func() guest.Status

func init() { hooks.AddPod, hooks.RemovePod = addpod, removepod }

// Register makes addPod and removePod the plugin's AddPod and RemovePod: what
// Filter is to find of the node if the target, as a T, were on it as well, or
// were not on it any more. Each removal is made good by an addition.
func Register[P, T, N any](
	pod *podview.View[P], derive func(*v1.Pod) T, node *residents.View[N], addPod, removePod func(P, T, N) guest.Status,
) {
	about := func(ask func(P, T, N) guest.Status) func() guest.Status {
		return onnode.Answer(pod, node, func(pod P, node N) guest.Status {
			var target v1.Pod
			if err := target.Unmarshal(host.TargetPod()); err != nil {
				return guest.Error(fmt.Errorf("target pod: %w", err))
			}
			return ask(pod, derive(&target), node)
		})
	}
	add, remove = about(addPod), about(removePod)
}

//go:wasmexport addpod
func addpod() int32 { return add().Send() }

//go:wasmexport removepod
func removepod() int32 { return remove().Send() }
