//go:build !wasip1

package hosttest

import (
	"encoding/json"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"kwx.dev/guest"
	"kwx.dev/guest/groups"
	"kwx.dev/guest/internal/cycle"
	"kwx.dev/guest/internal/hooks"
	"kwx.dev/guest/internal/host"
	"kwx.dev/guest/internal/list"
)

// Cycle is the cycle of a pod. PreFilter comes first in each, and once more where the host begins anew: at each Filter,
// after the cycle of another pod, and after a wait on Permit.
type Cycle struct {
	// Verdicts are what PreFilter and Filter said of each node.
	Verdicts map[string]guest.Status
	// Scores are those of the nodes that passed, from 0 to 100; nil if the plugin gives none.
	Scores map[string]int32
	// Binding is what became of the pod's binding cycle.
	Binding Binding

	host  *Host
	pod   *v1.Pod
	stage stage
	// status and names are PreFilter's; no names are all nodes.
	status guest.Status
	names  []string
}

// stage is a part of a cycle, in their order.
type stage int

const (
	filtering stage = iota
	scoring
	preempting
	nominating
	binding
)

const (
	success       = 0
	unschedulable = 2
	wait          = 4
	skip          = 5
)

// Begin has a pod without a node come to its cycle. The plugin is not asked yet.
func (h *Host) Begin(pod *v1.Pod) *Cycle {
	h.t.Helper()
	pod = complete(pod)
	h.place(pod, "", groups.Pending)
	return &Cycle{host: h, pod: pod}
}

// Schedule has a pod come to a whole cycle: Filter, Score, and Bind on the node with the highest score, of equal ones
// the first by name. A pod that no node is left for is not bound.
func (h *Host) Schedule(pod *v1.Pod) *Cycle {
	h.t.Helper()
	c := h.Begin(pod)
	c.Filter()
	c.Score()
	best := ""
	for _, name := range c.passed() {
		if best == "" || c.Scores[name] > c.Scores[best] {
			best = name
		}
	}
	if best != "" {
		c.Bind(best)
	}
	return c
}

// Filter begins the cycle anew: PreFilter, and Filter on each node that it leaves. It returns the verdicts.
func (c *Cycle) Filter() map[string]guest.Status {
	c.host.t.Helper()
	c.enter(filtering)
	c.Verdicts, c.Scores = map[string]guest.Status{}, nil
	var left []string
	for _, name := range c.host.nodeNames() {
		switch code := c.status.Code(); {
		case code == skip:
			c.Verdicts[name] = guest.Success
		case code != success:
			c.Verdicts[name] = c.status
		case len(c.names) > 0 && !slices.Contains(c.names, name):
			c.Verdicts[name] = guest.Unresolvable("node(s) not among those that PreFilter names")
		default:
			c.Verdicts[name] = guest.Success
			left = append(left, name)
		}
	}
	if hooks.FilterNodes != nil {
		c.filter(left)
	}
	c.host.settle()
	return c.Verdicts
}

func (c *Cycle) filter(names []string) {
	numbers := c.numbered(names)
	host.Native.Reasons = nil
	hooks.FilterNodes(uint32(len(numbers)))
	for i, answer := range numbers {
		reason := ""
		if at := answer >> 8; at > 0 {
			reason = host.Native.Reasons[at-1]
		}
		c.Verdicts[names[i]] = guest.StatusOf(int32(answer&0xff), reason)
	}
}

// numbered has the numbers of nodes where the plugin finds them and leaves its answers.
func (c *Cycle) numbered(names []string) []uint32 {
	list.Buffer(uint32(len(names)))
	numbers := list.Numbers(uint32(len(names)))
	for i, name := range names {
		numbers[i], _ = c.host.nodes.number(name)
	}
	return numbers
}

// passed are the nodes that Filter has let pass, or all where it was not asked.
func (c *Cycle) passed() []string {
	return slices.DeleteFunc(c.host.nodeNames(), func(name string) bool {
		return c.Verdicts != nil && c.Verdicts[name] != guest.Success
	})
}

// Score calls PreScore, Score on each node that has passed, and NormalizeScore. It returns the scores: nil if the plugin
// has no Score, or PreScore says Skip.
func (c *Cycle) Score() map[string]int32 {
	c.host.t.Helper()
	c.enter(scoring)
	c.Scores = nil
	if hooks.PreScore != nil {
		switch status := answer(hooks.PreScore); status.Code() {
		case success:
		case skip:
			return nil
		default:
			c.fail("prescore", status)
		}
	}
	names := c.passed()
	if hooks.ScoreNodes == nil || len(names) == 0 {
		return nil
	}
	numbers := c.numbered(names)
	count := uint32(len(names))
	if status := answer(func() int32 { return hooks.ScoreNodes(count) }); status != guest.Success {
		c.fail("score", status)
	}
	scores := map[string]int32{}
	for i, score := range numbers {
		scores[names[i]] = int32(score)
	}
	c.Scores = c.inRange(c.normalized(scores))
	c.host.settle()
	return c.Scores
}

