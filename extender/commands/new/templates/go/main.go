// Prefers the nodes of the tier that a pod's label names, or the configuration.
package main

import (
	"kwx.dev/guest"
	"kwx.dev/guest/filter"
	"kwx.dev/guest/lazy"
	"kwx.dev/guest/score"
)

var config = struct {
	Tier string `json:"tier"`
}{Tier: "spot"}

// node is what counts of a node.
type node struct {
	tier      string
	isRetired bool
}

func init() {
	guest.Config(&config)
	// pods.As and nodes.As give *v1.Pod and *v1.Node, and make the module five times as large.
	pod, node := lazy.Pods(wishedTier), lazy.Nodes(newNode)
	filter.Register(pod, node, fits)
	score.Register(pod, node, rate)
}

func main() {}

// wishedTier is asked once a pod.
func wishedTier(pod lazy.Pod) string {
	if tier := pod.Label("example.com/tier"); tier != "" {
		return tier
	}
	return config.Tier
}

// newNode is asked once a node, when it changes.
func newNode(object lazy.Node) node {
	return node{object.Label("example.com/tier"), object.HasLabel("example.com/retired")}
}

func fits(_ string, node node) guest.Status {
	if node.isRetired {
		return guest.Unresolvable("node is retired")
	}
	return guest.Success
}

func rate(tier string, node node) int32 {
	if node.tier == tier {
		return 100
	}
	return 0
}
