package filter

import (
	"errors"
	"reflect"
	"testing"

	v1 "k8s.io/api/core/v1"

	"kwx.dev/guest"
	"kwx.dev/guest/internal/host"
	"kwx.dev/guest/nodes"
	"kwx.dev/guest/pods"
)

var answers = map[string]guest.Status{
	"good":    guest.Success,
	"full":    guest.Unschedulable("full"),
	"fuller":  guest.Unschedulable("full"),
	"foreign": guest.Unresolvable("foreign"),
	"mute":    guest.Unresolvable(""),
	"broken":  guest.Error(errors.New("broken")),
}

func register() {
	host.Native.Pod, host.Native.Reasons = nil, nil
	pod := pods.As(func(*v1.Pod) map[string]guest.Status { return answers })
	node := nodes.NamesAs(func(name string) string { return name })
	Register(pod, node, func(pod map[string]guest.Status, node string) guest.Status { return pod[node] })
}

func TestOneNode(t *testing.T) {
	for name, want := range map[string]struct {
		code    int32
		reasons []string
	}{
		"good":    {0, nil},
		"full":    {2, []string{"full"}},
		"foreign": {3, []string{"foreign"}},
		"mute":    {3, nil},
		"broken":  {1, []string{"broken"}},
	} {
		register()
		host.Native.NodeName = name
		code := filter()
		if code != want.code || !reflect.DeepEqual(host.Native.Reasons, want.reasons) {
			t.Errorf("%s: %d %v", name, code, host.Native.Reasons)
		}
	}
}

func TestANodeThatIsNotKnown(t *testing.T) {
	register()
	node := nodes.As(func(*v1.Node) string { return "" })
	Register(pods.As(func(*v1.Pod) int { return 0 }), node, func(int, string) guest.Status { return guest.Success })
	host.Native.NodeName = "a"
	if code := filter(); code != 1 || !reflect.DeepEqual(host.Native.Reasons, []string{"node a is not known"}) {
		t.Error(code, host.Native.Reasons)
	}
}

func TestEachReasonOfACallIsHandedOverOnce(t *testing.T) {
	host.Native.Reasons = nil
	for range 2 {
		reasons.forget()
		var got []uint32
		for _, reason := range []string{"", "full", "full", "foreign", "full", "", "foreign"} {
			got = append(got, reasons.number(reason))
		}
		if want := []uint32{0, 1, 1, 2, 1, 0, 2}; !reflect.DeepEqual(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	if want := []string{"full", "foreign", "full", "foreign"}; !reflect.DeepEqual(host.Native.Reasons, want) {
		t.Error(host.Native.Reasons)
	}
}
