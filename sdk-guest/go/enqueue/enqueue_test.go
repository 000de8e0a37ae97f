package enqueue

import (
	"fmt"
	"testing"

	"kwx.dev/guest/internal/host"
)

func TestEventsArePairsOfNumbers(t *testing.T) {
	Register(ClusterEvent{Node, Add | UpdateNodeAllocatable})
	Register(ClusterEvent{Pod, Delete}, ClusterEvent{WildCard, UpdateNodeAnnotation})
	enqueue()
	want := `["cluster_events \x01\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\n\x00\x00\x00@\x00\x00\x00"]`
	if got := fmt.Sprintf("%q", host.Native.Results); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
