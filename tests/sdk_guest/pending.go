// Tells which pods have no node, for tests: it rejects every pod, and the reason is their names and jobs.
package main

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"kwx.dev/guest"
	"kwx.dev/guest/pendingpods"
	"kwx.dev/guest/pods"
	"kwx.dev/guest/prefilter"
)

var pending = pendingpods.As(func(pod pendingpods.Pod) string { return pod.Name() + "=" + pod.Label("job") })

func init() {
	prefilter.Register(pods.As(func(*v1.Pod) struct{} { return struct{}{} }), tell)
}

func main() {}

func tell(struct{}) (prefilter.Nodes, guest.Status) {
	return prefilter.All, guest.Unschedulable(fmt.Sprint(slices.Sorted(pending.All())))
}
