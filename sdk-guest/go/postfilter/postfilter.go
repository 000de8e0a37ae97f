// Package postfilter has modules that import it export postfilter.
package postfilter

import (
	"encoding/json"
	"fmt"

	"kwx.dev/guest"
	"kwx.dev/guest/internal/hooks"
	"kwx.dev/guest/internal/host"
	"kwx.dev/guest/internal/podview"
)

// override is the nominating mode that has the named node be the pod's.
const override = 1

var plugin func(nodes map[string]guest.Status) (string, guest.Status)

func init() { hooks.PostFilter = postfilter }

// Register makes postFilter the plugin's PostFilter, for a pod that no node
// passed: the node to nominate for it, if any. Nodes have their statuses,
// without reasons.
func Register[P any](pod *podview.View[P], postFilter func(pod P, nodes map[string]guest.Status) (string, guest.Status)) {
	plugin = func(nodes map[string]guest.Status) (string, guest.Status) { return postFilter(pod.Current(), nodes) }
}

//go:wasmexport postfilter
func postfilter() int64 {
	var nodes map[string]guest.Status
	if err := json.Unmarshal(host.NodeToStatusMap(), &nodes); err != nil {
		return int64(guest.Error(fmt.Errorf("statuses of the nodes: %w", err)).Send())
	}
	nominated, status := plugin(nodes)
	code := int64(status.Send())
	if nominated == "" {
		return code
	}
	host.NominatedNodeName(nominated)
	return override<<32 | code
}
