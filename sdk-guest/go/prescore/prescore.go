// Package prescore has modules that import it export prescore.
package prescore

import (
	"guest"
	"guest/pods"
)

var plugin func() guest.Status

// Register makes preScore the plugin's PreScore: Skip for a pod that needs no score.
func Register[P any](pod *pods.View[P], preScore func(P) guest.Status) {
	plugin = func() guest.Status { return preScore(pod.Current()) }
}

//go:wasmexport prescore
func prescore() int32 { return plugin().Send() }
