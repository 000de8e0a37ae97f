package podfeed

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
)

func TestWhatIsReadOfAPod(t *testing.T) {
	pod := v1.Pod{}
	pod.Name, pod.Namespace, pod.UID = "x", "default", "u"
	pod.Labels, pod.Annotations = map[string]string{"team": "a"}, map[string]string{"cost": "9"}
	priority := int32(-7)
	pod.Spec.Priority = &priority
	object, _ := pod.Marshal()
	seen := PodOf(object)
	whole, err := seen.Unmarshal()
	got := fmt.Sprintf("%s/%s %s %q %q %q %q %d %v %v %d", seen.Namespace(), seen.Name(), seen.UID(), seen.Label("team"),
		seen.Label("other"), seen.Annotation("cost"), seen.Annotation("team"), seen.Priority(), whole.Labels, err, len(seen.Bytes()))
	if want := fmt.Sprintf(`default/x u "a" "" "9" "" -7 map[team:a] <nil> %d`, len(object)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := fmt.Sprintf("%q %d", PodOf(nil).Name(), PodOf(nil).Priority()); got != `"" 0` {
		t.Error(got)
	}
}
