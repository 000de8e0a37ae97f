// Package bindingannotations has modules that import it export bindingannotations.
package bindingannotations

import (
	"maps"
	"slices"
	"unsafe"

	"kwx.dev/guest/internal/hooks"
	"kwx.dev/guest/internal/onnode"
	"kwx.dev/guest/internal/podview"
	"kwx.dev/guest/internal/residents"
)

var (
	plugin func()
	given  map[string]string
	// texts is where the host reads them, until its next call.
	texts []byte
)

func init() { hooks.BindingAnnotations = annotate }

// Register makes annotations the function that is asked, after Reserve, which
// annotations the pod gets with its bind: what was chosen on the node, for the
// node's agent and for all others that look at the pod.
func Register[P, N any](pod *podview.View[P], node *residents.View[N], annotations func(P, N) map[string]string) {
	plugin = onnode.Notice(pod, node, func(pod P, node N) { given = annotations(pod, node) })
}

//go:wasmexport bindingannotations
func bindingannotations() int64 {
	texts = annotate()
	if len(texts) == 0 {
		return 0
	}
	return int64(uintptr(unsafe.Pointer(&texts[0])))<<32 | int64(len(texts))
}

func annotate() []byte {
	plugin()
	return terminated(given)
}

// terminated has keys and values in turn, each ended by a NUL.
func terminated(annotations map[string]string) []byte {
	var texts []byte
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		texts = append(append(texts, key...), 0)
		texts = append(append(texts, annotations[key]...), 0)
	}
	return texts
}
