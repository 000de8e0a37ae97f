// Package permit has modules that import it export permit.
package permit

import (
	"math"
	"time"

	"kwx.dev/guest"
	"kwx.dev/guest/internal/hooks"
	"kwx.dev/guest/internal/onnode"
	"kwx.dev/guest/internal/podview"
	"kwx.dev/guest/internal/residents"
)

var plugin func() (guest.Status, time.Duration)

func init() { hooks.Permit = permit }

// Register makes permit the plugin's Permit: whether the pod may be bound to
// the node, or waits, and for how long at most.
func Register[P, N any](pod *podview.View[P], node *residents.View[N], permit func(P, N) (guest.Status, time.Duration)) {
	plugin = func() (status guest.Status, timeout time.Duration) {
		ask := onnode.Answer(pod, node, func(pod P, node N) guest.Status {
			status, timeout = permit(pod, node)
			return status
		})
		status = ask()
		return status, timeout
	}
}

// Its halves are the other way round than those of other results.
//
//go:wasmexport permit
func permit() int64 {
	status, timeout := plugin()
	return int64(status.Send())<<32 | int64(milliseconds(timeout))
}

// milliseconds are rounded up, so that no wait ends before its time.
func milliseconds(timeout time.Duration) uint32 {
	whole := timeout.Milliseconds()
	if timeout%time.Millisecond > 0 {
		whole++
	}
	return uint32(min(max(whole, 0), math.MaxUint32))
}
