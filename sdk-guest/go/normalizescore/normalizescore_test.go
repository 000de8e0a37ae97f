package normalizescore

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"

	"kwx.dev/guest"
	"kwx.dev/guest/internal/host"
	"kwx.dev/guest/pods"
)

func normalizes(scores string, status guest.Status) string {
	host.Native.Scores, host.Native.Results, host.Native.Reasons = []byte(scores), nil, nil
	Register(pods.As(func(*v1.Pod) int32 { return 10 }), func(divisor int32, scores map[string]int32) guest.Status {
		for name, score := range scores {
			scores[name] = score / divisor
		}
		return status
	})
	code := normalizescore()
	return fmt.Sprintf("%d %q %q", code, host.Native.Results, host.Native.Reasons)
}

func TestScoresAreChangedInPlace(t *testing.T) {
	want := `0 ["normalized_score_list {\"a\":100,\"b\":-5}"] []`
	if got := normalizes(`{"a": 1000, "b": -50}`, guest.Success); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestAFailureHandsNothingOver(t *testing.T) {
	if got := normalizes(`{"a": 1000}`, guest.Error(fmt.Errorf("broken"))); got != `1 [] ["broken"]` {
		t.Error(got)
	}
	want := `1 [] ["scores of the nodes: unexpected end of JSON input"]`
	if got := normalizes(`{"a"`, guest.Success); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
