// Filters nodes by zone and by what the pod requests of all that they have, and
// prefers those with the most headroom. Other pods do not count.
//
// A pod's labels example.com/zone and example.com/instance-type are its wishes:
// it fits no other zone, and nodes of another type count half.
package main

import (
	"unique"

	v1 "k8s.io/api/core/v1"

	"kwx.dev/guest"
	"kwx.dev/guest/filter"
	"kwx.dev/guest/nodes"
	"kwx.dev/guest/pods"
	"kwx.dev/guest/score"
)

// resources are millicores and bytes.
type resources struct{ cpu, memory int64 }

// label is the value of one, to be compared without a look at its text: few
// values stand on many nodes, and each text is kept once.
type label = unique.Handle[string]

var none = unique.Make("")

// wish is what counts of a pod: what its containers request together, and where
// it wants to be, if anywhere.
type wish struct {
	resources
	zone, instanceType label
}

// room is what counts of a node.
type room struct {
	resources
	zone, instanceType label
}

func init() {
	pod, node := pods.As(newWish), nodes.As(newRoom)
	filter.Register(pod, node, fits)
	score.Register(pod, node, headroom)
}

func main() {}

func newWish(pod *v1.Pod) wish {
	wish := wish{
		zone:         unique.Make(pod.Labels["example.com/zone"]),
		instanceType: unique.Make(pod.Labels["example.com/instance-type"]),
	}
	for i := range pod.Spec.Containers {
		requests := of(pod.Spec.Containers[i].Resources.Requests)
		wish.cpu += requests.cpu
		wish.memory += requests.memory
	}
	return wish
}

func newRoom(node *v1.Node) room {
	return room{
		of(node.Status.Allocatable),
		unique.Make(node.Labels[v1.LabelTopologyZone]),
		unique.Make(node.Labels[v1.LabelInstanceTypeStable]),
	}
}

func of(list v1.ResourceList) resources {
	return resources{list.Cpu().MilliValue(), list.Memory().Value()}
}

func fits(pod wish, node room) guest.Status {
	switch {
	case pod.zone != none && pod.zone != node.zone:
		return guest.Unresolvable("node(s) in another zone")
	case pod.cpu > node.cpu:
		return guest.Unschedulable("Insufficient cpu")
	case pod.memory > node.memory:
		return guest.Unschedulable("Insufficient memory")
	}
	return guest.Success
}

func headroom(pod wish, node room) int32 {
	free := min(percentFree(pod.cpu, node.cpu), percentFree(pod.memory, node.memory))
	if pod.instanceType != none && pod.instanceType != node.instanceType {
		free /= 2
	}
	return int32(free)
}

func percentFree(request, allocatable int64) int64 {
	if allocatable == 0 || request > allocatable {
		return 0
	}
	return 100 * (allocatable - request) / allocatable
}
