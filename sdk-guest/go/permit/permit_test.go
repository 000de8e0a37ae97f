package permit

import (
	"fmt"
	"math"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"kwx.dev/guest"
	"kwx.dev/guest/internal/host"
	"kwx.dev/guest/nodes"
	"kwx.dev/guest/pods"
)

func TestTheCodeIsTheHighHalfAndTheTimeTheLowOne(t *testing.T) {
	for _, step := range []struct {
		status  guest.Status
		timeout time.Duration
		want    string
	}{
		{guest.Success, 0, "0x0 []"},
		{guest.Unschedulable("full"), 0, "0x200000000 [full]"},
		{guest.Wait, 2500 * time.Millisecond, "0x4000009c4 []"},
		{guest.Wait, 0, "0x400000000 []"},
		{guest.Wait, 1, "0x400000001 []"},
		{guest.Wait, time.Millisecond + 1, "0x400000002 []"},
		{guest.Wait, -time.Hour, "0x400000000 []"},
		{guest.Wait, math.MaxUint32 * time.Millisecond, "0x4ffffffff []"},
		{guest.Wait, math.MaxInt64, "0x4ffffffff []"},
	} {
		host.Native.Reasons, host.Native.NodeName = nil, "a"
		node := nodes.NamesAs(func(name string) string { return name })
		Register(pods.As(func(*v1.Pod) int { return 0 }), node, func(int, string) (guest.Status, time.Duration) {
			return step.status, step.timeout
		})
		code := permit()
		if got := fmt.Sprintf("%#x %v", code, host.Native.Reasons); got != step.want {
			t.Errorf("%v: got %s, want %s", step.timeout, got, step.want)
		}
	}
}

func TestANodeThatIsNotKnown(t *testing.T) {
	host.Native.Reasons, host.Native.NodeName = nil, "gone"
	node := nodes.As(func(*v1.Node) int { return 0 })
	Register(pods.As(func(*v1.Pod) int { return 0 }), node, func(int, int) (guest.Status, time.Duration) {
		panic("asked")
	})
	code := permit()
	if got := fmt.Sprintf("%#x %v", code, host.Native.Reasons); got != "0x100000000 [node gone is not known]" {
		t.Error(got)
	}
}
