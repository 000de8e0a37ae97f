// Package podview keeps what a plugin makes of the pod of the cycle.
package podview

import (
	"fmt"

	"kwx.dev/guest/internal/cycle"
	_ "kwx.dev/guest/internal/garbage"
	"kwx.dev/guest/internal/host"
)

// View is the current pod as a P.
type View[P any] struct {
	derive  func(object []byte) (P, error)
	current P
	isKnown bool
}

// New makes each pod a P, once in its cycle, when it is first asked for. The bytes are valid until derive returns.
func New[P any](derive func(object []byte) (P, error)) *View[P] {
	view := &View[P]{derive: derive}
	cycle.OnBegin(func() { view.isKnown = false })
	return view
}

// Current is what was made of the current pod. It panics if the host has none.
func (v *View[P]) Current() P {
	if !v.isKnown {
		made, err := v.derive(host.CurrentPod())
		if err != nil {
			panic(fmt.Errorf("current pod: %w", err))
		}
		v.current, v.isKnown = made, true
	}
	return v.current
}
