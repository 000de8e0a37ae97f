package plugin

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

func TestWithoutPreFilter(t *testing.T) {
	const expected = `reading "PreFilterHeadroom" from cycleState: not found`
	pl, state, node := &Plugin{}, framework.NewCycleState(), framework.NewNodeInfo()
	filter := pl.Filter(t.Context(), state, &v1.Pod{}, node)
	_, score := pl.Score(t.Context(), state, &v1.Pod{}, node)
	for _, status := range []*fwk.Status{filter, score} {
		if status.Code() != fwk.Error || status.Message() != expected {
			t.Errorf("got %v", status)
		}
	}
}

func TestPodsThatAreJudgedAlikeHaveOneSignature(t *testing.T) {
	pl := &Plugin{}
	sign := func(labels map[string]string) any {
		pod := &v1.Pod{}
		pod.Labels = labels
		fragments, status := pl.SignPod(t.Context(), pod)
		if !status.IsSuccess() || len(fragments) != 1 || fragments[0].Key != Name {
			t.Fatalf("got %v, %v", fragments, status)
		}
		return fragments[0].Value
	}
	plain, other := sign(nil), sign(map[string]string{"app": "web"})
	wishing := sign(map[string]string{"example.com/zone": "a"})
	if plain != other || plain == wishing {
		t.Errorf("got %v, %v, %v", plain, other, wishing)
	}
}
