package pods

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"kwx.dev/guest/internal/cycle"
	"kwx.dev/guest/internal/host"
)

func TestAPodIsReadOnceInItsCycle(t *testing.T) {
	var read []string
	view := As(func(pod *v1.Pod) string {
		read = append(read, pod.Name)
		return pod.Name
	})
	for _, name := range []string{"a", "b"} {
		pod := v1.Pod{}
		pod.Name = name
		host.Native.Pod, _ = pod.Marshal()
		if code := cycle.Begin(); code != 0 {
			t.Errorf("prefilter: %d", code)
		}
		for range 2 {
			if got := view.Current(); got != name {
				t.Errorf("got pod %s, want %s", got, name)
			}
		}
	}
	if len(read) != 2 {
		t.Errorf("read %v", read)
	}
}

func TestAPodThatIsNoneIsAPanic(t *testing.T) {
	view := As(func(pod *v1.Pod) *v1.Pod { return pod })
	host.Native.Pod = []byte("\x0a")
	defer func() {
		if got := recover().(error).Error(); got != "current pod: unexpected EOF" {
			t.Error(got)
		}
	}()
	view.Current()
}
