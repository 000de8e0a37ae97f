// Package nodes keeps what a plugin needs of each node.
package nodes

import (
	v1 "k8s.io/api/core/v1"

	"kwx.dev/guest/internal/decoded"
	"kwx.dev/guest/internal/residents"
)

// View is every node as an N. A host that announces nodes has each made an N
// once, when it changes; for other hosts it is made whenever it is asked for.
type View[N any] = residents.View[N]

// As makes each node an N. N may be *v1.Node, but the less it holds, the less
// there is to keep and to look through for garbage.
func As[N any](derive func(*v1.Node) N) *View[N] {
	newNode := func(_ uint32, name string) (made N, err error) {
		node, err := decoded.Node(name)
		if err != nil {
			return made, err
		}
		return derive(node), nil
	}
	return residents.NewView(newNode, func(uint32) {})
}

// NamesAs makes the name of each node an N, for plugins that never look at the
// object: they run where the host has none.
func NamesAs[N any](derive func(name string) N) *View[N] { return residents.Names(derive) }
