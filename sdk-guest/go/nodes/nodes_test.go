package nodes

import (
	"fmt"
	"maps"
	"reflect"
	"testing"

	v1 "k8s.io/api/core/v1"

	"kwx.dev/guest/internal/host"
	"kwx.dev/guest/internal/residents"
)

// put gives the host a node that says which version it is.
func put(name, version string) {
	node := v1.Node{}
	node.Name, node.ResourceVersion = name, version
	host.Native.Nodes[name], _ = node.Marshal()
}

func announce(number uint32, name string) {
	host.Native.NodeName = name
	residents.NodeChanged(number)
	host.Native.NodeName = ""
}

// current is what the view has of a node, and whether it asked the host for the object.
func current(view *View[string], name string) string {
	host.Native.NodeName, host.Native.Asked = name, nil
	value, err := view.Current()
	return fmt.Sprintf("%v %v %v", value, err, host.Native.Asked)
}

func newView() *View[string] {
	host.Native.Nodes = map[string][]byte{}
	return As(func(node *v1.Node) string { return node.Name + " " + node.ResourceVersion })
}

func expect(t *testing.T, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestANodeThatIsNotAnnouncedIsAskedForEachTime(t *testing.T) {
	view := newView()
	put("a", "1")
	expect(t, current(view, "a"), "a 1 <nil> [a]")
	put("a", "2")
	expect(t, current(view, "a"), "a 2 <nil> [a]")
	expect(t, current(view, "b"), " node b is not known [b]")
}

func TestANodeIsFoundByItsNumberWhileItIsAnnouncedAndCanBeRead(t *testing.T) {
	view := newView()
	put("a", "1")
	announce(1, "a")
	host.Native.Nodes["b"] = []byte("\x0a")
	announce(2, "b")
	find := func(number uint32) string {
		value, isFound := view.Find(number)
		return fmt.Sprint(value, " ", isFound)
	}
	for number, want := range map[uint32]string{0: " false", 1: "a 1 true", 2: " false", 7: " false", 1<<32 - 1: " false"} {
		expect(t, find(number), want)
	}
	residents.NodeRemoved(1)
	residents.NodeRemoved(2)
	expect(t, find(1), " false")
}

func TestAnAnnouncedNodeIsKeptUntilItIsAnnouncedAgainOrRemoved(t *testing.T) {
	view := newView()
	put("a", "1")
	put("b", "1")
	announce(3, "a")
	announce(0, "b")
	expect(t, current(view, "a"), "a 1 <nil> []")
	put("a", "2")
	announce(3, "a")
	expect(t, current(view, "a"), "a 2 <nil> []")
	expect(t, current(view, "b"), "b 1 <nil> []")
	residents.NodeRemoved(3)
	put("a", "3")
	expect(t, current(view, "a"), "a 3 <nil> [a]")
}

func TestANodeMayGetAnotherNumber(t *testing.T) {
	view := newView()
	put("a", "1")
	put("b", "1")
	announce(0, "a")
	announce(1, "b")
	residents.NodeRemoved(0)
	residents.NodeRemoved(1)
	announce(1, "a")
	announce(0, "b")
	expect(t, current(view, "a"), "a 1 <nil> []")
	residents.NodeRemoved(0)
	expect(t, current(view, "a"), "a 1 <nil> []")
	expect(t, current(view, "b"), "b 1 <nil> [b]")
	value, err := view.Numbered(1)
	expect(t, value, "a 1")
	expect(t, err, nil)
}

func TestOfANodeThatCannotBeReadNothingIsKept(t *testing.T) {
	view := newView()
	put("a", "1")
	announce(0, "a")
	host.Native.Nodes["a"] = []byte("\x0a")
	announce(0, "a")
	expect(t, current(view, "a"), " node a: unexpected EOF [a]")
	_, err := view.Numbered(0)
	expect(t, err.Error(), "node a: unexpected EOF")
	put("a", "2")
	announce(0, "a")
	expect(t, current(view, "a"), "a 2 <nil> []")
}

func TestNamesAloneAskForNoObject(t *testing.T) {
	view := NamesAs(func(name string) string { return name + "!" })
	announce(2, "a")
	expect(t, current(view, "a"), "a! <nil> []")
	expect(t, current(view, "b"), "b! <nil> []")
	value, _ := view.Numbered(2)
	expect(t, value, "a!")
}

func TestAllThatAreAnnouncedAndCanBeRead(t *testing.T) {
	view := newView()
	put("a", "1")
	put("c", "1")
	for number, name := range []string{"a", "unknown", "c"} {
		announce(uint32(number), name)
	}
	residents.NodeRemoved(0)
	put("d", "2")
	announce(4, "d")
	expect(t, maps.Collect(view.All()), map[string]string{"c": "c 1", "d": "d 2"})
	for name := range view.All() {
		expect(t, name, "c")
		break
	}
}

func TestEachViewIsTold(t *testing.T) {
	first := newView()
	second := NamesAs(func(name string) string { return name })
	put("a", "1")
	announce(0, "a")
	expect(t, current(first, "a"), "a 1 <nil> []")
	expect(t, current(second, "a"), "a <nil> []")
}
