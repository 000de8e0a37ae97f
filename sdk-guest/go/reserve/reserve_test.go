package reserve

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"

	"kwx.dev/guest"
	"kwx.dev/guest/internal/host"
	"kwx.dev/guest/nodes"
	"kwx.dev/guest/pods"
)

func TestANodeIsReservedAndFreed(t *testing.T) {
	held := map[string]string{}
	pod := pods.As(func(*v1.Pod) string { return "pod" })
	node := nodes.NamesAs(func(name string) string { return name })
	Register(pod, node, func(pod, node string) guest.Status {
		if _, isHeld := held[node]; isHeld {
			return guest.Unschedulable("held")
		}
		held[node] = pod
		return guest.Success
	}, func(_, node string) { delete(held, node) })
	host.Native.NodeName = "a"
	first, second, while := reserve(), reserve(), fmt.Sprint(held)
	unreserve()
	got := fmt.Sprintf("%d %d %v %s %v", first, second, host.Native.Reasons, while, held)
	if got != "0 2 [held] map[a:pod] map[]" {
		t.Error(got)
	}
}

func TestANodeThatIsNotKnown(t *testing.T) {
	host.Native.NodeName, host.Native.Reasons = "gone", nil
	node := nodes.As(func(*v1.Node) int { return 0 })
	never := func(int, int) guest.Status { panic("asked") }
	Register(pods.As(func(*v1.Pod) int { return 0 }), node, never, func(int, int) { panic("told") })
	code := reserve()
	defer func() {
		got := fmt.Sprint(code, host.Native.Reasons, recover())
		if got != "1 [node gone is not known] node gone is not known" {
			t.Error(got)
		}
	}()
	unreserve()
}
