package postbind

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"kwx.dev/guest/internal/host"
	"kwx.dev/guest/nodes"
	"kwx.dev/guest/pods"
)

func TestThePluginIsToldThatThePodIsBound(t *testing.T) {
	var told []string
	node := nodes.NamesAs(func(name string) string { return name })
	Register(pods.As(func(*v1.Pod) string { return "pod" }), node, func(pod, node string) {
		told = append(told, pod+" on "+node)
	})
	host.Native.NodeName = "a"
	postbind()
	if len(told) != 1 || told[0] != "pod on a" {
		t.Error(told)
	}
}
