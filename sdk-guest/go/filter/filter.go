// Package filter has modules that import it export filter, for one node and
// for lists of them. What a Go module exports is settled by the packages that
// are linked, so there is a package for each extension point.
package filter

import (
	"kwx.dev/guest"
	"kwx.dev/guest/internal/hooks"
	"kwx.dev/guest/internal/host"
	"kwx.dev/guest/internal/list"
	"kwx.dev/guest/internal/onnode"
	"kwx.dev/guest/internal/podview"
	"kwx.dev/guest/internal/residents"
)

var (
	one func() guest.Status
	all func(numbers []uint32)
)

func init() { hooks.Filter, hooks.FilterNodes = filter, filternodes }

// Register makes filter the plugin's Filter: whether the pod may run on the node.
func Register[P, N any](pod *podview.View[P], node *residents.View[N], filter func(P, N) guest.Status) {
	one = onnode.Answer(pod, node, filter)
	all = func(numbers []uint32) {
		pod := pod.Current()
		reasons.forget()
		for i, number := range numbers {
			var status guest.Status
			if node, err := node.Numbered(number); err == nil {
				status = filter(pod, node)
			} else {
				status = guest.Error(err)
			}
			numbers[i] = uint32(status.Code()) | reasons.number(status.Reason())<<8
		}
	}
}

//go:wasmexport filter
func filter() int32 { return one().Send() }

//go:wasmexport filternodes
func filternodes(count uint32) int32 {
	all(list.Numbers(count))
	return 0
}

// reasons of one call, each handed over once.
var reasons = handedOver{numbers: map[string]uint32{}}

type handedOver struct {
	numbers    map[string]uint32
	last       string
	lastNumber uint32
}

func (h *handedOver) forget() {
	clear(h.numbers)
	h.last, h.lastNumber = "", 0
}

// number is 1 for the first reason of the call, and 0 for none. Neighbours in a
// list often have the same.
func (h *handedOver) number(reason string) uint32 {
	if reason == "" {
		return 0
	}
	if reason != h.last {
		number, ok := h.numbers[reason]
		if !ok {
			host.StatusReason(reason)
			number = uint32(len(h.numbers)) + 1
			h.numbers[reason] = number
		}
		h.last, h.lastNumber = reason, number
	}
	return h.lastNumber
}
