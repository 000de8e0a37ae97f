// A plugin of every extension point, for tests: what it does is what the pod's
// label says, and what it was asked in a cycle it tells when the pod is bound.
package main

import (
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"kwx.dev/guest"
	"kwx.dev/guest/bind"
	"kwx.dev/guest/bindingannotations"
	"kwx.dev/guest/cyclestate"
	"kwx.dev/guest/enqueue"
	"kwx.dev/guest/events"
	"kwx.dev/guest/filter"
	"kwx.dev/guest/handle"
	"kwx.dev/guest/klog"
	"kwx.dev/guest/nodes"
	"kwx.dev/guest/normalizescore"
	"kwx.dev/guest/permit"
	"kwx.dev/guest/pods"
	"kwx.dev/guest/postbind"
	"kwx.dev/guest/postfilter"
	"kwx.dev/guest/prebind"
	"kwx.dev/guest/prefilter"
	"kwx.dev/guest/prefilterextensions"
	"kwx.dev/guest/prescore"
	"kwx.dev/guest/reserve"
	"kwx.dev/guest/score"
)

// pod is what counts of a pod.
type pod struct {
	does string
	name events.Reference
}

// cycle is what the plugin keeps of a pod's cycle.
type cycle struct {
	asked []string
	room  int
}

var state = cyclestate.New[cycle]()

func init() {
	pod, node := pods.As(newPod), nodes.NamesAs(func(name string) string { return name })
	enqueue.Register(
		enqueue.ClusterEvent{Resource: enqueue.Node, ActionType: enqueue.Add | enqueue.UpdateNodeLabel},
		enqueue.ClusterEvent{Resource: enqueue.Pod, ActionType: enqueue.Delete},
	)
	prefilter.Register(pod, preFilter)
	prefilterextensions.Register(pod, func(pod *v1.Pod) string { return pod.Name }, node, addPod, removePod)
	filter.Register(pod, node, fits)
	postfilter.Register(pod, postFilter)
	prescore.Register(pod, step("PreScore"))
	score.Register(pod, node, rate)
	normalizescore.Register(pod, normalize)
	reserve.Register(pod, node, stepOn("Reserve"), unreserve)
	bindingannotations.Register(pod, node, annotations)
	permit.Register(pod, node, mayBind)
	prebind.Register(pod, node, stepOn("PreBind"))
	bind.Register(pod, node, skip)
	postbind.Register(pod, node, tell)
}

func main() {}

func newPod(object *v1.Pod) pod { return pod{object.Labels["does"], events.Pod(object)} }

// step is Success, or what the pod's label says of the extension point.
func step(point string) func(pod) guest.Status {
	return func(pod pod) guest.Status {
		state.asked = append(state.asked, point)
		if pod.does == point {
			return guest.Unschedulable("as the pod says")
		}
		return guest.Success
	}
}

func stepOn(point string) func(pod, string) guest.Status {
	return func(pod pod, node string) guest.Status {
		status := step(point)(pod)
		state.asked = append(state.asked, node)
		return status
	}
}

func preFilter(pod pod) (prefilter.Nodes, guest.Status) {
	nodes := prefilter.All
	if only, isNarrowed := strings.CutPrefix(pod.does, "only:"); isNarrowed {
		nodes = prefilter.Only(strings.Fields(only)...)
	}
	return nodes, step("PreFilter")(pod)
}

func addPod(_ pod, target, node string) guest.Status {
	klog.Infof("%s on %s", target, node)
	state.room--
	return guest.Success
}

func removePod(_ pod, target, node string) guest.Status {
	klog.Infof("%s not on %s", target, node)
	state.room++
	return guest.Success
}

func fits(pod pod, _ string) guest.Status {
	if pod.does == "preempts" && state.room == 0 {
		return guest.Unschedulable("no room")
	}
	return step("Filter")(pod)
}

// postFilter nominates the first node by name that other pods could leave.
func postFilter(_ pod, nodes map[string]guest.Status) (string, guest.Status) {
	var candidates []string
	for name, status := range nodes {
		if status == guest.Unschedulable("") {
			candidates = append(candidates, name)
		}
	}
	if len(candidates) == 0 {
		return "", guest.Unschedulable("no candidate")
	}
	return slices.Min(candidates), guest.Success
}

// rate is out of bounds: 1,000 for each letter of the name.
func rate(_ pod, node string) int32 { return int32(1000 * len(node)) }

func normalize(_ pod, scores map[string]int32) guest.Status {
	var most int32
	for _, score := range scores {
		most = max(most, score)
	}
	for name, score := range scores {
		scores[name] = 100 * score / most
	}
	return guest.Success
}

func unreserve(_ pod, node string) { klog.Infof("not on %s", node) }

func annotations(pod pod, node string) map[string]string {
	state.asked = append(state.asked, "annotations")
	if pod.does == "no annotations" {
		return nil
	}
	return map[string]string{"example.com/node": node, "example.com/asked": strings.Join(state.asked, " ")}
}

func mayBind(pod pod, node string) (guest.Status, time.Duration) {
	if pod.does == "waits" {
		return guest.Wait, 1500 * time.Millisecond
	}
	return stepOn("Permit")(pod, node), 0
}

// skip ends the wait of a pod in whose place this one is bound.
func skip(pod pod, node string) guest.Status {
	if replaced, isReplacing := strings.CutPrefix(pod.does, "replaces:"); isReplacing {
		klog.Infof("replaced %t", handle.RejectWaitingPod(replaced))
	}
	if status := stepOn("Bind")(pod, node); status != guest.Success {
		return status
	}
	return guest.Skip
}

func tell(pod pod, node string) {
	events.Eventf(pod.name, events.Node(node), v1.EventTypeNormal, "Bound", "Binding", "after %d", len(state.asked))
	klog.Infof("%s", strings.Join(state.asked, " "))
}
