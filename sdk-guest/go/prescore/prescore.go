// Package prescore has modules that import it export prescore.
package prescore

import (
	"kwx.dev/guest"
	"kwx.dev/guest/internal/hooks"
	"kwx.dev/guest/internal/podview"
)

var plugin func() guest.Status

func init() { hooks.PreScore = prescore }

// Register makes preScore the plugin's PreScore: Skip for a pod that needs no score.
func Register[P any](pod *podview.View[P], preScore func(P) guest.Status) {
	plugin = func() guest.Status { return preScore(pod.Current()) }
}

//go:wasmexport prescore
func prescore() int32 { return plugin().Send() }
