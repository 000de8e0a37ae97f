// Package nodeinfo keeps of each node what its pods take and what is left, as
// the NodeInfo of kube-scheduler's framework. Modules that import it are told
// which pods are on which nodes, by hosts that tell that.
package nodeinfo

import (
	"iter"
	"slices"

	v1 "k8s.io/api/core/v1"

	"kwx.dev/guest/internal/cycle"
	"kwx.dev/guest/internal/decoded"
	"kwx.dev/guest/internal/podfeed"
	"kwx.dev/guest/internal/podsonnodes"
	"kwx.dev/guest/internal/residents"
	"kwx.dev/guest/klog"
	"kwx.dev/guest/nodes"
)

// NodeInfo is a node with its pods, each as what a plugin needs of it. A plugin
// does not write to it, and keeps no part of it from call to call.
type NodeInfo[N, P any] struct {
	Node N
	// Free is what is left of Allocatable; where nodes are overcommitted it is negative.
	Allocatable, Requested, Free Resource
	// NonZeroRequested has only MilliCPU and Memory: see Requests.
	NonZeroRequested Resource
	UsedPorts        []HostPort
	// Generation grows with each change of the node and of its pods. No other node has it, or ever had it: what a
	// plugin has made of a node is up to date if it was made of this generation.
	Generation uint64

	table *table[N, P]
	pods  []uint32
	// isKnown is whether the host has announced the node, of which it may tell pods before and afterwards.
	isKnown bool
}

// PodInfo is a pod on a node.
type PodInfo[P any] struct {
	Pod      P
	Requests Requests
	// IsTentative is whether the pod is only expected on the node. It counts like the others.
	IsTentative bool

	node uint32
}

// Pod is a pod on a node, of which is read what is asked for.
type Pod = podfeed.Pod

const nowhere = residents.Unannounced

// Len is the number of pods.
func (n *NodeInfo[N, P]) Len() int { return len(n.pods) }

// Pods are those on the node, in no order.
func (n *NodeInfo[N, P]) Pods() iter.Seq[*PodInfo[P]] {
	return func(yield func(*PodInfo[P]) bool) {
		for _, number := range n.pods {
			if !yield(&n.table.pods[number]) {
				return
			}
		}
	}
}

// CheckConflict is whether a port that a pod wants is taken.
func (n *NodeInfo[N, P]) CheckConflict(port HostPort) bool {
	return slices.ContainsFunc(n.UsedPorts, func(used HostPort) bool {
		isSameIP := used.IP == port.IP || used.IP == anyIP || port.IP == anyIP
		return isSameIP && used.Protocol == port.Protocol && used.Port == port.Port
	})
}

// As makes each node a NodeInfo whose Node is what newNode makes of the object,
// and each pod on it what newPod makes of that; the less they hold, the less
// there is to keep and to look through for garbage. Either may be nil.
func As[N, P any](newNode func(*v1.Node) N, newPod func(Pod) P) *nodes.View[*NodeInfo[N, P]] {
	table := &table[N, P]{newNode: newNode, newPod: newPod}
	podsonnodes.Feed.Follow(table.tell)
	return residents.NewView(table.node, table.forget)
}

// table is what is known of nodes and pods, by their numbers.
type table[N, P any] struct {
	newNode func(*v1.Node) N
	newPod  func(Pod) P
	nodes   []*NodeInfo[N, P]
	pods    []PodInfo[P]
}

// node is what is known of a node, with its object as it is now.
func (t *table[N, P]) node(number uint32, name string) (*NodeInfo[N, P], error) {
	object, err := decoded.Node(name)
	if err != nil {
		return nil, err
	}
	info := &NodeInfo[N, P]{table: t}
	if number != residents.Unannounced {
		info = t.at(number)
		info.isKnown = true
	}
	if t.newNode != nil {
		info.Node = t.newNode(object)
	}
	info.Allocatable = allocatable(object)
	info.count()
	return info, nil
}

