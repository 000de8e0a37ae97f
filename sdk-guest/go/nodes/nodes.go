// Package nodes keeps what a plugin needs of each node.
package nodes

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"guest/internal/host"
)

// View is every node as an N. A host that announces nodes has each made an N
// once, when it changes; for other hosts it is made whenever it is asked for.
type View[N any] struct {
	derive  func(name string) (N, error)
	kept    []entry[N] // by number
	numbers map[string]uint32
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

// As makes each node an N. N may be *v1.Node, but the less it holds, the less
// there is to keep and to look through for garbage.
func As[N any](derive func(*v1.Node) N) *View[N] {
	return register(func(name string) (N, error) {
		node, err := object(name)
		if err != nil {
			var none N
			return none, err
		}
		return derive(node), nil
	})
}

// NamesAs makes the name of each node an N, for plugins that never look at the
// object: they run where the host has none.
func NamesAs[N any](derive func(name string) N) *View[N] {
	return register(func(name string) (N, error) { return derive(name), nil })
}

func register[N any](derive func(name string) (N, error)) *View[N] {
	view := &View[N]{derive: derive, numbers: map[string]uint32{}}
	views = append(views, view)
	return view
}

func object(name string) (*v1.Node, error) {
	contents := host.Node(name)
	if len(contents) == 0 {
		return nil, fmt.Errorf("node %s is not known", name)
	}
	node := new(v1.Node)
	if err := node.Unmarshal(contents); err != nil {
		return nil, fmt.Errorf("node %s: %w", name, err)
	}
	return node, nil
}

// Current is what was made of the node that the call is about.
func (v *View[N]) Current() (N, error) {
	name := host.CurrentNodeName()
	if number, ok := v.numbers[string(name)]; ok {
		return v.Numbered(number)
	}
	return v.derive(string(name))
}

// Numbered is what was made of the node that was announced by this number.
func (v *View[N]) Numbered(number uint32) (N, error) {
	if entry := &v.kept[number]; entry.isKept {
		return entry.value, nil
	}
	return v.derive(v.kept[number].name)
}

// changed keeps no value of a node that cannot be read: whoever asks for it is told why.
func (v *View[N]) changed(number uint32, name string) {
	for uint32(len(v.kept)) <= number {
		v.kept = append(v.kept, entry[N]{})
	}
	value, err := v.derive(name)
	v.kept[number] = entry[N]{value, err == nil, name}
	v.numbers[name] = number
}

func (v *View[N]) removed(number uint32) {
	delete(v.numbers, v.kept[number].name)
	v.kept[number] = entry[N]{}
}

//go:wasmexport nodechanged
func nodechanged(number uint32) {
	name := string(host.CurrentNodeName())
	for _, view := range views {
		view.changed(number, name)
	}
}

//go:wasmexport noderemoved
func noderemoved(number uint32) {
	for _, view := range views {
		view.removed(number)
	}
}
