package nodeinfo

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Requests are what a pod takes of a node.
type Requests struct {
	Resource
	// NonZeroMilliCPU and NonZeroMemory count something for containers that
	// request nothing. kube-scheduler scores by them.
	NonZeroMilliCPU, NonZeroMemory int64
	HostPorts                      []HostPort
}

// anyIP stands for every address of the node, and for none that is named.
const anyIP = "0.0.0.0"

// HostPort is a port of the node's.
type HostPort struct {
	IP, Protocol string
	Port         int32
}

// PodRequests are those of a pod, counted as those of resident pods are: as
// kube-scheduler 1.37 does with its default feature gates.
func PodRequests(pod *v1.Pod) Requests {
	object, err := pod.Marshal()
	if err != nil {
		panic(err)
	}
	requests, err := requestsOf(object)
	if err != nil {
		panic(err)
	}
	return requests
}

// defaults are what a container without a request counts for in scoring
// (pkg/scheduler/util/pod_resources.go).
var defaults = []amount{
	{string(v1.ResourceCPU), *resource.NewMilliQuantity(100, resource.DecimalSI)},
	{string(v1.ResourceMemory), *resource.NewQuantity(200<<20, resource.BinarySI)},
}

// requestsOf counts as CalculateResource of pkg/scheduler/framework does.
func requestsOf(object []byte) (Requests, error) {
	pod, err := read(object)
	if err != nil {
		return Requests{}, err
	}
	requests := pod.requests(list{})
	scored := requests
	if missing := pod.missing(requests); missing.len() > 0 {
		scored = pod.requests(missing)
	}
	nonZero := scored.resource()
	return Requests{requests.resource(), nonZero.MilliCPU, nonZero.Memory, pod.hostPorts}, nil
}

// missing is what containers that do not request it are to count for. For a pod
// with requests as a whole that is only what is requested nowhere.
func (p *pod) missing(requests list) (missing list) {
	hasPodLevel := p.hasPodLevel()
	for _, each := range defaults {
		if hasPodLevel && requests.find(each.name) != nil {
			continue
		}
		if p.isReported() || p.lacks(each.name) {
			missing.set(each.name, each.quantity)
		}
	}
	return missing
}

// lacks is whether a container does not request a resource.
func (p *pod) lacks(name string) bool {
	lacking := func(c container) bool { return c.requested.find(name) == nil }
	return slices.ContainsFunc(p.containers, lacking) || slices.ContainsFunc(p.initContainers, lacking)
}

func (p *pod) hasPodLevel() bool {
	return slices.ContainsFunc(p.podLevel.amounts, func(each amount) bool { return isPodLevel(each.name) })
}

// requests are all that counts for the pod, as in PodRequests of
// k8s.io/component-helpers/resource; a container that does not request what is
// missing does so here.
func (p *pod) requests(missing list) list {
	sum := p.containersRequest(missing)
	if p.hasPodLevel() {
		for _, each := range p.podLevelRequests().amounts {
			if isPodLevel(each.name) {
				sum.set(each.name, each.quantity.DeepCopy())
			}
		}
	}
	sum.add(p.overhead)
	return sum
}

// containersRequest is the most of what is wished for, granted and set up:
// between them the pod may be resized.
func (p *pod) containersRequest(missing list) list {
	wished := func(c *container) list { return c.requested }
	if !p.isReported() {
		return p.total(wished, missing)
	}
	var most list
	if !p.isInfeasible {
		most = p.total(wished, missing)
	}
	if p.reported.allocated.len() > 0 && p.reported.actuated.len() > 0 {
		most.raise(p.reported.actuated)
		most.raise(p.reported.allocated)
		return most
	}
	granted := func(c *container) list {
		if c.reported.allocated.len() > 0 {
			return c.reported.allocated
		}
		if p.isInfeasible {
			return list{}
		}
		return c.requested
	}
	setUp := func(c *container) list {
		if c.reported.actuated.len() > 0 {
			return c.reported.actuated
		}
		return granted(c)
	}
	most.raise(p.total(setUp, missing))
	most.raise(p.total(granted, missing))
	return most
}

// isReported is whether kubelet says anything but what the spec says, as it does
// while a pod is resized.
func (p *pod) isReported() bool {
	differs := func(c container) bool {
		isGranted := c.reported.allocated.len() == 0 || c.reported.allocated.equals(c.requested)
		return !isGranted || c.reported.actuated.len() > 0 && !c.reported.actuated.equals(c.requested)
	}
	return p.isInfeasible || p.reported.allocated.len() > 0 && p.reported.actuated.len() > 0 ||
		slices.ContainsFunc(p.containers, differs) || slices.ContainsFunc(p.initContainers, differs)
}

func (p *pod) podLevelRequests() list {
	if !p.reported.hasResources {
		return p.podLevel
	}
	var most list
	if !p.isInfeasible {
		most.add(p.podLevel)
	}
	most.raise(p.reported.actuated)
	most.raise(p.reported.allocated)
	return most
}

// total is what the containers need together, or what the init containers need
// before them if that is more. These run one after the other, each beside the
// sidecars that are listed ahead of it (KEP-753).
func (p *pod) total(of func(*container) list, missing list) list {
	var sum, sidecars, peak list
	for i := range p.containers {
		requests := of(&p.containers[i])
		sum.add(requests.with(missing))
	}
	for i := range p.initContainers {
		container := &p.initContainers[i]
		requests := of(container)
		requests = requests.with(missing)
		// Of what this container does not name, the peak has as much as the sidecars already.
		peak.raise(requests.beside(sidecars))
		if container.isSidecar {
			sum.add(requests)
			sidecars.add(requests)
		}
	}
	sum.raise(peak)
	return sum
}