func (c *Cycle) normalized(scores map[string]int32) map[string]int32 {
	c.host.t.Helper()
	if hooks.NormalizeScore == nil {
		return scores
	}
	text, err := json.Marshal(scores)
	if err != nil {
		c.host.t.Fatal(err)
	}
	host.Native.Scores = text
	if status := answer(hooks.NormalizeScore); status != guest.Success {
		c.fail("normalizescore", status)
	}
	var normalized map[string]int32
	if err := json.Unmarshal([]byte(result("normalized_score_list")), &normalized); err != nil {
		c.host.t.Fatalf("normalizescore: %v", err)
	}
	return normalized
}

func (c *Cycle) inRange(scores map[string]int32) map[string]int32 {
	c.host.t.Helper()
	for _, name := range c.passed() {
		if score := scores[name]; score < 0 || score > 100 {
			c.host.t.Fatalf("score %d of node %s is outside 0..100", score, name)
		}
	}
	return scores
}

// Preempt asks about candidates for preemption, each with the pods that would be evicted there: RemovePod of each,
// Filter, AddPod of each, and PostFilter for the candidates that are left. It returns those that stay.
func (c *Cycle) Preempt(victims map[string][]*v1.Pod) []string {
	c.host.t.Helper()
	c.enter(preempting)
	if hooks.Filter == nil {
		return nil
	}
	var stay []string
	for _, name := range c.host.nodeNames() {
		if evicted, isCandidate := victims[name]; isCandidate && c.passesWithout(evicted, name) {
			stay = append(stay, name)
		}
	}
	if hooks.PostFilter == nil || len(stay) == 0 {
		return stay
	}
	return c.nominated(stay)
}

func (c *Cycle) passesWithout(victims []*v1.Pod, node string) bool {
	c.host.t.Helper()
	host.Native.NodeName = node
	defer func() { host.Native.NodeName = "" }()
	c.each("removepod", hooks.RemovePod, victims)
	status := answer(hooks.Filter)
	c.each("addpod", hooks.AddPod, victims)
	return status == guest.Success
}

// each calls AddPod or RemovePod for each of some pods.
func (c *Cycle) each(point string, export func() int32, targets []*v1.Pod) {
	c.host.t.Helper()
	if export == nil {
		return
	}
	for _, target := range targets {
		host.Native.Target = marshalled(c.host.t, complete(target))
		if status := answer(export); status != guest.Success {
			c.fail(point, status)
		}
	}
	host.Native.Target = nil
}

func (c *Cycle) nominated(candidates []string) []string {
	c.host.t.Helper()
	c.enter(nominating)
	codes := map[string]int32{}
	for _, name := range candidates {
		codes[name] = unschedulable
	}
	text, err := json.Marshal(codes)
	if err != nil {
		c.host.t.Fatal(err)
	}
	host.Native.Statuses = text
	status := answer(func() int32 { return int32(hooks.PostFilter()) })
	host.Native.Statuses = nil
	name := result("nominated_node_name")
	switch {
	case status != guest.Success || name == "":
		return candidates
	case slices.Contains(candidates, name):
		return []string{name}
	}
	return nil
}

// enter goes on to a stage of the cycle, which begins anew where the plugin was asked about another pod meanwhile, or
// the cycle was there before.
func (c *Cycle) enter(at stage) {
	if c.host.onCycle != c || at <= c.stage {
		c.begin()
	}
	c.stage = at
}

// begin calls PreFilter.
func (c *Cycle) begin() {
	c.host.t.Helper()
	c.host.onCycle = c
	host.Native.Pod = marshalled(c.host.t, c.pod)
	c.status = answer(cycle.Begin)
	c.names = nil
	if names := result("node_names"); names != "" {
		c.names = strings.Split(strings.TrimSuffix(names, "\x00"), "\x00")
	}
}

func (c *Cycle) fail(point string, status guest.Status) {
	c.host.t.Helper()
	c.host.t.Fatalf("%s: status code %d: %s", point, status.Code(), status.Reason())
}

// answer is what an export says.
func answer(export func() int32) guest.Status {
	host.Native.Reasons, host.Native.Results = nil, nil
	return statusOf(export())
}

func statusOf(code int32) guest.Status {
	reason := ""
	if count := len(host.Native.Reasons); count > 0 {
		reason = host.Native.Reasons[count-1]
	}
	return guest.StatusOf(code, reason)
}

// result is what the plugin has handed over by that name, empty if nothing.
func result(name string) string {
	for _, each := range host.Native.Results {
		if value, isIt := strings.CutPrefix(each, name+" "); isIt {
			return value
		}
	}
	return ""
}
