package main

import (
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"peers/protocol"
)

// cycle puts a pod through filter and prioritize on nodes, and tells what that took; and what it came to, if it is asked.
type cycle interface {
	run(pod *v1.Pod, nodes []fwk.NodeInfo) (*protocol.Cycle, func() *protocol.Answer, error)
}

// scored tells whether kube-scheduler asks for the scores of the nodes that passed filter: where one is left, it takes it.
//
// https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/scheduler/schedule_one.go (schedulePod)
func scored(kept []fwk.NodeInfo) bool {
	return len(kept) > 1
}

type player struct {
	cycle cycle
	nodes protocol.Nodes[fwk.NodeInfo]
}

// Put makes of each node what the scheduler's snapshot has of one without pods.
func (p *player) Put(nodes []byte) error {
	var list v1.NodeList
	if err := list.Unmarshal(nodes); err != nil {
		return err
	}
	for i := range list.Items {
		info := framework.NewNodeInfo()
		info.SetNode(&list.Items[i])
		p.nodes.Put(list.Items[i].Name, info)
	}
	return nil
}

// Play runs the cycle.
func (p *player) Play(request *protocol.Request) (*protocol.Cycle, error) {
	pod := &v1.Pod{}
	if err := pod.Unmarshal(request.Pod); err != nil {
		return nil, err
	}
	nodes, err := p.nodes.Asked(request)
	if err != nil {
		return protocol.Failed(err.Error()), nil
	}
	played, answer, err := p.cycle.run(pod, nodes)
	if err != nil {
		return protocol.Failed(err.Error()), nil
	}
	if request.Answer {
		played.Answer = answer()
	}
	return played, nil
}
