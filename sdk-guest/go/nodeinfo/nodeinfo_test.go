package nodeinfo

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unsafe"

	v1 "k8s.io/api/core/v1"

	"kwx.dev/guest/internal/host"
	"kwx.dev/guest/internal/podfeed"
	"kwx.dev/guest/internal/podsonnodes"
	"kwx.dev/guest/internal/residents"
	"kwx.dev/guest/nodes"
)

func sorted(scalars []ScalarResource) []ScalarResource {
	scalars = slices.Clone(scalars)
	slices.SortFunc(scalars, func(a, b ScalarResource) int { return strings.Compare(a.Name, b.Name) })
	return scalars
}

// tell has the host tell of one pod.
func tell(pod, node uint32, state podfeed.State, object []byte) {
	var record []byte
	for _, number := range []uint32{pod, node, uint32(state), uint32(len(object))} {
		record = binary.LittleEndian.AppendUint32(record, number)
	}
	record = append(record, object...)
	copy(unsafe.Slice((*byte)(podfeed.Buffer(uint32(len(record)))), len(record)), record)
	podsonnodes.Changed(1)
}

func named(name string, pairs ...string) []byte {
	pod := v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{running("c", pairs...)}}}
	pod.Name, pod.Namespace = name, "default"
	object, _ := pod.Marshal()
	return object
}

func announce(number uint32, name string, pairs ...string) {
	node := v1.Node{Status: v1.NodeStatus{Allocatable: asks(pairs...).Requests}}
	node.Name = name
	object, _ := node.Marshal()
	host.Native.NodeName, host.Native.Nodes = name, map[string][]byte{name: object}
	residents.NodeChanged(number)
}

func newView() *nodes.View[*NodeInfo[string, string]] {
	return As(func(node *v1.Node) string { return node.Name }, Pod.Name)
}

// told is what is kept of a node.
func told(view *nodes.View[*NodeInfo[string, string]], number uint32) string {
	info, err := view.Numbered(number)
	if err != nil {
		return err.Error()
	}
	var pods []string
	for pod := range info.Pods() {
		name := pod.Pod
		if pod.IsTentative {
			name += "?"
		}
		pods = append(pods, name)
	}
	slices.Sort(pods)
	return fmt.Sprintf("%s %v %d: %dm %d %v of %dm %d %v, left %dm %d %d %v, scored %dm %d", info.Node, pods, info.Len(),
		info.Requested.MilliCPU, info.Requested.Memory, sorted(info.Requested.ScalarResources),
		info.Allocatable.MilliCPU, info.Allocatable.Memory, sorted(info.Allocatable.ScalarResources),
		info.Free.MilliCPU, info.Free.Memory, info.Free.AllowedPodNumber, sorted(info.Free.ScalarResources),
		info.NonZeroRequested.MilliCPU, info.NonZeroRequested.Memory)
}

