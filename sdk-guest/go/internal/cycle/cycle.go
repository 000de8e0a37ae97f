// Package cycle begins a pod's cycle, with prefilter. A module exports that if
// it looks at pods or keeps something for a cycle, also without a PreFilter.
package cycle

import "kwx.dev/guest"

// PreFilter is the plugin's; it is called when what was kept of the last cycle is forgotten.
var PreFilter = func() guest.Status { return guest.Success }

var forget []func()

// OnBegin has something forgotten whenever a cycle begins.
func OnBegin(f func()) { forget = append(forget, f) }

//go:wasmexport prefilter
func Begin() int32 {
	for _, each := range forget {
		each()
	}
	return PreFilter().Send()
}
