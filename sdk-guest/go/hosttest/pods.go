//go:build !wasip1

package hosttest

import (
	"encoding/binary"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"kwx.dev/guest/groups"
	"kwx.dev/guest/internal/hooks"
	"kwx.dev/guest/internal/podfeed"
	"kwx.dev/guest/internal/podsonnodes"
	"kwx.dev/guest/internal/residents"
)

// Group is what is known of a group of pods.
type Group struct {
	Namespace, Name string
	// IsNative is whether its pods name it by spec.schedulingGroup, and not by a label.
	IsNative bool
	Minimum  int
	Timeout  time.Duration
	Priority int32
	Created  time.Time
}

// pod is one of the cluster, and where it is.
type pod struct {
	object *v1.Pod
	// node is empty for a pod that has none.
	node  string
	state groups.State
	// isOn is whether the plugin knows it as a pod on a node, and isPending as one without.
	isOn, isPending bool
}

// none is the number of no node, and of no group.
const none = residents.Unannounced

// PutPod brings a pod, or another version of one: on its spec.nodeName, or pending if it has none. A pod without
// namespace is in "default".
func (h *Host) PutPod(object *v1.Pod) {
	h.t.Helper()
	state := groups.Pending
	if object.Spec.NodeName != "" {
		state = groups.Bound
	}
	h.place(complete(object), object.Spec.NodeName, state)
}

// ExpectPod brings a pod that is expected on a node, and may not come.
func (h *Host) ExpectPod(object *v1.Pod, node string) {
	h.t.Helper()
	h.place(complete(object), node, groups.Tentative)
}

// RemovePod takes a pod away.
func (h *Host) RemovePod(object *v1.Pod) {
	h.t.Helper()
	if pod, isThere := h.pods.get(keyOf(complete(object))); isThere {
		h.removePod(pod)
	}
}

// PutGroup brings a group, or what is known of it now. Its pods are those that name it.
func (h *Host) PutGroup(group Group) {
	key := group.key()
	number := h.groups.put(key, group)
	tell(hooks.GroupsChanged, group.record(number))
	for _, pod := range h.pods.all() {
		if named, _ := groups.KeyOf(pod.object); named == key {
			h.tellOf(pod)
		}
	}
}

// RemoveGroup takes a group away, of which namespace, name and IsNative count.
func (h *Host) RemoveGroup(group Group) {
	if _, isThere := h.groups.number(group.key()); isThere {
		h.removeGroup(group.key())
	}
}

// complete is a copy with what the API server sees to.
func complete(object *v1.Pod) *v1.Pod {
	object = object.DeepCopy()
	if object.Namespace == "" {
		object.Namespace = v1.NamespaceDefault
	}
	if object.UID == "" {
		object.UID = types.UID("uid of " + keyOf(object))
	}
	return object
}

func keyOf(object *v1.Pod) string { return object.Namespace + "/" + object.Name }

// place has a pod be somewhere, and the plugin told of it.
func (h *Host) place(object *v1.Pod, node string, state groups.State) {
	h.t.Helper()
	if node != "" {
		h.numberOf(node)
	}
	placed, isThere := h.pods.get(keyOf(object))
	if !isThere {
		placed = &pod{}
		h.pods.put(keyOf(object), placed)
	}
	placed.object, placed.node, placed.state = object, node, state
	h.tellOf(placed)
}

func (h *Host) tellOf(pod *pod) {
	h.t.Helper()
	number, _ := h.pods.number(keyOf(pod.object))
	node := uint32(none)
	if pod.node != "" {
		node, _ = h.nodes.number(pod.node)
	}
	object := marshalled(h.t, pod.object)
	if isOn := node != none; isOn || pod.isOn {
		tell(podsonnodes.Changed, podRecord(number, node, pod.onNode(), object))
		pod.isOn = isOn
	}
	if isPending := node == none; isPending || pod.isPending {
		tell(hooks.PendingPodsChanged, podRecord(number, none, pod.pending(), object))
		pod.isPending = isPending
	}
	h.tellMember(number, node, pod)
}

func (p *pod) onNode() podfeed.State {
	switch p.state {
	case groups.Bound:
		return podfeed.There
	case groups.Tentative, groups.Binding:
		return podfeed.Tentative
	}
	return podfeed.Gone
}

func (p *pod) pending() podfeed.State {
	if p.state == groups.Pending {
		return podfeed.There
	}
	return podfeed.Gone
}

// States of members in a record. Pending and bound pods are told apart by their nodes.
var states = map[groups.State]uint32{groups.Pending: 1, groups.Bound: 1, groups.Tentative: 2, groups.Binding: 3}

func (h *Host) tellMember(number, node uint32, pod *pod) {
	key, _ := groups.KeyOf(pod.object)
	if group, isKnown := h.groups.number(key); isKnown {
		tell(hooks.MembersChanged, words(number, node, states[pod.state], group))
	} else {
		tell(hooks.MembersChanged, words(number, none, 0, none))
	}
}

func (h *Host) removePod(pod *pod) {
	number, _ := h.pods.number(keyOf(pod.object))
	if pod.isOn {
		tell(podsonnodes.Changed, podRecord(number, none, podfeed.Gone, nil))
	}
	if pod.isPending {
		tell(hooks.PendingPodsChanged, podRecord(number, none, podfeed.Gone, nil))
	}
	tell(hooks.MembersChanged, words(number, none, 0, none))
	h.pods.remove(keyOf(pod.object))
}

func (h *Host) removeGroup(key groups.Key) {
	number, _ := h.groups.number(key)
	h.groups.remove(key)
	for _, pod := range h.pods.all() {
		if named, _ := groups.KeyOf(pod.object); named == key {
			h.tellOf(pod)
		}
	}
	tell(hooks.GroupsChanged, words(number, 0, 0, 0, 0, 0, 0, 0, 0, 0))
}

// key is what a pod of the group names.
func (g Group) key() groups.Key {
	var pod v1.Pod
	pod.Namespace = g.Namespace
	if g.IsNative {
		pod.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &g.Name}
	} else {
		pod.Labels = map[string]string{"scheduling.x-k8s.io/pod-group": g.Name}
	}
	key, _ := groups.KeyOf(&pod)
	return key
}

// record is that of "Records of groups" in ABI.md.
func (g Group) record(number uint32) []byte {
	source := uint32(2)
	if g.IsNative {
		source = 1
	}
	var created int64
	if !g.Created.IsZero() {
		created = g.Created.Unix()
	}
	record := words(number, 1, source, uint32(g.Minimum), uint32(g.Timeout/time.Second), uint32(g.Priority))
	record = binary.LittleEndian.AppendUint64(record, uint64(created))
	record = append(record, words(uint32(len(g.Namespace)), uint32(len(g.Name)))...)
	return append(append(record, g.Namespace...), g.Name...)
}

// podRecord is that of "Records of pods" in ABI.md.
func podRecord(number, node uint32, state podfeed.State, object []byte) []byte {
	if state == podfeed.Gone {
		node, object = none, nil
	}
	return append(words(number, node, uint32(state), uint32(len(object))), object...)
}

func words(numbers ...uint32) []byte {
	var record []byte
	for _, number := range numbers {
		record = binary.LittleEndian.AppendUint32(record, number)
	}
	return record
}

// tell has the plugin told of one record, if it is told of such records.
func tell(changed func(count uint32), record []byte) {
	if changed == nil {
		return
	}
	podfeed.Buffer(uint32(len(record)))
	copy(podfeed.Records(), record)
	changed(1)
}
