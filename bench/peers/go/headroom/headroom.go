// Package headroom is the policy of all peers: a node has to have room for the pod, and is the better the more is left
// of it. It knows the types of the API alone, so that the extender does not link what the scheduler's plugins do.
package headroom

import v1 "k8s.io/api/core/v1"

const (
	zoneWish         = "example.com/zone"
	instanceTypeWish = "example.com/instance-type"

	otherZone          = "node(s) in another zone"
	insufficientCPU    = "Insufficient cpu"
	insufficientMemory = "Insufficient memory"
)

// Headroom is what a pod requests, and what its labels wish.
type Headroom struct {
	MilliCPU, Memory   int64
	Zone, InstanceType string
}

// New reads a pod.
func New(pod *v1.Pod) Headroom {
	h := Headroom{Zone: pod.Labels[zoneWish], InstanceType: pod.Labels[instanceTypeWish]}
	for i := range pod.Spec.Containers {
		requests := pod.Spec.Containers[i].Resources.Requests
		h.MilliCPU += requests.Cpu().MilliValue()
		h.Memory += requests.Memory().Value()
	}
	return h
}

// Allocatable is what a node has for pods. The framework's Resource is one, and so is Listed.
type Allocatable interface {
	GetMilliCPU() int64
	GetMemory() int64
}

// Listed is what a node's status tells, for those who have nothing but the node.
type Listed v1.ResourceList

// GetMilliCPU reads a quantity.
func (l Listed) GetMilliCPU() int64 {
	list := v1.ResourceList(l)
	return list.Cpu().MilliValue()
}

// GetMemory reads a quantity.
func (l Listed) GetMemory() int64 {
	list := v1.ResourceList(l)
	return list.Memory().Value()
}

// Filter tells why a node does not pass, and whether preemption cannot help; the reason is empty for one that passes.
func (h Headroom) Filter(node *v1.Node, allocatable Allocatable) (reason string, unresolvable bool) {
	switch {
	case h.Zone != "" && node.Labels[v1.LabelTopologyZone] != h.Zone:
		return otherZone, true
	case h.MilliCPU > allocatable.GetMilliCPU():
		return insufficientCPU, false
	case h.Memory > allocatable.GetMemory():
		return insufficientMemory, false
	}
	return "", false
}

// Score is the percentage that is left of what is scarcer, CPU or memory; half of it on another type of instance than wished.
func (h Headroom) Score(node *v1.Node, allocatable Allocatable) int64 {
	score := min(left(h.MilliCPU, allocatable.GetMilliCPU()), left(h.Memory, allocatable.GetMemory()))
	if h.InstanceType != "" && node.Labels[v1.LabelInstanceTypeStable] != h.InstanceType {
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
