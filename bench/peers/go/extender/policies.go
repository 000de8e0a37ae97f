package main

import (
	v1 "k8s.io/api/core/v1"

	"peers/headroom"
)

// policies judge one pod.
type policies []headroom.Headroom

func newPolicies(count int, pod *v1.Pod) policies {
	p := make(policies, count)
	for i := range p {
		p[i] = headroom.New(pod)
	}
	return p
}

// filter is the answer of the first policy that rejects a node; those after it do not see it.
func (p policies) filter(node *v1.Node) (reason string, unresolvable bool) {
	for i := range p {
		if reason, unresolvable = p[i].Filter(node, headroom.Listed(node.Status.Allocatable)); reason != "" {
			return reason, unresolvable
		}
	}
	return "", false
}

// score is the mean of the policies' scores.
func (p policies) score(node *v1.Node) int64 {
	sum := int64(0)
	for i := range p {
		sum += p[i].Score(node, headroom.Listed(node.Status.Allocatable))
	}
	return sum / int64(len(p))
}
