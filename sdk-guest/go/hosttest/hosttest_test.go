package hosttest_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"kwx.dev/guest"
	"kwx.dev/guest/events"
	"kwx.dev/guest/groups"
	"kwx.dev/guest/hosttest"
)

func node(name string) *v1.Node {
	var node v1.Node
	node.Name = name
	return &node
}

// pod has annotations as keys and values in turn.
func pod(name string, annotations ...string) *v1.Pod {
	pod := v1.Pod{}
	pod.Name, pod.Annotations = name, map[string]string{}
	for i := 0; i < len(annotations); i += 2 {
		pod.Annotations[annotations[i]] = annotations[i+1]
	}
	return &pod
}

func on(name, node string) *v1.Pod {
	pod := pod(name)
	pod.Spec.NodeName = node
	return pod
}

func member(name string) *v1.Pod {
	pod := pod(name)
	pod.Labels = map[string]string{"scheduling.x-k8s.io/pod-group": "job"}
	return pod
}

// two is a host with nodes a and b.
func two(t *testing.T) *hosttest.Host {
	host := hosttest.New(t)
	clear(held)
	host.PutNode(node("a"))
	host.PutNode(node("b"))
	return host
}

func expect(t *testing.T, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

type verdicts = map[string]guest.Status

var full = guest.Unschedulable("no seat is free")

func TestAWholeCycle(t *testing.T) {
	host := two(t)
	host.PutPod(on("x", "b"))
	cycle := host.Schedule(pod("y", "seated", "7"))
	expect(t, cycle.Verdicts, verdicts{"a": guest.Success, "b": guest.Success})
	expect(t, cycle.Scores, map[string]int32{"a": 0, "b": 10})
	annotations := map[string]string{"example.com/seat": "b-7"}
	expect(t, cycle.Binding, hosttest.Binding{Node: "b", Status: guest.Success, Annotations: annotations})
	regarding := events.Reference{Kind: "Pod", APIVersion: "v1", Name: "y", Namespace: "default", UID: "uid of default/y"}
	event := hosttest.Event{
		Regarding: regarding, Related: events.Node("b"), Type: "Normal", Reason: "Seated", Action: "Binding", Note: "0 wait",
	}
	expect(t, host.Events(), []hosttest.Event{event})
	expect(t, host.Log(), []string{"warning: pod y is on b"})
	expect(t, len(host.Events())+len(host.Log()), 0)
	expect(t, host.Begin(pod("z")).Filter(), verdicts{"a": guest.Success, "b": full})
}

func TestTheClusterOfATestIsGoneInTheNext(t *testing.T) {
	host := two(t)
	if err := host.Configure(`{"seats": 1}`); err != nil {
		t.Error(err)
	}
	expect(t, host.Schedule(pod("y")).Binding.Node, "a")
	expect(t, host.Begin(pod("z")).Filter(), verdicts{"a": full, "b": guest.Success})
	host.RemovePod(pod("y"))
	expect(t, host.Begin(pod("z")).Filter(), verdicts{"a": guest.Success, "b": guest.Success})
	host.RemoveNode("a")
	expect(t, host.Begin(pod("z")).Filter(), verdicts{"b": guest.Success})
}

func TestAConfigurationThatIsWrong(t *testing.T) {
	host := two(t)
	err := host.Configure(`{"seat": 1}`)
	want := `guestConfig: json: unknown field "seat"; expected an object as {"seats":2}`
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestWhatPreFilterSays(t *testing.T) {
	host := two(t)
	leftOut := guest.Unresolvable("node(s) not among those that PreFilter names")
	for _, test := range []struct {
		pod  *v1.Pod
		want verdicts
	}{
		{pod("p", "only", "b"), verdicts{"a": leftOut, "b": guest.Success}},
		{pod("p", "prefilter", "skip", "never", "a"), verdicts{"a": guest.Success, "b": guest.Success}},
		{pod("p", "prefilter", "no"), verdicts{"a": guest.Unschedulable("no"), "b": guest.Unschedulable("no")}},
		{pod("p", "never", "a"), verdicts{"a": guest.Unresolvable("never on a"), "b": guest.Success}},
	} {
		expect(t, host.Begin(test.pod).Filter(), test.want)
	}
}

func TestAPodThatNoNodeIsLeftForIsNotBound(t *testing.T) {
	host := two(t)
	cycle := host.Schedule(pod("p", "prefilter", "no"))
	expect(t, cycle.Binding, hosttest.Binding{})
	expect(t, len(cycle.Scores), 0)
}

func TestPreScoreMaySkip(t *testing.T) {
	cycle := two(t).Schedule(pod("p", "prescore", "skip"))
	expect(t, len(cycle.Scores), 0)
	expect(t, cycle.Binding.Node, "a")
}

func TestCandidatesForPreemption(t *testing.T) {
	host := two(t)
	victims := map[string][]*v1.Pod{}
	for _, name := range []string{"a", "b"} {
		for i := range 2 {
			host.PutPod(on(fmt.Sprint(name, i), name))
		}
		victims[name] = []*v1.Pod{on(name+"0", name)}
	}
	for _, test := range []struct {
		pod  *v1.Pod
		want []string
	}{
		{pod("p"), []string{"a", "b"}},
		{pod("p", "never", "a"), []string{"b"}},
		{pod("p", "nominates", "b"), []string{"b"}},
		{pod("p", "nominates", "c"), nil},
		{pod("p", "nominates", "b", "postfilter", "no"), []string{"a", "b"}},
	} {
		expect(t, host.Begin(test.pod).Preempt(victims), test.want)
	}
	victims["a"] = nil
	expect(t, host.Begin(pod("p")).Preempt(victims), []string{"b"})
}

func TestAPodThatIsNotBoundIsPendingAndItsSeatIsFree(t *testing.T) {
	host := two(t)
	for _, point := range []string{"reserve", "permit", "prebind", "bind"} {
		binding := host.Begin(pod("p", point, "no", "seated", "1")).Bind("a")
		expect(t, binding, hosttest.Binding{Node: "a", Status: guest.Unschedulable("no")})
		expect(t, len(held), 0)
	}
	host.Schedule(pod("q"))
	expect(t, host.Events()[0].Note, "1 wait")
	expect(t, host.Begin(pod("p", "bind", "skip")).Bind("a").Status, guest.Success)
}

func TestAGroupIsBoundTogether(t *testing.T) {
	host := two(t)
	host.PutGroup(hosttest.Group{Namespace: "default", Name: "job", Minimum: 2})
	first := host.Begin(member("m0"))
	waits := hosttest.Binding{Node: "a", Status: guest.Wait, Timeout: time.Minute}
	expect(t, first.Bind("a"), waits)
	expect(t, first.Resume(), waits)
	expect(t, host.Begin(member("m1")).Bind("a").Status, guest.Success)
	expect(t, first.Resume().Status, guest.Success)
	expect(t, host.Begin(pod("p")).Filter(), verdicts{"a": full, "b": guest.Success})
}

func TestAWaitMayBeGivenUp(t *testing.T) {
	host := two(t)
	host.PutGroup(hosttest.Group{Namespace: "default", Name: "job", Minimum: 2})
	cycle := host.Begin(member("m0"))
	cycle.Bind("a")
	status := guest.Unschedulable("the wait on Permit was given up")
	expect(t, cycle.GiveUp(), hosttest.Binding{Node: "a", Status: status})
	expect(t, len(held), 0)
}

func TestAPluginMayRejectAPodThatWaits(t *testing.T) {
	host := two(t)
	host.PutGroup(hosttest.Group{Namespace: "default", Name: "job", Minimum: 2})
	cycle := host.Begin(member("m0"))
	cycle.Bind("a")
	host.Begin(pod("p", "rejects", "uid of default/m0")).Filter()
	expect(t, cycle.Binding.Status, guest.Unschedulable("a plugin rejected the waiting pod"))
	expect(t, len(held), 0)
	expect(t, host.Log(), []string{"info: pod p rejects uid of default/m0: true"})
}

func TestGroupsAndTheirMembers(t *testing.T) {
	host := two(t)
	host.PutPod(member("m0"))
	host.ExpectPod(member("m1"), "b")
	created := time.Unix(1<<33, 0)
	host.PutGroup(hosttest.Group{
		Namespace: "default", Name: "job", Minimum: 3, Timeout: time.Minute, Priority: -1, Created: created,
	})
	key, _ := groups.KeyOf(func() *v1.Pod { pod := member("m"); pod.Namespace = "default"; return pod }())
	group := groups.Get(key)
	got := fmt.Sprint(group.Minimum, group.Timeout, group.Priority, group.Created.Equal(created), group.Len(),
		group.Count(groups.Pending), group.Count(groups.Tentative))
	expect(t, got, "3 1m0s -1 true 2 1 1")
	bound := member("m1")
	bound.Spec.NodeName = "b"
	host.PutPod(bound)
	expect(t, []int{group.Count(groups.Bound), group.Count(groups.Tentative)}, []int{1, 0})
	host.RemovePod(member("m0"))
	expect(t, group.Len(), 1)
	host.PutGroup(hosttest.Group{Namespace: "default", Name: "native", IsNative: true})
	expect(t, len(slices.Collect(groups.All())), 2)
	host.RemoveGroup(hosttest.Group{Namespace: "default", Name: "job"})
	expect(t, groups.Get(key) == nil, true)
}
