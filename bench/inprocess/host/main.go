// Command host puts pods through scheduling cycles of a plugin of kube-scheduler-wasm-extension.
//
//	host GUEST NODES NAME [ARG...]
//
// GUEST is the file of a compiled guest, NODES that of a protobuf v1.NodeList; NAME and ARGs are the guest's argv.
// The first line of standard output is empty and says that the host is ready. Then each line of standard input
// is a protobuf v1.Pod in base64, and each line of output what its cycle came to, as JSON.
package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	wasm "sigs.k8s.io/kube-scheduler-wasm-extension/scheduler/plugin"
)

func main() {
	if err := serve(context.Background(), os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(ctx context.Context, guest, nodes string, argv []string) error {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	snapshot, err := read(nodes)
	if err != nil {
		return err
	}
	infos, err := snapshot.NodeInfos().List()
	if err != nil {
		return err
	}
	handle, err := runtime.NewFramework(ctx, nil, nil,
		runtime.WithSnapshotSharedLister(snapshot), runtime.WithEventRecorder(&events.FakeRecorder{}))
	if err != nil {
		return err
	}
	config := wasm.PluginConfig{GuestURL: "file://" + guest, Args: argv}
	plugin, err := wasm.NewFromConfig(ctx, argv[0], config, handle)
	if err != nil {
		return err
	}
	fmt.Println()
	output := json.NewEncoder(os.Stdout)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		pod, err := decode(lines.Bytes())
		if err != nil {
			return err
		}
		if err := output.Encode(measure(ctx, plugin, pod, infos)); err != nil {
			return err
		}
	}
	return lines.Err()
}

// read is what a scheduler's snapshot of the nodes in a file is.
func read(file string) (*cache.Snapshot, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var list v1.NodeList
	if err := list.Unmarshal(data); err != nil {
		return nil, err
	}
	nodes := make([]*v1.Node, len(list.Items))
	for i := range list.Items {
		nodes[i] = &list.Items[i]
	}
	return cache.NewSnapshot(nil, nodes), nil
}

func decode(line []byte) (*v1.Pod, error) {
	data, err := base64.StdEncoding.AppendDecode(nil, line)
	if err != nil {
		return nil, err
	}
	pod := &v1.Pod{}
	return pod, pod.Unmarshal(data)
}

type measured struct {
	Seconds float64 `json:"seconds"`
	Answer  answer  `json:"answer"`
}

// answer is what a cycle came to; what was not called is empty.
type answer struct {
	// Failure is the first status that is none of a cycle that goes on.
	Failure   string `json:"failure"`
	PreFilter status `json:"pre_filter"`
	// Rejected has the nodes that did not pass Filter.
	Rejected map[string]status `json:"rejected"`
	// Scores has the nodes that passed, after NormalizeScore.
	Scores map[string]int64 `json:"scores"`
}

type status struct {
	Code   framework.Code `json:"code"`
	Reason string         `json:"reason"`
}

func statusOf(s *framework.Status) status {
	if s.IsSuccess() {
		return status{}
	}
	return status{s.Code(), s.Message()}
}

func measure(ctx context.Context, plugin framework.Plugin, pod *v1.Pod, nodes []*framework.NodeInfo) measured {
	c := cycle{ctx, framework.NewCycleState(), pod}
	begun := time.Now()
	preFilter, statuses, kept, failed := c.filter(plugin, nodes)
	var scores framework.NodeScoreList
	if failed == nil && len(kept) > 0 {
		scores, failed = c.score(plugin, kept)
	}
	seconds := time.Since(begun).Seconds()

	found := answer{PreFilter: statusOf(preFilter), Rejected: map[string]status{}, Scores: map[string]int64{}}
	if failed != nil {
		found.Failure = failed.Message()
	}
	for node, each := range statuses {
		found.Rejected[node] = statusOf(each)
	}
	for _, each := range scores {
		found.Scores[each.Name] = each.Score
	}
	return measured{seconds, found}
}

// cycle is a pod's scheduling cycle, in the order of pkg/scheduler/schedule_one.go and with one plugin. Its nodes are
// looked at one after the other: the plugin has one guest for a cycle, and a lock around it.
type cycle struct {
	ctx   context.Context
	state *framework.CycleState
	pod   *v1.Pod
}

func (c cycle) filter(plugin framework.Plugin, nodes []*framework.NodeInfo) (
	preFilter *framework.Status, rejected map[string]*framework.Status, kept []*framework.NodeInfo, failed *framework.Status,
) {
	if p, ok := plugin.(framework.PreFilterPlugin); ok {
		var result *framework.PreFilterResult
		result, preFilter = p.PreFilter(c.ctx, c.state, c.pod)
		switch {
		case preFilter.IsSkip():
			return preFilter, nil, nodes, nil
		case preFilter.IsRejected():
			return preFilter, nil, nil, nil
		case !preFilter.IsSuccess():
			return nil, nil, nil, preFilter
		}
		nodes = named(nodes, result)
	}
	p, ok := plugin.(framework.FilterPlugin)
	if !ok {
		return preFilter, nil, nodes, nil
	}
	rejected = map[string]*framework.Status{}
	for _, node := range nodes {
		switch found := p.Filter(c.ctx, c.state, c.pod, node); {
		case found.IsSuccess():
			kept = append(kept, node)
		case found.IsRejected():
			rejected[node.Node().Name] = found
		default:
			return preFilter, rejected, kept, found
		}
	}
	return preFilter, rejected, kept, nil
}

// named are the nodes that PreFilter leaves.
func named(nodes []*framework.NodeInfo, result *framework.PreFilterResult) []*framework.NodeInfo {
	if result.AllNodes() {
		return nodes
	}
	var left []*framework.NodeInfo
	for _, node := range nodes {
		if result.NodeNames.Has(node.Node().Name) {
			left = append(left, node)
		}
	}
	return left
}

func (c cycle) score(plugin framework.Plugin, nodes []*framework.NodeInfo) (framework.NodeScoreList, *framework.Status) {
	if p, ok := plugin.(framework.PreScorePlugin); ok {
		switch found := p.PreScore(c.ctx, c.state, c.pod, nodes); {
		case found.IsSkip():
			return nil, nil
		case !found.IsSuccess():
			return nil, found
		}
	}
	p, ok := plugin.(framework.ScorePlugin)
	if !ok {
		return nil, nil
	}
	scores := make(framework.NodeScoreList, len(nodes))
	for i, node := range nodes {
		value, found := p.Score(c.ctx, c.state, c.pod, node)
		if !found.IsSuccess() {
			return nil, found
		}
		scores[i] = framework.NodeScore{Name: node.Node().Name, Score: value}
	}
	if extensions := p.ScoreExtensions(); extensions != nil {
		if found := extensions.NormalizeScore(c.ctx, c.state, c.pod, scores); !found.IsSuccess() {
			return nil, found
		}
	}
	return scores, nil
}
