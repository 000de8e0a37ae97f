package nodeinfo

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Resource is an amount of each resource, in millicores, bytes and numbers.
type Resource struct {
	MilliCPU, Memory, EphemeralStorage int64
	// AllowedPodNumber is how many pods there may be.
	AllowedPodNumber int64
	// ScalarResources are extended resources, huge pages and attachable volumes, by name.
	ScalarResources []ScalarResource
}

// ScalarResource is an amount of one resource.
type ScalarResource struct {
	Name  string
	Value int64
}

// Scalar is the amount of an extended resource, of huge pages or attachable volumes.
func (r *Resource) Scalar(name string) int64 {
	at, isThere := slices.BinarySearchFunc(r.ScalarResources, ScalarResource{Name: name}, compareNames)
	if isThere {
		return r.ScalarResources[at].Value
	}
	return 0
}

func (r *Resource) sort() { slices.SortFunc(r.ScalarResources, compareNames) }

func compareNames(a, b ScalarResource) int { return strings.Compare(a.Name, b.Name) }

// add adds another amount so many times.
func (r *Resource) add(other *Resource, times int64) {
	r.MilliCPU += times * other.MilliCPU
	r.Memory += times * other.Memory
	r.EphemeralStorage += times * other.EphemeralStorage
	r.AllowedPodNumber += times * other.AllowedPodNumber
	known, at := len(r.ScalarResources), 0
	for _, scalar := range other.ScalarResources {
		for at < known && r.ScalarResources[at].Name < scalar.Name {
			at++
		}
		if at < known && r.ScalarResources[at].Name == scalar.Name {
			r.ScalarResources[at].Value += times * scalar.Value
		} else {
			r.ScalarResources = append(r.ScalarResources, ScalarResource{scalar.Name, times * scalar.Value})
		}
	}
	if len(r.ScalarResources) > known {
		r.sort()
	}
}

// dropZeros forgets the scalars of which there are none: a pod that is gone may have had thousands.
func (r *Resource) dropZeros() {
	isZero := func(scalar ScalarResource) bool { return scalar.Value == 0 }
	r.ScalarResources = slices.DeleteFunc(r.ScalarResources, isZero)
}

// addQuantity adds what is rounded up to a whole number, of each name once. Names
// of no resource that kube-scheduler counts are left out.
func (r *Resource) addQuantity(name string, quantity *resource.Quantity) {
	switch v1.ResourceName(name) {
	case v1.ResourceCPU:
		r.MilliCPU += quantity.MilliValue()
	case v1.ResourceMemory:
		r.Memory += quantity.Value()
	case v1.ResourceEphemeralStorage:
		r.EphemeralStorage += quantity.Value()
	case v1.ResourcePods:
		r.AllowedPodNumber += quantity.Value()
	default:
		if isScalar(name) {
			r.ScalarResources = append(r.ScalarResources, ScalarResource{name, quantity.Value()})
		}
	}
}

// isScalar is IsScalarResourceName of pkg/scheduler/util, for names that the API server takes.
func isScalar(name string) bool {
	isExtended := strings.Contains(name, "/") && !strings.HasPrefix(name, v1.DefaultResourceRequestsPrefix)
	return isExtended || strings.Contains(name, v1.ResourceDefaultNamespacePrefix) ||
		strings.HasPrefix(name, v1.ResourceHugePagesPrefix) || strings.HasPrefix(name, v1.ResourceAttachableVolumesPrefix)
}

// isPodLevel is whether a resource may be requested for a pod as a whole.
func isPodLevel(name string) bool {
	return name == string(v1.ResourceCPU) || name == string(v1.ResourceMemory) ||
		strings.HasPrefix(name, v1.ResourceHugePagesPrefix)
}

// allocatable is what a node has for pods.
func allocatable(node *v1.Node) Resource {
	var found Resource
	for name, quantity := range node.Status.Allocatable {
		found.addQuantity(string(name), &quantity)
	}
	found.sort()
	return found
}
