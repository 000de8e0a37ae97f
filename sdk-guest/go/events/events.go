// Package events records Events on the API server.
package events

import (
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"kwx.dev/guest/internal/host"
)

// Reference names an object of the cluster.
type Reference struct {
	Kind, APIVersion, Name, Namespace, UID, ResourceVersion string
}

// None is no object, for an Event that is related to none.
var None Reference

// Pod names a pod.
func Pod(pod *v1.Pod) Reference {
	return Reference{"Pod", "v1", pod.Name, pod.Namespace, string(pod.UID), pod.ResourceVersion}
}

// Node names a node. Its UID is its name, by which kubectl describe finds the
// Events of a node.
func Node(name string) Reference {
	return Reference{Kind: "Node", APIVersion: "v1", Name: name, UID: name}
}

// Eventf records an Event about an object, and another that it is related to.
// The type is v1.EventTypeNormal or v1.EventTypeWarning; reason and action are
// words in camel case, the note is for people. The host adds up equal ones.
func Eventf(regarding, related Reference, eventtype, reason, action, note string, args ...any) {
	event := struct {
		RegardingReference, RelatedReference Reference
		Eventtype, Reason, Action, Note      string
	}{regarding, related, eventtype, reason, action, fmt.Sprintf(note, args...)}
	text, err := json.Marshal(event)
	if err != nil {
		panic(err)
	}
	host.Eventf(string(text))
}
