// Package podsonnodes is where the host tells which pods are on which nodes.
package podsonnodes

import "kwx.dev/guest/internal/podfeed"

// Feed has the changes told.
var Feed podfeed.Feed

//go:wasmexport podschanged
func Changed(count uint32) { Feed.Tell(count) }
