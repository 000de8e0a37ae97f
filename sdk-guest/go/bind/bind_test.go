package bind

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"

	"kwx.dev/guest"
	"kwx.dev/guest/internal/host"
	"kwx.dev/guest/nodes"
	"kwx.dev/guest/pods"
)

func TestTheAnswer(t *testing.T) {
	pod := pods.As(func(*v1.Pod) string { return "pod" })
	node := nodes.NamesAs(func(name string) string { return name })
	Register(pod, node, func(pod, node string) guest.Status { return guest.Unschedulable(pod + " not on " + node) })
	host.Native.NodeName = "a"
	code := bind()
	if got := fmt.Sprint(code, host.Native.Reasons); got != "2 [pod not on a]" {
		t.Error(got)
	}
}
