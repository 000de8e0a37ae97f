package main

import (
	v1 "k8s.io/api/core/v1"
)

const (
	zoneWish         = "example.com/zone"
	instanceTypeWish = "example.com/instance-type"

	otherZone          = "node(s) in another zone"
	insufficientCPU    = "Insufficient cpu"
	insufficientMemory = "Insufficient memory"
)

// Headroom is the policy: a node has to have room for the pod, and is the better the more is left of it.
type Headroom struct {
	milliCPU, memory   int64
	zone, instanceType string
}

// NewHeadroom reads what a pod requests, and what its labels wish.
func NewHeadroom(pod *v1.Pod) Headroom {
	h := Headroom{zone: pod.Labels[zoneWish], instanceType: pod.Labels[instanceTypeWish]}
	for i := range pod.Spec.Containers {
		requests := pod.Spec.Containers[i].Resources.Requests
		h.milliCPU += requests.Cpu().MilliValue()
		h.memory += requests.Memory().Value()
	}
	return h
}

// Filter tells why a node does not pass, and whether preemption cannot help; the reason is empty for one that passes.
func (h Headroom) Filter(node *v1.Node) (reason string, unresolvable bool) {
	switch {
	case h.zone != "" && node.Labels[v1.LabelTopologyZone] != h.zone:
		return otherZone, true
	case h.milliCPU > node.Status.Allocatable.Cpu().MilliValue():
		return insufficientCPU, false
	case h.memory > node.Status.Allocatable.Memory().Value():
		return insufficientMemory, false
	}
	return "", false
}

// Score is the percentage that is left of what is scarcer, CPU or memory; half of it on another type of instance than wished.
func (h Headroom) Score(node *v1.Node) int64 {
	allocatable := node.Status.Allocatable
	score := min(left(h.milliCPU, allocatable.Cpu().MilliValue()), left(h.memory, allocatable.Memory().Value()))
	if h.instanceType != "" && node.Labels[v1.LabelInstanceTypeStable] != h.instanceType {
		score /= 2
	}
	return score
}

func left(request, allocatable int64) int64 {
	if allocatable == 0 || request > allocatable {
		return 0
	}
	return 100 * (allocatable - request) / allocatable
}
