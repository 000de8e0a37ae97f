// Tells what is counted of each node, for tests: it rejects every node, and the reason is what it knows.
package main

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"kwx.dev/guest"
	"kwx.dev/guest/filter"
	"kwx.dev/guest/nodeinfo"
	"kwx.dev/guest/pods"
)

type info = nodeinfo.NodeInfo[string, string]

func init() {
	pod := pods.As(nodeinfo.PodRequests)
	node := nodeinfo.As(func(node *v1.Node) string { return node.Labels["zone"] }, nodeinfo.Pod.Name)
	filter.Register(pod, node, tell)
}

func main() {}

func tell(pod nodeinfo.Requests, node *info) guest.Status {
	var names []string
	for pod := range node.Pods() {
		name := pod.Pod
		if pod.IsTentative {
			name += "?"
		}
		names = append(names, name)
	}
	slices.Sort(names)
	const gpu = "example.com/gpu"
	return guest.Unschedulable(fmt.Sprintf("%s %v %dm %d of %dm %d, %d of %d pods and %d GPUs left, scored %dm %d, asked %dm",
		node.Node, names, node.Requested.MilliCPU, node.Requested.Scalar(gpu),
		node.Allocatable.MilliCPU, node.Allocatable.Scalar(gpu),
		node.Free.AllowedPodNumber, node.Allocatable.AllowedPodNumber, node.Free.Scalar(gpu),
		node.NonZeroRequested.MilliCPU, node.NonZeroRequested.Memory, pod.MilliCPU))
}
