// Package cyclestate keeps data for a pod's cycle.
package cyclestate

import "kwx.dev/guest/internal/cycle"

// New is data for a pod's cycle: what PreFilter writes there Filter, Score and
// Reserve read. It is zero when a cycle begins.
//
// A binding cycle may come to another instance than the Filter and Score before
// it; that calls PreFilter first, so rely there on what PreFilter has written.
func New[T any]() *T {
	data := new(T)
	cycle.OnBegin(func() {
		var none T
		*data = none
	})
	return data
}