func expect(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestPodsComeChangeMoveAndGo(t *testing.T) {
	view := newView()
	announce(0, "a", "cpu", "4", "memory", "100", "pods", "10", "example.com/gpu", "8")
	announce(1, "b", "cpu", "1")
	tell(0, 0, podfeed.There, named("x", "cpu", "1", "memory", "10", "example.com/gpu", "2"))
	tell(3, 0, podfeed.Tentative, named("y", "cpu", "500m", "memory", "1"))
	expect(t, told(view, 0), "a [x y?] 2: 1500m 11 [{example.com/gpu 2}] of 4000m 100 [{example.com/gpu 8}], "+
		"left 2500m 89 8 [{example.com/gpu 6}], scored 1500m 11")
	tell(0, 0, podfeed.There, named("x", "cpu", "2", "memory", "10"))
	tell(3, 0, podfeed.There, nil)
	expect(t, told(view, 0), "a [x y] 2: 2500m 11 [] of 4000m 100 [{example.com/gpu 8}], "+
		"left 1500m 89 8 [{example.com/gpu 8}], scored 2500m 11")
	tell(0, 1, podfeed.Tentative, nil)
	expect(t, told(view, 1), "b [x?] 1: 2000m 10 [] of 1000m 0 [], left -1000m -10 -1 [], scored 2000m 10")
	tell(0, residents.Unannounced, podfeed.Gone, nil)
	tell(3, residents.Unannounced, podfeed.Gone, nil)
	expect(t, told(view, 0), "a [] 0: 0m 0 [] of 4000m 100 [{example.com/gpu 8}], "+
		"left 4000m 100 10 [{example.com/gpu 8}], scored 0m 0")
	expect(t, told(view, 1), "b [] 0: 0m 0 [] of 1000m 0 [], left 1000m 0 0 [], scored 0m 0")
	residents.NodeRemoved(0)
	residents.NodeRemoved(1)
}

func TestANumberOfAPodMayBeAnothers(t *testing.T) {
	view := newView()
	announce(0, "a", "cpu", "4")
	tell(0, 0, podfeed.There, named("x", "cpu", "1", "memory", "1"))
	tell(0, 0, podfeed.There, named("y", "cpu", "2", "memory", "1"))
	expect(t, told(view, 0), "a [y] 1: 2000m 1 [] of 4000m 0 [], left 2000m -1 -1 [], scored 2000m 1")
	tell(0, residents.Unannounced, podfeed.Gone, nil)
	residents.NodeRemoved(0)
}

func TestPodsMayBeToldBeforeTheirNodeAndStayBehindIt(t *testing.T) {
	view := newView()
	tell(0, 2, podfeed.There, named("x", "cpu", "1", "memory", "1"))
	announce(2, "c", "cpu", "4")
	expect(t, told(view, 2), "c [x] 1: 1000m 1 [] of 4000m 0 [], left 3000m -1 -1 [], scored 1000m 1")
	residents.NodeRemoved(2)
	announce(2, "c", "cpu", "5")
	expect(t, told(view, 2), "c [x] 1: 1000m 1 [] of 5000m 0 [], left 4000m -1 -1 [], scored 1000m 1")
	residents.NodeRemoved(2)
	tell(0, residents.Unannounced, podfeed.Gone, nil)
	announce(2, "d", "cpu", "6")
	expect(t, told(view, 2), "d [] 0: 0m 0 [] of 6000m 0 [], left 6000m 0 0 [], scored 0m 0")
	residents.NodeRemoved(2)
}

func TestNothingIsKeptOfANumberThatStandsForNothing(t *testing.T) {
	table := &table[string, string]{newNode: func(node *v1.Node) string { return node.Name }}
	announce(1, "b", "cpu", "1")
	for _, number := range []uint32{1, 2} {
		if _, err := table.node(number, "b"); err != nil {
			t.Fatal(err)
		}
	}
	table.tell(podfeed.Change{Pod: 0, Node: 1, State: podfeed.There, Object: named("x")})
	table.tell(podfeed.Change{Pod: 1, Node: 0, State: podfeed.There, Object: named("y")})
	for _, number := range []uint32{1, 2, 7} {
		table.forget(number)
	}
	table.tell(podfeed.Change{Pod: 0, Node: residents.Unannounced, State: podfeed.Gone})
	table.tell(podfeed.Change{Pod: 1, Node: residents.Unannounced, State: podfeed.Gone})
	if fmt.Sprint(table.nodes) != "[<nil> <nil> <nil>]" {
		t.Error(table.nodes)
	}
}

func TestAPodThatCannotBeReadCountsWithoutRequests(t *testing.T) {
	view := newView()
	announce(0, "a", "cpu", "4")
	host.Native.Logged = nil
	tell(0, 0, podfeed.There, append(named("x", "cpu", "1"), 0x0b))
	expect(t, told(view, 0), "a [x] 1: 0m 0 [] of 4000m 0 [], left 4000m 0 -1 [], scored 0m 0")
	if got := fmt.Sprint(host.Native.Logged[0]); got != "2 pod default/x counts without requests: malformed protobuf" {
		t.Error(got)
	}
	tell(0, residents.Unannounced, podfeed.Gone, nil)
	residents.NodeRemoved(0)
}

func TestPortsThatAreTaken(t *testing.T) {
	view := newView()
	announce(0, "a")
	pod := v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Ports: []v1.ContainerPort{
		{HostPort: 80}, {HostPort: 53, Protocol: v1.ProtocolUDP, HostIP: "10.0.0.1"},
	}}}}}
	object, _ := pod.Marshal()
	tell(0, 0, podfeed.There, object)
	conflicts := func() (found []bool) {
		info, _ := view.Numbered(0)
		for _, port := range []HostPort{
			{"10.0.0.1", "TCP", 80}, {anyIP, "TCP", 80}, {anyIP, "UDP", 80}, {anyIP, "TCP", 81},
			{"10.0.0.1", "UDP", 53}, {"10.0.0.2", "UDP", 53}, {anyIP, "UDP", 53},
		} {
			found = append(found, info.CheckConflict(port))
		}
		return found
	}
	expect(t, fmt.Sprint(conflicts()), "[true true false false true false true]")
	tell(0, residents.Unannounced, podfeed.Gone, nil)
	expect(t, fmt.Sprint(conflicts()), "[false false false false false false false]")
	residents.NodeRemoved(0)
}

func TestEachChangeHasAGenerationOfItsOwn(t *testing.T) {
	view := newView()
	announce(0, "a", "cpu", "4")
	announce(1, "b", "cpu", "4")
	latest := func(number uint32) uint64 {
		info, _ := view.Numbered(number)
		return info.Generation
	}
	for at, step := range []struct {
		change  func()
		changed []uint32
	}{
		{func() {}, nil},
		{func() { tell(0, 0, podfeed.There, named("x", "cpu", "1")) }, []uint32{0}},
		{func() { tell(0, 0, podfeed.Tentative, nil) }, []uint32{0}},
		{func() { tell(0, 1, podfeed.There, nil) }, []uint32{0, 1}},
		{func() { announce(1, "b", "cpu", "5") }, []uint32{1}},
		{func() { tell(0, residents.Unannounced, podfeed.Gone, nil) }, []uint32{1}},
	} {
		before := []uint64{latest(0), latest(1)}
		step.change()
		after := []uint64{latest(0), latest(1)}
		for number := range after {
			isNew := after[number] > max(before[0], before[1])
			if isNew != slices.Contains(step.changed, uint32(number)) || after[0] == after[1] {
				t.Errorf("step %d: %v, then %v", at, before, after)
			}
		}
	}
	residents.NodeRemoved(0)
	residents.NodeRemoved(1)
}

func TestANodeThatIsNotAnnouncedHasNoPods(t *testing.T) {
	view := newView()
	announce(0, "a", "cpu", "4")
	residents.NodeRemoved(0)
	info, err := view.Current()
	if err != nil || info.Node != "a" || info.Len() != 0 || info.Free.MilliCPU != 4000 {
		t.Error(info, err)
	}
}

func TestThatNoPodWasToldIsLoggedOnce(t *testing.T) {
	host.Native.Logged, isWarned = nil, false
	for _, hasTold := range []bool{true, false, false} {
		warnOf(hasTold)
	}
	want := "[1 the host has not told of any pod so far: nodes are taken for empty]"
	if got := fmt.Sprint(host.Native.Logged); got != want {
		t.Error(got)
	}
}
