// Package residents keeps what is made of each node, by the number that the host gave it.
package residents

import (
	"fmt"
	"iter"

	"kwx.dev/guest/internal/host"
)

// Unannounced is the number of no node.
const Unannounced = 1<<32 - 1

// View is every node as an N. A host that announces nodes has each made an N
// once, when it changes; for other hosts it is made whenever it is asked for.
type View[N any] struct {
	// derive gets Unannounced for a node that has no number.
	derive    func(number uint32, name string) (N, error)
	onRemoved func(number uint32)
	kept      []entry[N] // by number
	numbers   map[string]uint32
}

type entry[N any] struct {
	value  N
	isKept bool
	name   string
}

type announced interface {
	changed(number uint32, name string)
	removed(number uint32)
}

var views []announced

// NewView makes each node an N, and tells when it is gone.
func NewView[N any](derive func(number uint32, name string) (N, error), onRemoved func(number uint32)) *View[N] {
	view := &View[N]{derive: derive, onRemoved: onRemoved, numbers: map[string]uint32{}}
	views = append(views, view)
	return view
}

// Names makes the name of each node an N.
func Names[N any](derive func(name string) N) *View[N] {
	return NewView(func(_ uint32, name string) (N, error) { return derive(name), nil }, func(uint32) {})
}

// Object is the node of a name as the host knows it, a protobuf v1.Node that is valid until the next question.
func Object(name string) ([]byte, error) {
	contents := host.Node(name)
	if len(contents) == 0 {
		return nil, fmt.Errorf("node %s is not known", name)
	}
	return contents, nil
}

// Current is what was made of the node that the call is about.
func (v *View[N]) Current() (N, error) {
	name := host.CurrentNodeName()
	if number, ok := v.numbers[string(name)]; ok {
		return v.Numbered(number)
	}
	return v.derive(Unannounced, string(name))
}

// Numbered is what was made of the node that was announced by this number.
func (v *View[N]) Numbered(number uint32) (N, error) {
	if entry := &v.kept[number]; entry.isKept {
		return entry.value, nil
	}
	return v.derive(number, v.kept[number].name)
}

// Find is what was made of the node that the host has announced by this number,
// if there is one that could be read: what groups.Member has is such a number.
func (v *View[N]) Find(number uint32) (value N, isFound bool) {
	if uint64(number) >= uint64(len(v.kept)) {
		return value, false
	}
	return v.kept[number].value, v.kept[number].isKept
}

// All are the nodes that the host has announced and that could be read, by
// name: what PreFilter and PreScore look at, which are about no single node.
func (v *View[N]) All() iter.Seq2[string, N] {
	return func(yield func(string, N) bool) {
		for i := range v.kept {
			if entry := &v.kept[i]; entry.isKept && !yield(entry.name, entry.value) {
				return
			}
		}
	}
}

// changed keeps no value of a node that cannot be read: whoever asks for it is told why.
func (v *View[N]) changed(number uint32, name string) {
	for uint32(len(v.kept)) <= number {
		v.kept = append(v.kept, entry[N]{})
	}
	value, err := v.derive(number, name)
	v.kept[number] = entry[N]{value, err == nil, name}
	v.numbers[name] = number
}

func (v *View[N]) removed(number uint32) {
	delete(v.numbers, v.kept[number].name)
	v.kept[number] = entry[N]{}
	v.onRemoved(number)
}

//go:wasmexport nodechanged
func NodeChanged(number uint32) {
	name := string(host.CurrentNodeName())
	for _, view := range views {
		view.changed(number, name)
	}
}

//go:wasmexport noderemoved
func NodeRemoved(number uint32) {
	for _, view := range views {
		view.removed(number)
	}
}
