package lazy

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"kwx.dev/guest/internal/cycle"
	"kwx.dev/guest/internal/host"
	"kwx.dev/guest/internal/residents"
)

func asks(quantities ...string) v1.Container {
	var container v1.Container
	container.Resources.Requests = v1.ResourceList{}
	for i := 0; i < len(quantities); i += 2 {
		container.Resources.Requests[v1.ResourceName(quantities[i])] = resource.MustParse(quantities[i+1])
	}
	return container
}

func expect(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestWhatIsReadOfThePod(t *testing.T) {
	priority := int32(-7)
	pod := v1.Pod{Spec: v1.PodSpec{Priority: &priority, NodeName: "n"}}
	pod.Name, pod.Namespace, pod.UID = "x", "default", "u"
	pod.Labels, pod.Annotations = map[string]string{"team": "a"}, map[string]string{"cost": "9"}
	pod.Spec.Containers = []v1.Container{asks("cpu", "500m"), asks("memory", "1Gi"), asks("cpu", "2", "memory", "1")}
	pod.Status.Message = "waits"
	view := Pods(func(pod Pod) string {
		return fmt.Sprintf("%s/%s %s %q %q %q %d %v %s %s %d", pod.Namespace(), pod.Name(), pod.UID(), pod.Label("team"),
			pod.Label("other"), pod.Annotation("cost"), pod.Priority(), slices.Collect(pod.Requests("cpu")),
			pod.Spec().Text(10), pod.Status().Text(3), len(pod.Bytes()))
	})
	host.Native.Pod, _ = pod.Marshal()
	cycle.Begin()
	expect(t, view.Current(), fmt.Sprintf(`default/x u "a" "" "9" -7 [500m 2] n waits %d`, len(host.Native.Pod)))
	for range (Pod)(host.Native.Pod).Requests("cpu") {
		break
	}
}

func TestWhatIsReadOfANode(t *testing.T) {
	var node v1.Node
	node.Name, node.Spec.Unschedulable = "a", true
	node.Labels, node.Annotations = map[string]string{"zone": "z", "retired": ""}, map[string]string{"rank": "1"}
	node.Status.Allocatable = asks("cpu", "8", "memory", "32Gi").Resources.Requests
	object, _ := node.Marshal()
	host.Native.Nodes = map[string][]byte{"a": object, "broken": []byte("\x0a")}
	view := Nodes(func(node Node) string {
		return fmt.Sprintf("%s %s %q %v %v %s %v %s %q %d", node.Name(), node.Label("zone"), node.Label("rack"),
			node.HasLabel("retired"), node.HasLabel("rack"), node.Annotation("rank"), node.IsUnschedulable(),
			node.Allocatable("memory"), node.Allocatable("gpu"), len(node.Bytes()))
	})
	current := func(name string) string {
		host.Native.NodeName = name
		found, err := view.Current()
		return fmt.Sprint(found, " ", err)
	}
	want := fmt.Sprintf(`a z "" true false 1 true 32Gi "" %d <nil>`, len(object))
	expect(t, current("a"), want)
	residents.NodeChanged(0)
	delete(host.Native.Nodes, "a")
	expect(t, current("a"), want)
	expect(t, current("b"), " node b is not known")
	expect(t, current("broken"), " node broken: malformed protobuf")
}

func TestAPodThatIsNoneIsAPanic(t *testing.T) {
	view := Pods(func(pod Pod) string { return pod.Name() })
	host.Native.Pod = []byte("\x0a")
	cycle.Begin()
	defer func() { expect(t, fmt.Sprint(recover()), "current pod: malformed protobuf") }()
	view.Current()
}

func TestNamesAloneAskForNoObject(t *testing.T) {
	host.Native.NodeName, host.Native.Asked = "a", nil
	found, err := Names(func(name string) string { return name + "!" }).Current()
	expect(t, fmt.Sprint(found, err, host.Native.Asked), "a!<nil> []")
}
