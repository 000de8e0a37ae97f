// Package onnode asks a plugin about the current pod and the node that the call is about.
package onnode

import (
	"kwx.dev/guest"
	"kwx.dev/guest/internal/podview"
	"kwx.dev/guest/internal/residents"
)

// Answer makes a plugin's function one that finds pod and node itself.
func Answer[P, N any](pod *podview.View[P], node *residents.View[N], ask func(P, N) guest.Status) func() guest.Status {
	return func() guest.Status {
		node, err := node.Current()
		if err != nil {
			return guest.Error(err)
		}
		return ask(pod.Current(), node)
	}
}

// Notice is the same for a function without an answer. It panics if the node is
// not known: the instance is replaced, with all that it has kept.
func Notice[P, N any](pod *podview.View[P], node *residents.View[N], tell func(P, N)) func() {
	return func() {
		node, err := node.Current()
		if err != nil {
			panic(err)
		}
		tell(pod.Current(), node)
	}
}
