// Package plugin is headroom as a plugin of the scheduling framework, as those in the scheduler's own tree are.
package plugin

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"peers/headroom"
)

const (
	// Name is the name of the plugin in the scheduler's configuration.
	Name = "Headroom"

	preFilterStateKey = "PreFilter" + Name
)

// Plugin has no state of its own.
type Plugin struct{}

var (
	_ fwk.PreFilterPlugin   = &Plugin{}
	_ fwk.FilterPlugin      = &Plugin{}
	_ fwk.ScorePlugin       = &Plugin{}
	_ fwk.EnqueueExtensions = &Plugin{}
	_ fwk.SignPlugin        = &Plugin{}
)

// New makes the plugin, which has no arguments.
func New(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	return &Plugin{}, nil
}

// Name returns the name of the plugin.
func (pl *Plugin) Name() string {
	return Name
}

// preFilterState is what was read of the pod.
type preFilterState struct {
	headroom.Headroom
}

// Clone returns the same state: other pods have no influence on it.
func (s *preFilterState) Clone() fwk.StateData {
	return s
}

// PreFilter reads the pod.
func (pl *Plugin) PreFilter(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	state.Write(preFilterStateKey, &preFilterState{headroom.New(pod)})
	return nil, nil
}

// PreFilterExtensions returns nil: other pods have no influence.
func (pl *Plugin) PreFilterExtensions() fwk.PreFilterExtensions {
	return nil
}

// Filter rejects a node that has no room for the pod, or is in another zone than it wishes.
func (pl *Plugin) Filter(_ context.Context, state fwk.CycleState, _ *v1.Pod, nodeInfo fwk.NodeInfo) *fwk.Status {
	s, err := getPreFilterState(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	switch reason, unresolvable := s.Filter(nodeInfo.Node(), nodeInfo.GetAllocatable()); {
	case reason == "":
		return nil
	case unresolvable:
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reason)
	default:
		return fwk.NewStatus(fwk.Unschedulable, reason)
	}
}

// Score is from 0 to 100.
func (pl *Plugin) Score(_ context.Context, state fwk.CycleState, _ *v1.Pod, nodeInfo fwk.NodeInfo) (int64, *fwk.Status) {
	s, err := getPreFilterState(state)
	if err != nil {
		return 0, fwk.AsStatus(err)
	}
	return s.Score(nodeInfo.Node(), nodeInfo.GetAllocatable()), nil
}

// ScoreExtensions returns nil: scores need not be normalized.
func (pl *Plugin) ScoreExtensions() fwk.ScoreExtensions {
	return nil
}

// EventsToRegister returns what may make room for a pod that was rejected.
func (pl *Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	node := fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeAllocatable | fwk.UpdateNodeLabel}
	pod := fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.UpdatePodLabel | fwk.UpdatePodScaleDown}
	return []fwk.ClusterEventWithHint{{Event: node}, {Event: pod}}, nil
}

// SignPod returns all that counts of a pod, so that the scheduler may take what it found for one pod for the next.
func (pl *Plugin) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	return []fwk.SignFragment{{Key: Name, Value: headroom.New(pod)}}, nil
}

func getPreFilterState(state fwk.CycleState) (*preFilterState, error) {
	data, err := state.Read(preFilterStateKey)
	if err != nil {
		return nil, fmt.Errorf("reading %q from cycleState: %w", preFilterStateKey, err)
	}
	s, ok := data.(*preFilterState)
	if !ok {
		return nil, fmt.Errorf("invalid PreFilter state, got type %T", data)
	}
	return s, nil
}
