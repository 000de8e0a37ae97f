// Package object reads pods and nodes where they are, without the types of k8s.io/api.
package object

import (
	"iter"

	"kwx.dev/guest/internal/protobuf"
)

// Pod is a protobuf v1.Pod, of which is read what is asked for. It is valid until the function that it was given to
// returns; what it answers as text may be kept.
type Pod []byte

// Node is a protobuf v1.Node, in the same way.
type Node []byte

// Message is a part of an object. Its fields have the numbers of Kubernetes' generated.proto.
type Message []byte

const (
	objectMetadata, objectSpec, objectStatus = 1, 2, 3

	metadataName, metadataNamespace, metadataUID, metadataLabels, metadataAnnotations = 1, 3, 5, 11, 12

	specPriority, specContainers = 25, 2

	containerResources, resourcesRequests = 8, 2

	specUnschedulable = 4

	statusAllocatable = 2

	quantityText = 1
)

func (p Pod) Name() string      { return p.Metadata().Text(metadataName) }
func (p Pod) Namespace() string { return p.Metadata().Text(metadataNamespace) }
func (p Pod) UID() string       { return p.Metadata().Text(metadataUID) }

// Label is empty where there is none of that key.
func (p Pod) Label(key string) string { return p.Metadata().Entry(metadataLabels, key) }

// Annotation is empty where there is none of that key.
func (p Pod) Annotation(key string) string { return p.Metadata().Entry(metadataAnnotations, key) }

// Priority is 0 where the pod has none.
func (p Pod) Priority() int32 { return int32(p.Spec().Integer(specPriority)) }

// Requests are the quantities of a resource that its containers ask for, such as 500m.
func (p Pod) Requests(resource string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for container := range p.Spec().Messages(specContainers) {
			asked := container.Message(containerResources).quantity(resourcesRequests, resource)
			if asked != "" && !yield(asked) {
				return
			}
		}
	}
}

func (p Pod) Metadata() Message { return Message(p).Message(objectMetadata) }
func (p Pod) Spec() Message     { return Message(p).Message(objectSpec) }
func (p Pod) Status() Message   { return Message(p).Message(objectStatus) }

// Bytes are the protobuf v1.Pod itself. A copy may be kept.
func (p Pod) Bytes() []byte { return p }

func (n Node) Name() string { return n.Metadata().Text(metadataName) }

// Label is empty where there is none of that key.
func (n Node) Label(key string) string { return n.Metadata().Entry(metadataLabels, key) }

// HasLabel is whether there is one of that key, be it empty.
func (n Node) HasLabel(key string) bool {
	_, isThere := protobuf.Entry(n.Metadata(), metadataLabels, key)
	return isThere
}

// Annotation is empty where there is none of that key.
func (n Node) Annotation(key string) string { return n.Metadata().Entry(metadataAnnotations, key) }

// IsUnschedulable is whether it is cordoned.
func (n Node) IsUnschedulable() bool { return n.Spec().Integer(specUnschedulable) != 0 }

// Allocatable is the quantity of a resource that pods may use, such as 32Gi; empty where the node does not have it.
func (n Node) Allocatable(resource string) string {
	return n.Status().quantity(statusAllocatable, resource)
}

func (n Node) Metadata() Message { return Message(n).Message(objectMetadata) }
func (n Node) Spec() Message     { return Message(n).Message(objectSpec) }
func (n Node) Status() Message   { return Message(n).Message(objectStatus) }

// Bytes are the protobuf v1.Node itself. A copy may be kept.
func (n Node) Bytes() []byte { return n }

// Message is a field that is a message, empty where it is not there.
func (m Message) Message(number int) Message { return protobuf.Bytes(m, number) }

// Messages are those of a field that may be there more than once.
func (m Message) Messages(number int) iter.Seq[Message] {
	return func(yield func(Message) bool) {
		for fields := protobuf.Of(m); fields.Next(); {
			if fields.Number == number && !yield(fields.Bytes) {
				return
			}
		}
	}
}

// Text is a field that is a text, empty where it is not there.
func (m Message) Text(number int) string { return string(protobuf.Bytes(m, number)) }

// Integer is a field that is an integer or a bool, 0 where it is not there.
func (m Message) Integer(number int) int64 { return int64(protobuf.Value(m, number)) }

// Entry is the text of a key in a field that is a map, empty where it is not there.
func (m Message) Entry(number int, key string) string {
	value, _ := protobuf.Entry(m, number, key)
	return string(value)
}

func (m Message) quantity(number int, resource string) string {
	value, _ := protobuf.Entry(m, number, resource)
	return Message(value).Text(quantityText)
}

// Check is whether an object can be read: an error names what is malformed.
func Check(object []byte) error {
	return protobuf.Each(object, func(*protobuf.Fields) error { return nil })
}
