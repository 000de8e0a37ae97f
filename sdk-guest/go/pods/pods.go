// Package pods keeps what a plugin needs of the pod of the cycle.
package pods

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	_ "guest/internal/argv"
	"guest/internal/cycle"
	_ "guest/internal/garbage"
	"guest/internal/host"
)

// View is the current pod as a P.
type View[P any] struct {
	derive  func(*v1.Pod) P
	current P
	isKnown bool
}

// As makes each pod a P, once in its cycle, when it is first asked for.
func As[P any](derive func(*v1.Pod) P) *View[P] {
	view := &View[P]{derive: derive}
	cycle.OnBegin(func() { view.isKnown = false })
	return view
}

// Current is what was made of the current pod. It panics if the host has none.
func (v *View[P]) Current() P {
	if !v.isKnown {
		var pod v1.Pod
		if err := pod.Unmarshal(host.CurrentPod()); err != nil {
			panic(fmt.Errorf("current pod: %w", err))
		}
		v.current, v.isKnown = v.derive(&pod), true
	}
	return v.current
}
