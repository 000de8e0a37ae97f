package main

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"peers/plugin"
	"peers/protocol"
)

// native calls plugins, in the order of pkg/scheduler/schedule_one.go, one node after the other.
type native struct {
	ctx     context.Context
	plugins []*plugin.Plugin
}

func newNative(ctx context.Context, count int) (*native, error) {
	if count < 1 {
		return nil, fmt.Errorf("-plugins is %d: there must be one at least", count)
	}
	n := &native{ctx: ctx}
	for range count {
		made, err := plugin.New(ctx, nil, nil)
		if err != nil {
			return nil, err
		}
		n.plugins = append(n.plugins, made.(*plugin.Plugin))
	}
	return n, nil
}

func (n *native) run(pod *v1.Pod, nodes []fwk.NodeInfo) (*protocol.Cycle, func() *protocol.Answer, error) {
	// All have the same name, so that each needs a state of its own.
	states := make([]*framework.CycleState, len(n.plugins))
	begun := time.Now()
	kept, rejected, failed := n.filter(states, pod, nodes)
	played := &protocol.Cycle{Filter: within(begun)}
	var scores fwk.NodeScoreList
	if failed == nil && scored(kept) {
		begun = time.Now()
		scores, failed = n.score(states, pod, kept)
		verb := within(begun)
		played.Prioritize = &verb
	}
	return played, func() *protocol.Answer { return answer(kept, rejected, scores) }, failed.AsError()
}

func within(begun time.Time) protocol.Verb {
	seconds := time.Since(begun).Seconds()
	return protocol.Verb{Seconds: seconds, Parts: map[string]float64{"guest": seconds}}
}

func (n *native) filter(states []*framework.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) (
	kept []fwk.NodeInfo, rejected map[string]*fwk.Status, failed *fwk.Status,
) {
	for i, each := range n.plugins {
		states[i] = framework.NewCycleState()
		if _, status := each.PreFilter(n.ctx, states[i], pod, nodes); !status.IsSuccess() {
			return nil, nil, status
		}
	}
	kept = make([]fwk.NodeInfo, 0, len(nodes))
	rejected = map[string]*fwk.Status{}
	for _, node := range nodes {
		switch status := n.filterNode(states, pod, node); {
		case status.IsSuccess():
			kept = append(kept, node)
		case status.IsRejected():
			rejected[node.Node().Name] = status
		default:
			return nil, nil, status
		}
	}
	return kept, rejected, nil
}

func (n *native) filterNode(states []*framework.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	for i, each := range n.plugins {
		if status := each.Filter(n.ctx, states[i], pod, node); !status.IsSuccess() {
			return status
		}
	}
	return nil
}

// score gives nodes the mean of the plugins' scores.
func (n *native) score(states []*framework.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) (fwk.NodeScoreList, *fwk.Status) {
	scores := make(fwk.NodeScoreList, len(nodes))
	for i, node := range nodes {
		sum := int64(0)
		for at, each := range n.plugins {
			score, status := each.Score(n.ctx, states[at], pod, node)
			if !status.IsSuccess() {
				return nil, status
			}
			sum += score
		}
		scores[i] = fwk.NodeScore{Name: node.Node().Name, Score: sum / int64(len(n.plugins))}
	}
	return scores, nil
}

// answer is what a cycle came to: a node without a score has 0.
func answer(kept []fwk.NodeInfo, rejected map[string]*fwk.Status, scores fwk.NodeScoreList) *protocol.Answer {
	found := &protocol.Answer{Rejected: map[string]protocol.Status{}, Scores: map[string]int64{}}
	for name, status := range rejected {
		found.Rejected[name] = protocol.Status{Code: int(status.Code()), Reason: status.Message()}
	}
	for _, node := range kept {
		found.Scores[node.Node().Name] = 0
	}
	for _, each := range scores {
		found.Scores[each.Name] = each.Score
	}
	return found
}
