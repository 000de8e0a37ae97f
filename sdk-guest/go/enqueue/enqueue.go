// Package enqueue has modules that import it export enqueue.
package enqueue

import (
	"encoding/binary"

	"kwx.dev/guest/internal/host"
)

// Resource is what has changed in the cluster, by the number that hosts know it by.
type Resource uint32

const (
	Pod Resource = iota
	Node
	PersistentVolume
	PersistentVolumeClaim
	PodSchedulingContext
	ResourceClaim
	StorageClass
	CSINode
	CSIDriver
	CSIStorageCapacity
	WildCard
)

// ActionType is how it has changed, a bit an action. Those that are not here
// have other bits in other releases of Kubernetes.
type ActionType uint32

const (
	Add ActionType = 1 << iota
	Delete
	UpdateNodeAllocatable
	UpdateNodeLabel
	UpdateNodeTaint
	UpdateNodeCondition
	UpdateNodeAnnotation
)

// ClusterEvent is a change in the cluster.
type ClusterEvent struct {
	Resource   Resource
	ActionType ActionType
}

var registered []ClusterEvent

// Register makes these the plugin's EventsToRegister: after each of them a pod
// that the plugin rejected is worth another attempt.
func Register(events ...ClusterEvent) { registered = append(registered, events...) }

//go:wasmexport enqueue
func enqueue() {
	var pairs []byte
	for _, event := range registered {
		pairs = binary.LittleEndian.AppendUint32(pairs, uint32(event.Resource))
		pairs = binary.LittleEndian.AppendUint32(pairs, uint32(event.ActionType))
	}
	host.ClusterEvents(string(pairs))
}
