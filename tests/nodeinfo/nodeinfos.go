package main

import (
	"encoding/binary"
	"fmt"
	"maps"
	"unsafe"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"kwx.dev/guest/internal/host"
	"kwx.dev/guest/internal/podfeed"
	"kwx.dev/guest/internal/podsonnodes"
	"kwx.dev/guest/internal/residents"
	"kwx.dev/guest/nodeinfo"
	"kwx.dev/guest/nodes"
)

// The node's number.
const number = 3

// nodeInfos are the same node twice: as the framework knows it, and as a guest does.
type nodeInfos struct {
	theirs *framework.NodeInfo
	ours   *nodes.View[*nodeinfo.NodeInfo[string, string]]
	// pods are those on the node, by number; nil where there is none.
	pods []*v1.Pod
}

func newNodeInfos(node *v1.Node) *nodeInfos {
	both := &nodeInfos{
		theirs: framework.NewNodeInfo(),
		ours:   nodeinfo.As(func(node *v1.Node) string { return node.Name }, nodeinfo.Pod.UID),
		pods:   make([]*v1.Pod, 40),
	}
	both.announce(node)
	return both
}

func (n *nodeInfos) announce(node *v1.Node) {
	n.theirs.SetNode(node)
	host.Native.NodeName, host.Native.Nodes = node.Name, map[string][]byte{node.Name: must(node.Marshal())}
	residents.NodeChanged(number)
}

// step has a pod come, change or go, or the node change.
func (n *nodeInfos) step(source *source) (*v1.Pod, error) {
	if source.chance(0.05) {
		n.announce(source.node())
	}
	at := source.Intn(len(n.pods))
	before := n.pods[at]
	if before != nil {
		if err := n.theirs.RemovePod(klog.Background(), before); err != nil {
			return before, err
		}
	}
	if before != nil && source.chance(0.4) {
		n.pods[at] = nil
		tell(uint32(at), residents.Unannounced, podfeed.Gone, nil)
		return before, nil
	}
	pod := source.pod()
	if before != nil && source.chance(0.5) {
		pod = source.resized(before)
	}
	// Both read the same bytes, in which an empty list is none.
	object, told := must(pod.Marshal()), new(v1.Pod)
	if err := told.Unmarshal(object); err != nil {
		return pod, err
	}
	n.pods[at] = told
	n.theirs.AddPod(told)
	tell(uint32(at), number, podfeed.State(1+source.Intn(2)), object)
	return told, nil
}

func tell(pod, node uint32, state podfeed.State, object []byte) {
	var record []byte
	for _, number := range []uint32{pod, node, uint32(state), uint32(len(object))} {
		record = binary.LittleEndian.AppendUint32(record, number)
	}
	record = append(record, object...)
	copy(unsafe.Slice((*byte)(podfeed.Buffer(uint32(len(record)))), len(record)), record)
	podsonnodes.Changed(1)
}

// difference is an error if the two do not count the same.
func (n *nodeInfos) difference() error {
	ours, err := n.ours.Numbered(number)
	if err != nil {
		return err
	}
	for _, each := range []struct {
		what   string
		theirs *framework.Resource
		ours   *nodeinfo.Resource
	}{
		{"requested", n.theirs.Requested, &ours.Requested},
		{"non-zero requested", n.theirs.NonZeroRequested, &ours.NonZeroRequested},
		{"allocatable", n.theirs.Allocatable, &ours.Allocatable},
		{"free", n.free(), &ours.Free},
	} {
		if theirs, ours := fmt.Sprint(texts(each.theirs)), fmt.Sprint(ourTexts(each.ours)); theirs != ours {
			return fmt.Errorf("%s: the framework counts %s, the guest %s", each.what, theirs, ours)
		}
	}
	return n.differenceOfPods(ours)
}

// free is what is left, which the framework has no word for.
func (n *nodeInfos) free() *framework.Resource {
	free := n.theirs.Allocatable.Clone()
	free.MilliCPU -= n.theirs.Requested.MilliCPU
	free.Memory -= n.theirs.Requested.Memory
	free.EphemeralStorage -= n.theirs.Requested.EphemeralStorage
	free.AllowedPodNumber -= len(n.theirs.Pods)
	for name, value := range n.theirs.Requested.ScalarResources {
		free.AddScalar(name, -value)
	}
	return free
}

func (n *nodeInfos) differenceOfPods(ours *nodeinfo.NodeInfo[string, string]) error {
	theirs, found := map[string]bool{}, map[string]bool{}
	for _, pod := range n.theirs.Pods {
		theirs[string(pod.GetPod().UID)] = true
	}
	for pod := range ours.Pods() {
		found[pod.Pod] = true
	}
	if !maps.Equal(theirs, found) || ours.Len() != len(n.theirs.Pods) {
		return fmt.Errorf("pods: the framework has %v, the guest %v", theirs, found)
	}
	ports := map[string]bool{}
	for ip, each := range n.theirs.UsedPorts {
		for port := range each {
			ports[fmt.Sprint(ip, port.Protocol, port.Port)] = true
		}
	}
	used := map[string]bool{}
	for _, port := range ours.UsedPorts {
		used[fmt.Sprint(port.IP, port.Protocol, port.Port)] = true
	}
	if !maps.Equal(ports, used) {
		return fmt.Errorf("ports: the framework has %v, the guest %v", ports, used)
	}
	return nil
}

// texts leave out what there is nothing of.
func texts(resource *framework.Resource) map[string]int64 {
	found := map[string]int64{
		"cpu": resource.MilliCPU, "memory": resource.Memory, "disk": resource.EphemeralStorage,
		"pods": int64(resource.AllowedPodNumber),
	}
	for name, value := range resource.ScalarResources {
		found[string(name)] = value
	}
	return without0(found)
}

func ourTexts(resource *nodeinfo.Resource) map[string]int64 {
	found := map[string]int64{
		"cpu": resource.MilliCPU, "memory": resource.Memory, "disk": resource.EphemeralStorage,
		"pods": resource.AllowedPodNumber,
	}
	for _, scalar := range resource.ScalarResources {
		found[scalar.Name] = scalar.Value
	}
	return without0(found)
}

func without0(amounts map[string]int64) map[string]int64 {
	maps.DeleteFunc(amounts, func(_ string, amount int64) bool { return amount == 0 })
	return amounts
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
