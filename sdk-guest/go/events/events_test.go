package events

import (
	"reflect"
	"testing"

	v1 "k8s.io/api/core/v1"

	"kwx.dev/guest/internal/host"
)

func TestAnEventAsTheHostTakesIt(t *testing.T) {
	pod := v1.Pod{}
	pod.Name, pod.Namespace, pod.UID, pod.ResourceVersion = "a", "default", "u", "7"
	Eventf(Pod(&pod), Node("node-1"), v1.EventTypeWarning, "Far", "Scoring", "%d hops, \"%s\"", 3, "far")
	Eventf(Pod(&pod), None, v1.EventTypeNormal, "Near", "Scoring", "at hand")
	pods := `{"Kind":"Pod","APIVersion":"v1","Name":"a","Namespace":"default","UID":"u","ResourceVersion":"7"}`
	node := `{"Kind":"Node","APIVersion":"v1","Name":"node-1","Namespace":"","UID":"node-1","ResourceVersion":""}`
	none := `{"Kind":"","APIVersion":"","Name":"","Namespace":"","UID":"","ResourceVersion":""}`
	want := []string{
		`{"RegardingReference":` + pods + `,"RelatedReference":` + node +
			`,"Eventtype":"Warning","Reason":"Far","Action":"Scoring","Note":"3 hops, \"far\""}`,
		`{"RegardingReference":` + pods + `,"RelatedReference":` + none +
			`,"Eventtype":"Normal","Reason":"Near","Action":"Scoring","Note":"at hand"}`,
	}
	if !reflect.DeepEqual(host.Native.Events, want) {
		t.Errorf("got %s, want %s", host.Native.Events, want)
	}
}
