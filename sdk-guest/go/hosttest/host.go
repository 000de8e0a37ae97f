//go:build !wasip1

package hosttest

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"kwx.dev/guest/events"
	"kwx.dev/guest/groups"
	"kwx.dev/guest/internal/hooks"
	"kwx.dev/guest/internal/host"
	"kwx.dev/guest/internal/podsonnodes"
	"kwx.dev/guest/internal/residents"
)

// Host is a host with a cluster of its own, which it tells the plugin of.
type Host struct {
	t       testing.TB
	nodes   table[string, *v1.Node]
	pods    table[string, *pod]
	groups  table[groups.Key, Group]
	onCycle *Cycle
	waiting map[string]*Cycle // by the pods' UIDs
}

// Event is what a plugin recorded by events.Eventf.
type Event struct {
	Regarding, Related         events.Reference
	Type, Reason, Action, Note string
}

var isInUse bool

// New is a host with an empty cluster, until the test ends. The plugin is configured by no text, and has its defaults.
func New(t testing.TB) *Host {
	t.Helper()
	if isInUse {
		t.Fatal("there is one host at a time: end the other test, or share the host with it")
	}
	isInUse = true
	h := &Host{t: t, waiting: map[string]*Cycle{}}
	host.Reset()
	host.Native.Nodes, host.Native.Waiting = map[string][]byte{}, map[string]bool{}
	h.begin()
	t.Cleanup(h.end)
	return h
}

// begin tells that the host knows all pods, of which there are none.
func (h *Host) begin() {
	podsonnodes.Changed(0)
	if hooks.PendingPodsChanged != nil {
		hooks.PendingPodsChanged(0)
	}
}

// end leaves the plugin to the next test as it was.
func (h *Host) end() {
	for _, pod := range h.pods.all() {
		h.removePod(pod)
	}
	for key := range h.groups.all() {
		h.removeGroup(key)
	}
	for name := range h.nodes.all() {
		h.RemoveNode(name)
	}
	if err := configure(""); err != nil {
		h.t.Error(err)
	}
	host.Reset()
	isInUse = false
}

// Configure is a guestConfig from now on, for the whole of the plugin: what func init has derived of another one stays.
// All nodes and pods are told again. The error is what guest.Config ends the program with.
func (h *Host) Configure(guestConfig string) error {
	if err := configure(guestConfig); err != nil {
		return err
	}
	h.onCycle = nil
	for _, node := range h.nodes.all() {
		h.PutNode(node)
	}
	for _, pod := range h.pods.all() {
		h.tellOf(pod)
	}
	return nil
}

func configure(guestConfig string) error {
	var problems []error
	for _, take := range hooks.Configs {
		problems = append(problems, take([]byte(guestConfig)))
	}
	return errors.Join(problems...)
}

// Events are those that the plugin has recorded since they were last asked for.
func (h *Host) Events() []Event {
	h.t.Helper()
	var found []Event
	for _, text := range host.Native.Events {
		var told struct {
			RegardingReference, RelatedReference events.Reference
			Eventtype, Reason, Action, Note      string
		}
		if err := json.Unmarshal([]byte(text), &told); err != nil {
			h.t.Fatalf("event %s: %v", text, err)
		}
		event := Event{told.RegardingReference, told.RelatedReference, told.Eventtype, told.Reason, told.Action, told.Note}
		found = append(found, event)
	}
	host.Native.Events = nil
	return found
}

var severities = strings.NewReplacer("0 ", "info: ", "1 ", "warning: ", "2 ", "error: ")

// Log has the lines that the plugin has logged since it was last asked for, as in "warning: rack is full".
func (h *Host) Log() []string {
	var found []string
	for _, line := range host.Native.Logged {
		found = append(found, severities.Replace(line[:2])+line[2:])
	}
	host.Native.Logged = nil
	return found
}

// PutNode brings a node, or another version of one.
func (h *Host) PutNode(node *v1.Node) {
	h.t.Helper()
	number := h.nodes.put(node.Name, node)
	host.Native.Nodes[node.Name] = marshalled(h.t, node)
	host.Native.NodeName = node.Name
	residents.NodeChanged(number)
	host.Native.NodeName = ""
}

// RemoveNode takes a node away. Its pods stay until they are removed too.
func (h *Host) RemoveNode(name string) {
	h.t.Helper()
	number := h.numberOf(name)
	h.nodes.remove(name)
	delete(host.Native.Nodes, name)
	residents.NodeRemoved(number)
}

func (h *Host) numberOf(node string) uint32 {
	h.t.Helper()
	number, isThere := h.nodes.number(node)
	if !isThere {
		h.t.Fatalf("node %s is not there: put it first", node)
	}
	return number
}

// nodeNames are sorted, as is the order in which the plugin is asked about nodes.
func (h *Host) nodeNames() []string { return slices.Sorted(maps.Keys(h.nodes.entries)) }

func marshalled(t testing.TB, object interface{ Marshal() ([]byte, error) }) []byte {
	t.Helper()
	text, err := object.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return text
}
