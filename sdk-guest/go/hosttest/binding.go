//go:build !wasip1

package hosttest

import (
	"maps"
	"strings"
	"time"

	"kwx.dev/guest"
	"kwx.dev/guest/groups"
	"kwx.dev/guest/internal/hooks"
	"kwx.dev/guest/internal/host"
)

// Binding is what became of a binding cycle.
type Binding struct {
	Node string
	// Status is guest.Success once the pod is bound, guest.Wait while it waits on Permit, and else why it is not bound.
	Status guest.Status
	// Timeout is for how long the pod may wait at most. Tests have no clock: GiveUp ends a wait.
	Timeout time.Duration
	// Annotations are those that the bind gives the pod.
	Annotations map[string]string
}

// Bind runs the binding cycle on a node: Reserve, BindingAnnotations and Permit, and PreBind, Bind and PostBind unless
// the pod waits. After a failure comes Unreserve, and the pod is pending again.
func (c *Cycle) Bind(node string) Binding {
	c.host.t.Helper()
	c.host.numberOf(node)
	c.enter(binding)
	c.Binding = Binding{Node: node}
	c.host.place(c.pod, node, groups.Binding)
	if status := c.ask(hooks.Reserve); status != guest.Success {
		return c.undo(status)
	}
	c.annotate()
	return c.permit()
}

// Resume asks Permit of a pod that waits again, as the host does when pods, nodes or groups have changed, and goes on
// if that lets it. Another instance of the plugin may be asked: PreFilter comes first.
func (c *Cycle) Resume() Binding {
	c.host.t.Helper()
	c.mustWait()
	c.begin()
	return c.permit()
}

// GiveUp ends a wait on Permit, as its timeout does: Unreserve.
func (c *Cycle) GiveUp() Binding {
	c.host.t.Helper()
	c.mustWait()
	return c.reject(guest.Unschedulable("the wait on Permit was given up"))
}

func (c *Cycle) mustWait() {
	c.host.t.Helper()
	if c.host.waiting[string(c.pod.UID)] != c {
		c.host.t.Fatalf("pod %s does not wait on Permit", keyOf(c.pod))
	}
}

// annotate puts the annotations that the plugin chose on the pod, for all who look at it.
func (c *Cycle) annotate() {
	if hooks.BindingAnnotations == nil {
		return
	}
	var pairs string
	c.onNode(func() { pairs = string(hooks.BindingAnnotations()) })
	if pairs == "" {
		return
	}
	texts := strings.Split(strings.TrimSuffix(pairs, "\x00"), "\x00")
	c.Binding.Annotations = map[string]string{}
	for i := 0; i+1 < len(texts); i += 2 {
		c.Binding.Annotations[texts[i]] = texts[i+1]
	}
	annotated := c.pod.DeepCopy()
	if annotated.Annotations == nil {
		annotated.Annotations = map[string]string{}
	}
	maps.Copy(annotated.Annotations, c.Binding.Annotations)
	c.host.place(annotated, c.Binding.Node, groups.Binding)
}

func (c *Cycle) permit() Binding {
	c.host.t.Helper()
	status := guest.Success
	if hooks.Permit != nil {
		status = c.ask(func() int32 {
			packed := hooks.Permit()
			c.Binding.Timeout = time.Duration(uint32(packed)) * time.Millisecond
			return int32(packed >> 32)
		})
	}
	switch status.Code() {
	case success:
		return c.complete()
	case wait:
		c.Binding.Status = status
		c.host.waiting[string(c.pod.UID)] = c
		host.Native.Waiting[string(c.pod.UID)] = true
		c.host.settle()
		return c.Binding
	}
	return c.undo(status)
}

// complete binds the pod, after Permit.
func (c *Cycle) complete() Binding {
	c.host.t.Helper()
	c.endWait()
	if status := c.ask(hooks.PreBind); status != guest.Success {
		return c.undo(status)
	}
	if status := c.ask(hooks.Bind); status != guest.Success && status.Code() != skip {
		return c.undo(status)
	}
	c.Binding.Status = guest.Success
	if hooks.PostBind != nil {
		c.onNode(hooks.PostBind)
	}
	bound, _ := c.host.pods.get(keyOf(c.pod))
	object := bound.object.DeepCopy()
	object.Spec.NodeName = c.Binding.Node
	c.host.place(object, c.Binding.Node, groups.Bound)
	c.end()
	return c.Binding
}

// undo calls Unreserve, and leaves the pod pending.
func (c *Cycle) undo(status guest.Status) Binding {
	c.host.t.Helper()
	c.endWait()
	if hooks.Unreserve != nil {
		c.onNode(hooks.Unreserve)
	}
	c.Binding = Binding{Node: c.Binding.Node, Status: status}
	c.host.place(c.pod, "", groups.Pending)
	c.end()
	return c.Binding
}

// end has whatever comes next for the pod begin a new cycle, and ends waits that the plugin has rejected.
func (c *Cycle) end() {
	c.host.t.Helper()
	if c.host.onCycle == c {
		c.host.onCycle = nil
	}
	c.host.settle()
}

// settle ends the waits of the pods that handle.RejectWaitingPod has named.
func (h *Host) settle() {
	h.t.Helper()
	for uid, waits := range maps.Clone(h.waiting) {
		if h.waiting[uid] == waits && !host.Native.Waiting[uid] {
			waits.reject(guest.Unschedulable("a plugin rejected the waiting pod"))
		}
	}
}

// reject ends a wait. Another instance of the plugin may be told: PreFilter comes first.
func (c *Cycle) reject(status guest.Status) Binding {
	c.host.t.Helper()
	c.begin()
	return c.undo(status)
}

func (c *Cycle) endWait() {
	delete(c.host.waiting, string(c.pod.UID))
	delete(host.Native.Waiting, string(c.pod.UID))
}

// ask is the answer of an extension point that is about the node, success if the plugin does not have it.
func (c *Cycle) ask(export func() int32) (status guest.Status) {
	if export == nil {
		return guest.Success
	}
	c.onNode(func() { status = answer(export) })
	return status
}

func (c *Cycle) onNode(call func()) {
	host.Native.NodeName = c.Binding.Node
	defer func() { host.Native.NodeName = "" }()
	call()
}
