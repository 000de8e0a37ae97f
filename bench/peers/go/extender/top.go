package main

import (
	"cmp"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
)

// top chooses the best nodes. Of equal ones it takes those that it has chosen longest ago, so that pods in a row are spread.
type top struct {
	most int

	mu sync.Mutex
	// chosen is when a node was chosen last, by its name, counted in pods.
	chosen map[string]uint64
	pods   uint64
}

type candidate struct {
	node  *v1.Node
	score int64
}

func newTop(most int) *top {
	return &top{most: most, chosen: map[string]uint64{}}
}

// of are the nodes with the highest scores, the best one first. It holds the lock meanwhile: kube-scheduler asks about one
// pod at a time.
func (t *top) of(nodes []*v1.Node, score func(*v1.Node) int64) []*v1.Node {
	t.mu.Lock()
	defer t.mu.Unlock()
	best := make([]candidate, 0, t.most+1)
	for _, node := range nodes {
		found := candidate{node, score(node)}
		if len(best) == t.most && t.compare(found, best[t.most-1]) >= 0 {
			continue
		}
		at, _ := slices.BinarySearchFunc(best, found, t.compare)
		best = slices.Insert(best, at, found)
		best = best[:min(len(best), t.most)]
	}
	t.pods++
	chosen := make([]*v1.Node, len(best))
	for i, each := range best {
		chosen[i] = each.node
		t.chosen[each.node.Name] = t.pods
	}
	return chosen
}

// compare tells which of two nodes is chosen first: it is negative for the one before.
func (t *top) compare(a, b candidate) int {
	if a.score != b.score {
		return cmp.Compare(b.score, a.score)
	}
	return cmp.Compare(t.chosen[a.node.Name], t.chosen[b.node.Name])
}
