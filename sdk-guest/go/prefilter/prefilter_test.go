package prefilter

import (
	"errors"
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"

	"kwx.dev/guest"
	"kwx.dev/guest/internal/cycle"
	"kwx.dev/guest/internal/host"
	"kwx.dev/guest/pods"
)

func TestWhatThePodIsToldOfNodes(t *testing.T) {
	for want, answer := range map[string]struct {
		nodes  Nodes
		status guest.Status
	}{
		"0 [] []":                             {All, guest.Success},
		"0 [] [\"node_names a\\x00\"]":        {Only("a"), guest.Success},
		"0 [] [\"node_names a\\x00b\\x00\"]":  {Only("a", "b"), guest.Success},
		"3 [\"PreFilter leaves no node\"] []": {Only(), guest.Success},
		"5 [] []":                             {Only("a"), guest.Skip},
		"2 [\"too many\"] []":                 {Only("a"), guest.Unschedulable("too many")},
		"1 [\"broken\"] []":                   {All, guest.Error(errors.New("broken"))},
	} {
		host.Native.Reasons, host.Native.Results = nil, nil
		pod := pods.As(func(pod *v1.Pod) int { return len(pod.Name) })
		Register(pod, func(int) (Nodes, guest.Status) { return answer.nodes, answer.status })
		code := cycle.Begin()
		if got := fmt.Sprintf("%d %q %q", code, host.Native.Reasons, host.Native.Results); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestEachCycleIsAboutItsPod(t *testing.T) {
	var names []string
	Register(pods.As(func(pod *v1.Pod) string { return pod.Name }), func(name string) (Nodes, guest.Status) {
		names = append(names, name)
		return All, guest.Success
	})
	for _, name := range []string{"a", "b"} {
		pod := v1.Pod{}
		pod.Name = name
		host.Native.Pod, _ = pod.Marshal()
		cycle.Begin()
	}
	if got := fmt.Sprint(names); got != "[a b]" {
		t.Error(got)
	}
}
