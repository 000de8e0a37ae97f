// Holds the pods of a group back until as many are there as the group needs,
// and puts them where others of it are.
//
// PreFilter: a pod whose group is not known, or has too few pods, is rejected.
// Score: how many of the group's pods are on the node, or expected there.
package main

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"kwx.dev/guest"
	"kwx.dev/guest/cyclestate"
	"kwx.dev/guest/groups"
	"kwx.dev/guest/nodes"
	"kwx.dev/guest/pods"
	"kwx.dev/guest/prefilter"
	"kwx.dev/guest/score"
)

// wish is what counts of a pod.
type wish struct {
	group     groups.Key
	isOfGroup bool
}

var (
	pod  = pods.As(newWish)
	node = nodes.NamesAs(func(name string) string { return name })
	// neighbours is how many pods of the group are on each node, by its name.
	neighbours = cyclestate.New[map[string]int32]()
)

func init() {
	prefilter.Register(pod, admit)
	score.Register(pod, node, count)
}

func main() {}

func newWish(pod *v1.Pod) (made wish) {
	made.group, made.isOfGroup = groups.KeyOf(pod)
	return made
}

func admit(pod wish) (prefilter.Nodes, guest.Status) {
	if !pod.isOfGroup {
		return prefilter.All, guest.Success
	}
	group := groups.Get(pod.group)
	if group == nil {
		return prefilter.All, guest.Unschedulable("the group of the pod is not known yet")
	}
	*neighbours = map[string]int32{}
	for member := range group.Members() {
		if name, isFound := node.Find(member.Node); isFound {
			(*neighbours)[name]++
		}
	}
	return prefilter.All, isThere(group)
}

func isThere(group *groups.Group) guest.Status {
	switch name := group.Namespace + "/" + group.Name; {
	case group.Minimum == 0:
		return guest.Unschedulable(fmt.Sprintf("nobody says how many pods the group %s needs", name))
	case group.Len() < group.Minimum:
		said := fmt.Sprintf("%d of %d pods of the group %s are there", group.Len(), group.Minimum, name)
		return guest.Unschedulable(said)
	}
	return guest.Success
}

func count(_ wish, name string) int32 { return min((*neighbours)[name], 100) }
