package prefilterextensions

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"

	"kwx.dev/guest"
	"kwx.dev/guest/internal/cycle"
	"kwx.dev/guest/internal/host"
	"kwx.dev/guest/nodes"
	"kwx.dev/guest/pods"
)

func name(pod *v1.Pod) string { return pod.Name }

func named(name string) []byte {
	pod := v1.Pod{}
	pod.Name = name
	object, _ := pod.Marshal()
	return object
}

func TestEachCallIsAboutItsTarget(t *testing.T) {
	var calls []string
	says := func(call string) func(string, string, string) guest.Status {
		return func(pod, target, node string) guest.Status {
			calls = append(calls, fmt.Sprint(call, " ", pod, " ", target, " ", node))
			return guest.Unschedulable(call)
		}
	}
	node := nodes.NamesAs(func(name string) string { return name })
	Register(pods.As(name), name, node, says("add"), says("remove"))
	host.Native.Pod, host.Native.NodeName, host.Native.Reasons = named("pod"), "a", nil
	cycle.Begin()
	var codes []int32
	for _, target := range []string{"b", "c"} {
		host.Native.Target = named(target)
		codes = append(codes, removepod(), addpod())
	}
	got := fmt.Sprint(calls, codes, host.Native.Reasons)
	want := "[remove pod b a add pod b a remove pod c a add pod c a] [2 2 2 2] [remove add remove add]"
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestATargetThatCannotBeRead(t *testing.T) {
	never := func(string, string, string) guest.Status { panic("asked") }
	Register(pods.As(name), name, nodes.NamesAs(func(name string) string { return name }), never, never)
	host.Native.Target, host.Native.Reasons = []byte("\x0a"), nil
	code := addpod()
	if got := fmt.Sprint(code, host.Native.Reasons); got != "1 [target pod: unexpected EOF]" {
		t.Error(got)
	}
}
