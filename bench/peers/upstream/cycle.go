package main

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"peers/protocol"
)

// extensions are those of a plugin, nil where it has none.
type extensions struct {
	name      string
	preFilter framework.PreFilterPlugin
	filter    framework.FilterPlugin
	preScore  framework.PreScorePlugin
	score     framework.ScorePlugin
}

func extensionsOf(plugin framework.Plugin) extensions {
	e := extensions{name: plugin.Name()}
	e.preFilter, _ = plugin.(framework.PreFilterPlugin)
	e.filter, _ = plugin.(framework.FilterPlugin)
	e.preScore, _ = plugin.(framework.PreScorePlugin)
	e.score, _ = plugin.(framework.ScorePlugin)
	return e
}

// cycle is a pod's scheduling cycle, in the order of pkg/scheduler/schedule_one.go. Its nodes are looked at one after the
// other: a plugin has one guest for a cycle, and a lock around it.
type cycle struct {
	ctx     context.Context
	plugins []extensions
	state   *framework.CycleState
	pod     *v1.Pod

	kept     []*framework.NodeInfo
	rejected map[string]*framework.Status
	// scores are those of the kept nodes, 0 where no plugin scores, and of the only one.
	scores []int64
}

func (c *cycle) run(nodes []*framework.NodeInfo) (played *protocol.Cycle, failed *framework.Status) {
	begun := time.Now()
	if failed = c.filter(nodes); failed != nil {
		return nil, failed
	}
	played = &protocol.Cycle{Filter: within(begun)}
	c.scores = make([]int64, len(c.kept))
	if len(c.kept) <= 1 {
		return played, nil
	}
	begun = time.Now()
	if failed = c.prioritize(); failed != nil {
		return nil, failed
	}
	verb := within(begun)
	played.Prioritize = &verb
	return played, nil
}

func within(begun time.Time) protocol.Verb {
	seconds := time.Since(begun).Seconds()
	return protocol.Verb{Seconds: seconds, Parts: map[string]float64{"guest": seconds}}
}

func (c *cycle) filter(nodes []*framework.NodeInfo) (failed *framework.Status) {
	c.rejected = map[string]*framework.Status{}
	filters := make([]framework.FilterPlugin, 0, len(c.plugins))
	for _, each := range c.plugins {
		skip := false
		if each.preFilter != nil {
			result, status := each.preFilter.PreFilter(c.ctx, c.state, c.pod)
			switch skip = status.IsSkip(); {
			case skip:
			case status.IsRejected():
				c.reject(nodes, status)
				return nil
			case !status.IsSuccess():
				return status
			default:
				nodes = c.named(nodes, result, each.name)
			}
		}
		if each.filter != nil && !skip {
			filters = append(filters, each.filter)
		}
	}
	for _, node := range nodes {
		switch status := c.filterNode(filters, node); {
		case status.IsSuccess():
			c.kept = append(c.kept, node)
		case status.IsRejected():
			c.rejected[node.Node().Name] = status
		default:
			return status
		}
	}
	return nil
}

func (c *cycle) filterNode(filters []framework.FilterPlugin, node *framework.NodeInfo) *framework.Status {
	for _, each := range filters {
		if status := each.Filter(c.ctx, c.state, c.pod, node); !status.IsSuccess() {
			return status
		}
	}
	return nil
}

// named are the nodes that PreFilter leaves.
func (c *cycle) named(nodes []*framework.NodeInfo, result *framework.PreFilterResult, plugin string) []*framework.NodeInfo {
	if result.AllNodes() {
		return nodes
	}
	var left, others []*framework.NodeInfo
	for _, node := range nodes {
		if result.NodeNames.Has(node.Node().Name) {
			left = append(left, node)
		} else {
			others = append(others, node)
		}
	}
	reason := fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", []string{plugin})
	c.reject(others, framework.NewStatus(framework.UnschedulableAndUnresolvable, reason))
	return left
}

func (c *cycle) reject(nodes []*framework.NodeInfo, status *framework.Status) {
	for _, node := range nodes {
		c.rejected[node.Node().Name] = status
	}
}

// prioritize gives the nodes that were kept the mean of the plugins' scores. A plugin that skips the pod has no part in it.
func (c *cycle) prioritize() (failed *framework.Status) {
	skipped := sets.New[string]()
	for _, each := range c.plugins {
		if each.preScore == nil {
			continue
		}
		switch status := each.preScore.PreScore(c.ctx, c.state, c.pod, c.kept); {
		case status.IsSkip():
			skipped.Insert(each.name)
		case !status.IsSuccess():
			return status
		}
	}
	count := int64(0)
	for _, each := range c.plugins {
		if each.score == nil || skipped.Has(each.name) {
			continue
		}
		count++
		scores, status := c.scoresOf(each.score)
		if status != nil {
			return status
		}
		for i := range scores {
			c.scores[i] += scores[i].Score
		}
	}
	if count > 1 {
		for i := range c.scores {
			c.scores[i] /= count
		}
	}
	return nil
}

func (c *cycle) scoresOf(plugin framework.ScorePlugin) (framework.NodeScoreList, *framework.Status) {
	scores := make(framework.NodeScoreList, len(c.kept))
	for i, node := range c.kept {
		score, status := plugin.Score(c.ctx, c.state, c.pod, node)
		if !status.IsSuccess() {
			return nil, status
		}
		scores[i] = framework.NodeScore{Name: node.Node().Name, Score: score}
	}
	if normalizer := plugin.ScoreExtensions(); normalizer != nil {
		if status := normalizer.NormalizeScore(c.ctx, c.state, c.pod, scores); !status.IsSuccess() {
			return nil, status
		}
	}
	return scores, nil
}

func (c *cycle) answer() *protocol.Answer {
	found := &protocol.Answer{Rejected: map[string]protocol.Status{}, Scores: map[string]int64{}}
	for name, status := range c.rejected {
		found.Rejected[name] = protocol.Status{Code: int(status.Code()), Reason: status.Message()}
	}
	for i, node := range c.kept {
		found.Scores[node.Node().Name] = c.scores[i]
	}
	return found
}
