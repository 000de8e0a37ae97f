package pendingpods

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"

	"kwx.dev/guest/internal/podfeed"
)

func named(name string) []byte {
	pod := v1.Pod{}
	pod.Name = name
	object, _ := pod.Marshal()
	return object
}

func TestPodsComeChangeAndGo(t *testing.T) {
	list := As(Pod.Name)
	const none = 1<<32 - 1
	for _, step := range []struct {
		change podfeed.Change
		want   string
	}{
		{podfeed.Change{Pod: 7, Node: none, State: podfeed.There, Object: named("a")}, "1 [a]"},
		{podfeed.Change{Pod: 0, Node: none, State: podfeed.There, Object: named("b")}, "2 [a b]"},
		{podfeed.Change{Pod: 7, Node: none, State: podfeed.There}, "2 [a b]"},
		{podfeed.Change{Pod: 7, Node: none, State: podfeed.There, Object: named("c")}, "2 [b c]"},
		{podfeed.Change{Pod: 3, Node: none, State: podfeed.Gone}, "2 [b c]"},
		{podfeed.Change{Pod: 7, Node: none, State: podfeed.Gone}, "1 [b]"},
		{podfeed.Change{Pod: 0, Node: none, State: podfeed.Gone}, "0 []"},
	} {
		list.tell(step.change)
		if got := fmt.Sprint(list.Len(), slices.Sorted(list.All())); got != step.want {
			t.Errorf("after %+v: got %s, want %s", step.change, got, step.want)
		}
	}
}
