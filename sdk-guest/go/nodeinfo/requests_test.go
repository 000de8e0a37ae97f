package nodeinfo

import (
	"fmt"
	"reflect"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// asks has pairs of a resource and its quantity.
func asks(pairs ...string) v1.ResourceRequirements {
	requests := v1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		requests[v1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return v1.ResourceRequirements{Requests: requests}
}

func running(name string, pairs ...string) v1.Container {
	return v1.Container{Name: name, Resources: asks(pairs...)}
}

func sidecar(name string, pairs ...string) v1.Container {
	sidecar, always := running(name, pairs...), v1.ContainerRestartPolicyAlways
	sidecar.RestartPolicy = &always
	return sidecar
}

func reports(name string, allocated, actuated v1.ResourceRequirements) v1.ContainerStatus {
	return v1.ContainerStatus{Name: name, AllocatedResources: allocated.Requests, Resources: &actuated}
}

func infeasible(reason string) []v1.PodCondition {
	return []v1.PodCondition{{Type: v1.PodReady}, {Type: v1.PodResizePending, Reason: reason}}
}

// The framework itself is asked about random pods by tests/nodeinfo. These are the rules, one by one.
func TestWhatAPodRequests(t *testing.T) {
	whole := asks("cpu", "2", "memory", "1Gi")
	part := asks("cpu", "500m")
	for what, test := range map[string]struct {
		pod  v1.Pod
		want string
	}{
		"nothing": {v1.Pod{}, "0m 0 0 [] | 0m 0"},
		"containers together": {
			v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{
				running("a", "cpu", "100m", "memory", "1Ki", "ephemeral-storage", "5"),
				running("b", "cpu", "1", "example.com/gpu", "2", "hugepages-2Mi", "4Mi"),
			}}},
			"1100m 1024 5 [{example.com/gpu 2} {hugepages-2Mi 4194304}] | 1100m 209716224",
		},
		"sums are rounded, not what is added": {
			v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{
				running("a", "cpu", "500u", "memory", "500m"), running("b", "cpu", "500u", "memory", "500m"),
			}}},
			"1m 1 0 [] | 1m 1",
		},
		"zero is a request, none is not": {
			v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{running("a", "cpu", "0"), running("b")}}},
			"0m 0 0 [] | 100m 419430400",
		},
		"the largest init container": {
			v1.Pod{Spec: v1.PodSpec{
				InitContainers: []v1.Container{running("i", "cpu", "3"), running("j", "memory", "2Gi")},
				Containers:     []v1.Container{running("a", "cpu", "1", "memory", "1Gi")},
			}},
			"3000m 2147483648 0 [] | 3000m 2147483648",
		},
		"sidecars beside what runs after them": {
			v1.Pod{Spec: v1.PodSpec{
				InitContainers: []v1.Container{
					running("i", "cpu", "3"), sidecar("s", "cpu", "1"), running("j", "cpu", "4"),
				},
				Containers: []v1.Container{running("a", "cpu", "2")},
			}},
			"5000m 0 0 [] | 5000m 419430400",
		},
		"overhead on top": {
			v1.Pod{Spec: v1.PodSpec{
				Containers: []v1.Container{running("a", "cpu", "1", "memory", "1")},
				Overhead:   asks("cpu", "250m", "memory", "9").Requests,
			}},
			"1250m 10 0 [] | 1250m 10",
		},
		"the pod as a whole in place of its containers": {
			v1.Pod{Spec: v1.PodSpec{
				Containers: []v1.Container{running("a", "cpu", "1", "example.com/gpu", "1"), running("b")},
				Resources:  &whole,
			}},
			"2000m 1073741824 0 [{example.com/gpu 1}] | 2000m 1073741824",
		},
		"what neither the pod nor a container requests": {
			v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{running("a"), running("b")}, Resources: &part}},
			"500m 0 0 [] | 500m 419430400",
		},
		"the most of wished for, granted and set up": {
			v1.Pod{
				Spec: v1.PodSpec{Containers: []v1.Container{running("a", "cpu", "1", "memory", "1")}},
				Status: v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{
					reports("a", asks("cpu", "2", "memory", "1"), asks("cpu", "500m", "memory", "7")),
				}},
			},
			"2000m 7 0 [] | 2000m 7",
		},
		"a wish that cannot be granted does not count": {
			v1.Pod{
				Spec: v1.PodSpec{Containers: []v1.Container{running("a", "cpu", "8")}},
				Status: v1.PodStatus{
					Conditions:        infeasible(v1.PodReasonInfeasible),
					ContainerStatuses: []v1.ContainerStatus{reports("a", asks("cpu", "2"), asks("cpu", "1"))},
				},
			},
			"2000m 0 0 [] | 2000m 209715200",
		},
		"a wish that has to wait counts": {
			v1.Pod{
				Spec: v1.PodSpec{Containers: []v1.Container{running("a", "cpu", "8")}},
				Status: v1.PodStatus{
					Conditions:        infeasible(v1.PodReasonDeferred),
					ContainerStatuses: []v1.ContainerStatus{reports("a", asks("cpu", "2"), asks("cpu", "1"))},
				},
			},
			"8000m 0 0 [] | 8000m 209715200",
		},
		"what kubelet says of the pod as a whole": {
			v1.Pod{
				Spec:   v1.PodSpec{Containers: []v1.Container{running("a", "cpu", "1")}, Resources: &part},
				Status: v1.PodStatus{AllocatedResources: asks("cpu", "3").Requests, Resources: &whole},
			},
			"3000m 1073741824 0 [] | 3000m 1073741824",
		},
		"what is no resource of nodes": {
			v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{
				running("a", "storage", "1", "requests.example.com/a", "2", "sub.kubernetes.io/b", "3",
					"attachable-volumes-c", "4", "cpu", "1", "memory", "1"),
			}}},
			"1000m 1 0 [{attachable-volumes-c 4} {sub.kubernetes.io/b 3}] | 1000m 1",
		},
	} {
		got := PodRequests(&test.pod)
		text := fmt.Sprintf("%dm %d %d %v | %dm %d", got.MilliCPU, got.Memory, got.EphemeralStorage,
			sorted(got.ScalarResources), got.NonZeroMilliCPU, got.NonZeroMemory)
		if text != test.want {
			t.Errorf("%s: got %s, want %s", what, text, test.want)
		}
	}
}

