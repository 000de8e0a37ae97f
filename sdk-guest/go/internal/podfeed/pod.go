package podfeed

import (
	v1 "k8s.io/api/core/v1"

	"guest/internal/protobuf"
)

// Pod is a resident pod, of which is read what is asked for. It is valid until
// the function that it was given to returns; what it answers may be kept.
type Pod []byte

const (
	podMetadata, podSpec = 1, 2

	metadataName, metadataNamespace, metadataUID, metadataLabels, metadataAnnotations = 1, 3, 5, 11, 12

	specPriority = 25
)

func (p Pod) Name() string      { return p.text(metadataName) }
func (p Pod) Namespace() string { return p.text(metadataNamespace) }
func (p Pod) UID() string       { return p.text(metadataUID) }

// Label is empty where there is none of that key.
func (p Pod) Label(key string) string { return p.entry(metadataLabels, key) }

// Annotation is empty where there is none of that key.
func (p Pod) Annotation(key string) string { return p.entry(metadataAnnotations, key) }

// Priority is 0 where the pod has none.
func (p Pod) Priority() int32 {
	return int32(protobuf.Value(protobuf.Bytes(p, podSpec), specPriority))
}

// Bytes are the protobuf v1.Pod itself. A copy may be kept.
func (p Pod) Bytes() []byte { return p }

// Unmarshal decodes all of the pod, which takes a hundred times as long as a look at a label.
func (p Pod) Unmarshal() (*v1.Pod, error) {
	pod := new(v1.Pod)
	return pod, pod.Unmarshal(p)
}

func (p Pod) metadata() []byte { return protobuf.Bytes(p, podMetadata) }

func (p Pod) text(number int) string { return string(protobuf.Bytes(p.metadata(), number)) }

func (p Pod) entry(number int, key string) string {
	value, _ := protobuf.Entry(p.metadata(), number, key)
	return string(value)
}
