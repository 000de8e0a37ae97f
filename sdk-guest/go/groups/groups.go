// Package groups keeps the groups of pods, and which pods are of them. Modules
// that import it are told of them, by hosts that tell that.
package groups

import (
	"iter"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Key names a group, and tells it from others. A plugin keeps it of the current pod.
type Key struct {
	source          source
	namespace, name string
}

// source is how the pods of a group name it.
type source uint32

const (
	byField source = 1
	byLabel source = 2
)

var labels = []string{"scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io/name"}

// KeyOf is the group that a pod names, if it names one. ABI.md has the rule.
func KeyOf(pod *v1.Pod) (key Key, isOfGroup bool) {
	if group := pod.Spec.SchedulingGroup; group != nil && group.PodGroupName != nil && *group.PodGroupName != "" {
		return Key{byField, pod.Namespace, *group.PodGroupName}, true
	}
	for _, label := range labels {
		if name := pod.Labels[label]; name != "" {
			return Key{byLabel, pod.Namespace, name}, true
		}
	}
	return Key{}, false
}

// Group is a group of pods. A plugin does not write to one that the host has
// told of, and keeps none from call to call.
type Group struct {
	Namespace, Name string
	// Minimum is how many of its pods have to have a node before any may run; 0 where nobody says so.
	Minimum int
	// Timeout is for how long its pods may wait for each other; 0 where nobody says so.
	Timeout  time.Duration
	Priority int32
	// Created is when it was created, or the oldest of its pods; zero where nobody says so.
	Created time.Time

	key     Key
	members map[uint32]Member // by the pods' numbers
}

// Member is a pod of a group.
type Member struct {
	State State
	// Node is the number of its node, for Find of a nodes.View, which finds nothing if the pod has none.
	Node uint32
}

// State is where a pod of a group is.
type State int

const (
	// Pending is a pod that has no node.
	Pending State = iota
	// Tentative is a pod that is expected on its node, and may not come.
	Tentative
	// Binding is a pod that is being bound, or waits on Permit.
	Binding
	// Bound is a pod that is on its node.
	Bound
)

// Get is a group, or nil where the host has not told of it, which may be a
// moment behind the scheduler.
func Get(key Key) *Group { return known.get(key) }

// All are the groups that the host has told of.
func All() iter.Seq[*Group] { return known.all() }

// New is a group that no host has told of, as tests need it.
func New(members ...Member) *Group {
	group := &Group{members: map[uint32]Member{}}
	for number, member := range members {
		group.members[uint32(number)] = member
	}
	return group
}

// Len is the number of its pods.
func (g *Group) Len() int { return len(g.members) }

// Members are its pods, in no order.
func (g *Group) Members() iter.Seq[Member] { return maps.Values(g.members) }

// Count is how many of its pods are in one of some states.
func (g *Group) Count(states ...State) int {
	count := 0
	for _, member := range g.members {
		if slices.Contains(states, member.State) {
			count++
		}
	}
	return count
}

// table is what is known of groups and their pods, by their numbers.
type table struct {
	groups  []*Group
	numbers map[Key]uint32
	ofPods  []uint32
}

var known = table{numbers: map[Key]uint32{}}

func (t *table) get(key Key) *Group {
	number, isKnown := t.numbers[key]
	if !isKnown {
		return nil
	}
	return t.groups[number]
}

func (t *table) all() iter.Seq[*Group] {
	return func(yield func(*Group) bool) {
		for _, group := range t.groups {
			if group != nil && !yield(group) {
				return
			}
		}
	}
}

// put takes what is known of the group of a number, or nil for one that is gone. Members of a group that had the number
// before are told to be gone, or of another group, later.
func (t *table) put(number uint32, group *Group) {
	for uint32(len(t.groups)) <= number {
		t.groups = append(t.groups, nil)
	}
	former := t.groups[number]
	t.groups[number] = group
	if former != nil && t.numbers[former.key] == number { // Else it is back by now under another one.
		delete(t.numbers, former.key)
	}
	if group == nil {
		return
	}
	t.numbers[group.key] = number
	group.members = map[uint32]Member{}
	if former != nil && former.key == group.key {
		group.members = former.members
	}
}

// join takes the group that a pod is of; none for one that is of no group any more.
func (t *table) join(pod, group uint32, member Member) {
	for uint32(len(t.ofPods)) <= pod {
		t.ofPods = append(t.ofPods, none)
	}
	if former := t.at(t.ofPods[pod]); former != nil {
		delete(former.members, pod)
	}
	t.ofPods[pod] = group
	if joined := t.at(group); joined != nil {
		joined.members[pod] = member
	}
}

func (t *table) at(number uint32) *Group {
	if uint64(number) >= uint64(len(t.groups)) {
		return nil
	}
	return t.groups[number]
}
