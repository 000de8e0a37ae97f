package bindingannotations

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"

	"kwx.dev/guest/internal/host"
	"kwx.dev/guest/nodes"
	"kwx.dev/guest/pods"
)

func TestKeysAndValuesComeInTurn(t *testing.T) {
	host.Native.NodeName = "a"
	node := nodes.NamesAs(func(name string) string { return name })
	Register(pods.As(func(*v1.Pod) string { return "pod" }), node, func(pod, node string) map[string]string {
		return map[string]string{"example.com/node": node, "example.com/empty": "", "a": pod}
	})
	result := bindingannotations()
	if got := string(texts); got != "a\x00pod\x00example.com/empty\x00\x00example.com/node\x00a\x00" {
		t.Errorf("%q", got)
	}
	if int(uint32(result)) != len(texts) {
		t.Errorf("%#x", result)
	}
}

func TestThereMayBeNone(t *testing.T) {
	host.Native.NodeName = "a"
	node := nodes.NamesAs(func(name string) string { return name })
	for _, none := range []map[string]string{nil, {}} {
		Register(pods.As(func(*v1.Pod) int { return 0 }), node, func(int, string) map[string]string { return none })
		if result := bindingannotations(); result != 0 {
			t.Errorf("%#x", result)
		}
	}
}

func TestANodeThatIsNotKnown(t *testing.T) {
	host.Native.NodeName = "gone"
	node := nodes.As(func(*v1.Node) int { return 0 })
	Register(pods.As(func(*v1.Pod) int { return 0 }), node, func(int, int) map[string]string { panic("asked") })
	defer func() {
		if got := fmt.Sprint(recover()); got != "node gone is not known" {
			t.Error(got)
		}
	}()
	bindingannotations()
}