// forget leaves the pods of a node that is gone: the host takes them away one by one.
func (t *table[N, P]) forget(number uint32) {
	if uint32(len(t.nodes)) <= number || t.nodes[number] == nil {
		return
	}
	info := t.nodes[number]
	var none N
	info.Node, info.Allocatable, info.isKnown = none, Resource{}, false
	info.count()
	t.drop(number)
}

func (t *table[N, P]) at(number uint32) *NodeInfo[N, P] {
	for uint32(len(t.nodes)) <= number {
		t.nodes = append(t.nodes, nil)
	}
	if t.nodes[number] == nil {
		t.nodes[number] = &NodeInfo[N, P]{table: t}
	}
	return t.nodes[number]
}

// drop keeps nothing of a number that stands for nothing.
func (t *table[N, P]) drop(number uint32) {
	if info := t.nodes[number]; !info.isKnown && len(info.pods) == 0 {
		t.nodes[number] = nil
	}
}

func (t *table[N, P]) tell(change podfeed.Change) {
	for uint32(len(t.pods)) <= change.Pod {
		t.pods = append(t.pods, PodInfo[P]{node: nowhere})
	}
	pod := &t.pods[change.Pod]
	t.leave(change.Pod)
	if change.State == podfeed.Gone {
		*pod = PodInfo[P]{node: nowhere}
		return
	}
	if len(change.Object) > 0 {
		t.read(pod, change)
	}
	pod.IsTentative = change.State == podfeed.Tentative
	t.join(change.Pod, change.Node)
}

func (t *table[N, P]) read(pod *PodInfo[P], change podfeed.Change) {
	var err error
	object := podfeed.PodOf(change.Object)
	if pod.Requests, err = requestsOf(change.Object); err != nil {
		klog.Errorf("pod %s/%s counts without requests: %v", object.Namespace(), object.Name(), err)
	}
	if t.newPod != nil {
		pod.Pod = t.newPod(object)
	}
}

func (t *table[N, P]) join(number, node uint32) {
	t.pods[number].node = node
	if node == nowhere {
		return
	}
	info := t.at(node)
	info.pods = append(info.pods, number)
	info.take(&t.pods[number].Requests, 1)
}

func (t *table[N, P]) leave(number uint32) {
	node := t.pods[number].node
	if node == nowhere {
		return
	}
	info := t.nodes[node]
	at := slices.Index(info.pods, number)
	last := len(info.pods) - 1
	info.pods[at] = info.pods[last]
	info.pods = info.pods[:last]
	info.take(&t.pods[number].Requests, -1)
	t.drop(node)
}

// take counts what a pod takes so many times.
func (n *NodeInfo[N, P]) take(requests *Requests, times int64) {
	n.Requested.add(&requests.Resource, times)
	n.NonZeroRequested.MilliCPU += times * requests.NonZeroMilliCPU
	n.NonZeroRequested.Memory += times * requests.NonZeroMemory
	for _, port := range requests.HostPorts {
		if times > 0 {
			n.UsedPorts = append(n.UsedPorts, port)
		} else if at := slices.Index(n.UsedPorts, port); at >= 0 {
			n.UsedPorts = slices.Delete(n.UsedPorts, at, at+1)
		}
	}
	if times < 0 {
		n.Requested.dropZeros()
	}
	n.count()
}

// generations is how many there were of all nodes.
var generations uint64

// count says what is left, and that something has changed.
func (n *NodeInfo[N, P]) count() {
	n.Free = Resource{ScalarResources: n.Free.ScalarResources[:0]}
	n.Free.add(&n.Allocatable, 1)
	n.Free.add(&n.Requested, -1)
	n.Free.AllowedPodNumber = n.Allocatable.AllowedPodNumber - int64(len(n.pods))
	generations++
	n.Generation = generations
}

var isWarned = false

func init() {
	cycle.OnBegin(func() { warnOf(podsonnodes.Feed.HasTold()) })
}

// warnOf says once that a host may tell no pods.
func warnOf(hasTold bool) {
	if !hasTold && !isWarned {
		isWarned = true
		klog.Warningf("the host has not told of any pod so far: nodes are taken for empty")
	}
}
