package hosttest_test

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"kwx.dev/guest"
	"kwx.dev/guest/bind"
	"kwx.dev/guest/bindingannotations"
	"kwx.dev/guest/cyclestate"
	"kwx.dev/guest/events"
	"kwx.dev/guest/filter"
	"kwx.dev/guest/groups"
	"kwx.dev/guest/handle"
	"kwx.dev/guest/klog"
	"kwx.dev/guest/nodeinfo"
	"kwx.dev/guest/normalizescore"
	"kwx.dev/guest/pendingpods"
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

// The plugin that the tests ask: it has all extension points. A node has seats for pods, as many as the configuration
// says. The pods of a group come together. Annotations of a pod say how it is to fare.

var config = struct {
	Seats int `json:"seats"`
}{Seats: 2}

type seated = nodeinfo.NodeInfo[string, string]

var (
	waiting = pendingpods.As(pendingpods.Pod.Name)
	freed   = cyclestate.New[int]()
	held    = map[string]string{}
)

func init() {
	guest.Config(&config)
	pod := pods.As(func(pod *v1.Pod) *v1.Pod { return pod })
	node := nodeinfo.As(func(node *v1.Node) string { return node.Name }, nodeinfo.Pod.Name)
	prefilter.Register(pod, admit)
	prefilterextensions.Register(pod, func(*v1.Pod) int { return 1 }, node, countless, count)
	filter.Register(pod, node, hasSeat)
	postfilter.Register(pod, nominate)
	prescore.Register(pod, func(pod *v1.Pod) guest.Status { return said(pod, "prescore") })
	score.Register(pod, node, func(_ *v1.Pod, node *seated) int32 { return int32(node.Len()) * 1000 })
	normalizescore.Register(pod, normalize)
	reserve.Register(pod, node, hold, func(pod *v1.Pod, node *seated) { delete(held, pod.Name) })
	bindingannotations.Register(pod, node, seat)
	permit.Register(pod, node, complete)
	prebind.Register(pod, node, func(pod *v1.Pod, _ *seated) guest.Status { return said(pod, "prebind") })
	bind.Register(pod, node, func(pod *v1.Pod, _ *seated) guest.Status { return said(pod, "bind") })
	postbind.Register(pod, node, tell)
}

// said is what the pod's annotation of that name has the plugin say.
func said(pod *v1.Pod, point string) guest.Status {
	switch reason := pod.Annotations[point]; reason {
	case "":
		return guest.Success
	case "skip":
		return guest.Skip
	default:
		return guest.Unschedulable(reason)
	}
}

func admit(pod *v1.Pod) (prefilter.Nodes, guest.Status) {
	if only := pod.Annotations["only"]; only != "" {
		return prefilter.Only(only), guest.Success
	}
	if uid := pod.Annotations["rejects"]; uid != "" {
		klog.Infof("pod %s rejects %s: %v", pod.Name, uid, handle.RejectWaitingPod(uid))
	}
	return prefilter.All, said(pod, "prefilter")
}

func countless(_ *v1.Pod, pods int, _ *seated) guest.Status {
	*freed -= pods
	return guest.Success
}

func count(_ *v1.Pod, pods int, _ *seated) guest.Status {
	*freed += pods
	return guest.Success
}

func hasSeat(pod *v1.Pod, node *seated) guest.Status {
	switch {
	case pod.Annotations["never"] == node.Node:
		return guest.Unresolvable("never on " + node.Node)
	case node.Len()-*freed >= config.Seats:
		return guest.Unschedulable("no seat is free")
	}
	return guest.Success
}

func nominate(pod *v1.Pod, _ map[string]guest.Status) (string, guest.Status) {
	return pod.Annotations["nominates"], said(pod, "postfilter")
}

func normalize(_ *v1.Pod, scores map[string]int32) guest.Status {
	for name := range scores {
		scores[name] /= 100
	}
	return guest.Success
}

func hold(pod *v1.Pod, node *seated) guest.Status {
	held[pod.Name] = node.Node
	return said(pod, "reserve")
}

func seat(pod *v1.Pod, node *seated) map[string]string {
	if pod.Annotations["seated"] == "" {
		return nil
	}
	return map[string]string{"example.com/seat": node.Node + "-" + pod.Annotations["seated"]}
}

func complete(pod *v1.Pod, _ *seated) (guest.Status, time.Duration) {
	key, isOfGroup := groups.KeyOf(pod)
	if !isOfGroup {
		return said(pod, "permit"), 0
	}
	group := groups.Get(key)
	if group == nil || group.Count(groups.Binding, groups.Bound) < group.Minimum {
		return guest.Wait, time.Minute
	}
	return guest.Success, 0
}

func tell(pod *v1.Pod, node *seated) {
	events.Eventf(events.Pod(pod), events.Node(node.Node), v1.EventTypeNormal, "Seated", "Binding", "%d wait", waiting.Len())
	klog.Warningf("pod %s is on %s", pod.Name, node.Node)
}
