// Package prefilter has modules that import it export prefilter.
package prefilter

import (
	"strings"

	"kwx.dev/guest"
	"kwx.dev/guest/internal/cycle"
	"kwx.dev/guest/internal/host"
	"kwx.dev/guest/internal/podview"
)

// Nodes are the ones to look at for a pod.
type Nodes struct {
	isNarrowed bool
	names      []string
}

// All leaves every node to Filter.
var All Nodes

// Only leaves the named nodes to Filter. With no name the pod is rejected.
func Only(names ...string) Nodes { return Nodes{true, names} }

// Register makes preFilter the plugin's PreFilter: which nodes to look at, or
// why none; Skip for a pod that needs no Filter.
func Register[P any](pod *podview.View[P], preFilter func(P) (Nodes, guest.Status)) {
	cycle.PreFilter = func() guest.Status {
		nodes, status := preFilter(pod.Current())
		if status != guest.Success || !nodes.isNarrowed {
			return status
		}
		if len(nodes.names) == 0 {
			// To the host, which is told names alone, none would mean every node.
			return guest.Unresolvable("PreFilter leaves no node")
		}
		host.NodeNames(strings.Join(nodes.names, "\x00") + "\x00")
		return guest.Success
	}
}
