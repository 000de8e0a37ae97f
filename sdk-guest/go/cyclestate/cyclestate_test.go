package cyclestate

import (
	"testing"

	"kwx.dev/guest"
	"kwx.dev/guest/internal/cycle"
)

func TestWhatPreFilterWritesLastsForItsCycle(t *testing.T) {
	type data struct {
		pods  int
		names []string
	}
	state := New[data]()
	var found []data
	cycle.PreFilter = func() guest.Status {
		found = append(found, *state)
		state.pods = len(found)
		return guest.Success
	}
	for want := range 3 {
		if code := cycle.Begin(); code != 0 {
			t.Error(code)
		}
		state.names = append(state.names, "a")
		if state.pods != want+1 || len(state.names) != 1 {
			t.Errorf("cycle %d: %+v", want, *state)
		}
	}
	for i, data := range found {
		if data.pods != 0 || data.names != nil {
			t.Errorf("cycle %d began with %+v", i, data)
		}
	}
}
