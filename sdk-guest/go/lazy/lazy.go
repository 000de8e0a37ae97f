// Package lazy is in the place of the packages pods and nodes for plugins that read little of pods and nodes: it reads what is
// asked for, and decodes nothing else. A module without the types of k8s.io/api is a fifth as large.
package lazy

import (
	"fmt"

	"kwx.dev/guest/internal/object"
	"kwx.dev/guest/internal/podview"
	"kwx.dev/guest/internal/residents"
)

// Pod is the pod of the cycle.
type Pod = object.Pod

// Node is a node of the cluster.
type Node = object.Node

// Message is a part of a pod or of a node.
type Message = object.Message

// Pods makes each pod a P, once in its cycle, when it is first asked for.
func Pods[P any](derive func(Pod) P) *podview.View[P] {
	return podview.New(func(pod []byte) (made P, err error) {
		if err = object.Check(pod); err == nil {
			made = derive(pod)
		}
		return made, err
	})
}

// Nodes makes each node an N. A host that announces nodes has each made an N once, when it changes; for other hosts it
// is made whenever it is asked for.
func Nodes[N any](derive func(Node) N) *residents.View[N] {
	newNode := func(_ uint32, name string) (made N, err error) {
		node, err := residents.Object(name)
		if err != nil {
			return made, err
		}
		if err := object.Check(node); err != nil {
			return made, fmt.Errorf("node %s: %w", name, err)
		}
		return derive(node), nil
	}
	return residents.NewView(newNode, func(uint32) {})
}

// Names makes the name of each node an N, for plugins that never look at the object: they run where the host has none.
func Names[N any](derive func(name string) N) *residents.View[N] { return residents.Names(derive) }
