package main

import (
	"fmt"
	"math/rand"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

var (
	// Names of every kind: native, extended, prefixed, and what is no resource of nodes.
	resources = []v1.ResourceName{
		"cpu", "memory", "cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "hugepages-1Gi", "example.com/gpu",
		"example.com/tpu", "attachable-volumes-x", "scheduling.kubernetes.io/y", "requests.example.com/z", "storage",
	}
	quantities = []string{
		"0", "1", "2", "100m", "1500m", "0.5", "2.25", "1500001u", "999999999n", "12e-1", "1E1", "3e0", "128974848000m",
		"129M", "123Mi", "1.5Gi", "0.1Gi", "1Ki", "0.05Pi", "1n", "500u", "500m", "33554433", "1e9", "7.0009765625Ki",
	}
)

// source makes what is random. Every port is another.
type source struct {
	*rand.Rand
	made int
}

func newSource(seed int64) *source { return &source{Rand: rand.New(rand.NewSource(seed))} }

func (s *source) chance(of float64) bool { return s.Float64() < of }

func (s *source) next() int {
	s.made++
	return s.made
}

func (s *source) list(most int) v1.ResourceList {
	found := v1.ResourceList{}
	for range s.Intn(most + 1) {
		found[resources[s.Intn(len(resources))]] = resource.MustParse(quantities[s.Intn(len(quantities))])
	}
	return found
}

func (s *source) node() *v1.Node {
	node := &v1.Node{Status: v1.NodeStatus{Allocatable: s.list(8)}}
	node.Name = "node"
	node.Status.Allocatable["pods"] = *resource.NewQuantity(int64(s.Intn(200)), resource.DecimalSI)
	return node
}

func (s *source) pod() *v1.Pod {
	pod := &v1.Pod{}
	pod.UID = types.UID(fmt.Sprint("uid-", s.next()))
	pod.Name, pod.Namespace = "pod-"+string(pod.UID), "default"
	for range s.Intn(4) {
		pod.Spec.Containers = append(pod.Spec.Containers, s.container())
	}
	for range s.Intn(6) / 2 {
		container := s.container()
		if policy := v1.ContainerRestartPolicyAlways; s.chance(0.5) {
			container.RestartPolicy = &policy
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, container)
	}
	if s.chance(0.3) {
		pod.Spec.Overhead = s.list(3)
	}
	if s.chance(0.4) {
		pod.Spec.Resources = &v1.ResourceRequirements{Requests: s.list(3), Limits: s.list(2)}
	}
	s.report(pod)
	return pod
}

func (s *source) container() v1.Container {
	container := v1.Container{Name: fmt.Sprint("c", s.next()), Image: "image"}
	container.Resources = v1.ResourceRequirements{Requests: s.list(4), Limits: s.list(2)}
	for range s.Intn(6) / 4 {
		port := v1.ContainerPort{ContainerPort: 80, HostPort: int32(s.next() % 60000)}
		port.Protocol = []v1.Protocol{"", v1.ProtocolTCP, v1.ProtocolUDP}[s.Intn(3)]
		port.HostIP = []string{"", "0.0.0.0", "10.0.0.1"}[s.Intn(3)]
		container.Ports = append(container.Ports, port, v1.ContainerPort{ContainerPort: 81})
	}
	return container
}

// resized is the pod with other requests and another status.
func (s *source) resized(pod *v1.Pod) *v1.Pod {
	pod = pod.DeepCopy()
	for i := range pod.Spec.Containers {
		pod.Spec.Containers[i].Resources.Requests = s.list(4)
	}
	s.report(pod)
	return pod
}

// report has kubelet say something of the pod, most often.
func (s *source) report(pod *v1.Pod) {
	pod.Status = v1.PodStatus{Conditions: []v1.PodCondition{{Type: v1.PodReady, Reason: v1.PodReasonInfeasible}}}
	if s.chance(0.3) {
		for range 1 + s.Intn(2) {
			reason := []string{v1.PodReasonInfeasible, v1.PodReasonDeferred, ""}[s.Intn(3)]
			condition := v1.PodCondition{Type: v1.PodResizePending, Reason: reason}
			pod.Status.Conditions = append(pod.Status.Conditions, condition)
		}
	}
	if s.chance(0.3) {
		return
	}
	pod.Status.ContainerStatuses = s.statuses(pod.Spec.Containers)
	pod.Status.InitContainerStatuses = s.statuses(pod.Spec.InitContainers)
	if s.chance(0.4) {
		pod.Status.Resources = &v1.ResourceRequirements{Requests: s.list(2), Limits: s.list(2)}
	}
	if s.chance(0.4) {
		pod.Status.AllocatedResources = s.list(2)
	}
}

func (s *source) statuses(containers []v1.Container) (found []v1.ContainerStatus) {
	for _, container := range containers {
		status := v1.ContainerStatus{Name: container.Name}
		if s.chance(0.7) {
			status.AllocatedResources = s.list(4)
		}
		if s.chance(0.7) {
			status.Resources = &v1.ResourceRequirements{Requests: s.list(4), Limits: s.list(2)}
		}
		if s.chance(0.9) {
			found = append(found, status)
		}
	}
	return found
}