func TestPortsOfWhatRunsForLong(t *testing.T) {
	with := func(container v1.Container, ports ...v1.ContainerPort) v1.Container {
		container.Ports = ports
		return container
	}
	got := PodRequests(&v1.Pod{Spec: v1.PodSpec{
		InitContainers: []v1.Container{
			with(running("i"), v1.ContainerPort{HostPort: 1}), with(sidecar("s"), v1.ContainerPort{HostPort: 2}),
		},
		Containers: []v1.Container{with(running("a"),
			v1.ContainerPort{ContainerPort: 3},
			v1.ContainerPort{HostPort: 4, HostIP: "10.0.0.1", Protocol: v1.ProtocolUDP},
		)},
	}})
	// The init containers come behind the containers on the wire.
	want := []HostPort{{"10.0.0.1", "UDP", 4}, {"0.0.0.0", "TCP", 2}}
	if !reflect.DeepEqual(got.HostPorts, want) {
		t.Errorf("got %v", got.HostPorts)
	}
}

func TestWhatCannotBeRead(t *testing.T) {
	for object, want := range map[string]string{
		"\x0a":             "malformed protobuf",
		"\x12\x02\x12\x05": "malformed protobuf",
		"\x1a\x02\x42\x05": "malformed protobuf",
		// Of field 32, overhead, an entry x: y.
		"\x12\x0b\x82\x02\x08\x0a\x01x\x12\x03\x0a\x01y": "x: " + resource.ErrFormatWrong.Error(),
	} {
		_, err := requestsOf([]byte(object))
		if err == nil || err.Error() != want {
			t.Errorf("%q: %v", object, err)
		}
	}
}
