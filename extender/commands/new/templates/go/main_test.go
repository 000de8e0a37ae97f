package main

import (
	"maps"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kwx.dev/guest"
	"kwx.dev/guest/hosttest"
)

// cluster is a host with a node of each tier, and a retired one.
func cluster(t *testing.T) *hosttest.Host {
	host := hosttest.New(t)
	for name, labels := range map[string]map[string]string{
		"cheap":  {"example.com/tier": "spot"},
		"steady": {"example.com/tier": "on-demand"},
		"old":    {"example.com/tier": "spot", "example.com/retired": "true"},
	} {
		host.PutNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}})
	}
	return host
}

func pod(labels map[string]string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-1", Labels: labels}}
}

func TestRetiredNodesAreLeftOut(t *testing.T) {
	verdicts := cluster(t).Schedule(pod(nil)).Verdicts
	retired := guest.Unresolvable("node is retired")
	if !maps.Equal(verdicts, map[string]guest.Status{"cheap": guest.Success, "steady": guest.Success, "old": retired}) {
		t.Error(verdicts)
	}
}

func TestNodesOfTheWishedTierAreBest(t *testing.T) {
	host := cluster(t)
	if err := host.Configure(`{"tier": "on-demand"}`); err != nil {
		t.Fatal(err)
	}
	for tier, best := range map[string]string{"": "steady", "spot": "cheap"} {
		scores := host.Schedule(pod(map[string]string{"example.com/tier": tier})).Scores
		if scores[best] != 100 || len(scores) != 2 {
			t.Errorf("tier %q: %v", tier, scores)
		}
	}
}
