package podfeed

import (
	v1 "k8s.io/api/core/v1"

	_ "kwx.dev/guest/internal/argv"
	"kwx.dev/guest/internal/object"
)

// Pod is a resident pod, of which is read what is asked for. It is valid until
// the function that it was given to returns; what it answers may be kept.
type Pod struct{ object.Pod }

// PodOf is the one that a protobuf v1.Pod has.
func PodOf(contents []byte) Pod { return Pod{contents} }

// Unmarshal decodes all of the pod, which takes a hundred times as long as a look at a label.
func (p Pod) Unmarshal() (*v1.Pod, error) {
	pod := new(v1.Pod)
	return pod, pod.Unmarshal(p.Bytes())
}
