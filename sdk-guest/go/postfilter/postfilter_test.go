package postfilter

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"

	"kwx.dev/guest"
	"kwx.dev/guest/internal/host"
	"kwx.dev/guest/pods"
)

func TestTheNominatedNode(t *testing.T) {
	for _, step := range []struct {
		statuses, nominated string
		status              guest.Status
		want                string
	}{
		{`{"a": 2, "b": 3}`, "a", guest.Success, `0x100000000 ["nominated_node_name a"] [] map[a:{2 } b:{3 }]`},
		{`{"a": 2}`, "", guest.Unschedulable("none will do"), `0x2 [] ["none will do"] map[a:{2 }]`},
		{`{}`, "", guest.Success, `0x0 [] [] map[]`},
	} {
		host.Native.Statuses, host.Native.Results, host.Native.Reasons = []byte(step.statuses), nil, nil
		var asked map[string]guest.Status
		Register(pods.As(func(*v1.Pod) int { return 0 }), func(_ int, nodes map[string]guest.Status) (string, guest.Status) {
			asked = nodes
			return step.nominated, step.status
		})
		code := postfilter()
		if got := fmt.Sprintf("%#x %q %q %v", code, host.Native.Results, host.Native.Reasons, asked); got != step.want {
			t.Errorf("got %s, want %s", got, step.want)
		}
	}
}

func TestStatusesAreCompared(t *testing.T) {
	host.Native.Statuses = []byte(`{"a": 3}`)
	Register(pods.As(func(*v1.Pod) int { return 0 }), func(_ int, nodes map[string]guest.Status) (string, guest.Status) {
		if nodes["a"] != guest.Unresolvable("") {
			t.Errorf("%v", nodes)
		}
		return "", guest.Success
	})
	postfilter()
}

func TestStatusesThatCannotBeRead(t *testing.T) {
	host.Native.Statuses, host.Native.Reasons = []byte(`{"a": "2"}`), nil
	code := postfilter()
	want := "[statuses of the nodes: json: cannot unmarshal string into Go value of type int32]"
	if got := fmt.Sprint(host.Native.Reasons); code != 1 || got != want {
		t.Error(code, got)
	}
}
