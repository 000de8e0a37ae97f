// Package pendingpods keeps the pods that have no node yet. Modules that import
// it are told of them, by hosts that tell that.
package pendingpods

import (
	"iter"
	"maps"

	"kwx.dev/guest/internal/hooks"
	"kwx.dev/guest/internal/podfeed"
)

// Pod is a pod without a node, of which is read what is asked for.
type Pod = podfeed.Pod

// List is every pod of the cluster without a node as a P: those of all
// schedulers, with the current pod if the host knows it already.
type List[P any] struct {
	derive func(Pod) P
	pods   map[uint32]P // by number
}

// As makes each pod without a node a P, when it is new or changes. The less P
// holds, the less there is to keep and to look through for garbage.
func As[P any](derive func(Pod) P) *List[P] {
	list := &List[P]{derive, map[uint32]P{}}
	pending.Follow(list.tell)
	return list
}

// Len is the number of pods.
func (l *List[P]) Len() int { return len(l.pods) }

// All are the pods, in no order.
func (l *List[P]) All() iter.Seq[P] { return maps.Values(l.pods) }

func (l *List[P]) tell(change podfeed.Change) {
	if change.State == podfeed.Gone {
		delete(l.pods, change.Pod)
	} else if len(change.Object) > 0 {
		l.pods[change.Pod] = l.derive(podfeed.PodOf(change.Object))
	}
}

func init() { hooks.PendingPodsChanged = pendingpodschanged }

var pending podfeed.Feed

//go:wasmexport pendingpodschanged
func pendingpodschanged(count uint32) { pending.Tell(count) }
