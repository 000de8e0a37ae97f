// Upstream puts pods through scheduling cycles of plugins of kube-scheduler-wasm-extension, in this process.
//
//	upstream -nodes FILE -guest FILE [-plugins N] [-config TEXT] [ARG...]
//
// The nodes are a protobuf v1.NodeList; ARGs are the guest's argv. How it is asked says package protocol.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	wasm "sigs.k8s.io/kube-scheduler-wasm-extension/scheduler/plugin"

	"peers/protocol"
)

func main() {
	if err := play(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func play(ctx context.Context) error {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	file := flag.String("nodes", "", "file of a protobuf v1.NodeList")
	guest := flag.String("guest", "", "file of the guest")
	count := flag.Int("plugins", 1, "how many plugins there are, each with the same guest")
	config := flag.String("config", "", "the guest's configuration")
	flag.Parse()

	module, err := filepath.Abs(*guest)
	if err != nil {
		return err
	}
	nodes, err := os.ReadFile(*file)
	if err != nil {
		return err
	}
	player := &player{ctx: ctx, snapshot: cache.NewEmptySnapshot()}
	if err := player.Put(nodes); err != nil {
		return fmt.Errorf("%s: %w", *file, err)
	}
	handle, err := runtime.NewFramework(ctx, nil, nil,
		runtime.WithSnapshotSharedLister(player.snapshot), runtime.WithEventRecorder(&events.FakeRecorder{}))
	if err != nil {
		return err
	}
	begun := time.Now()
	for i := range *count {
		name := fmt.Sprintf("%s-%d", strings.TrimSuffix(filepath.Base(*guest), ".wasm"), i)
		args := flag.Args()
		if len(args) == 0 {
			args = []string{name}
		}
		made, err := wasm.NewFromConfig(ctx, name, wasm.PluginConfig{GuestURL: "file://" + module, GuestConfig: *config, Args: args}, handle)
		if err != nil {
			return err
		}
		player.plugins = append(player.plugins, extensionsOf(made))
	}
	return protocol.Serve(player, time.Since(begun).Seconds())
}

type player struct {
	ctx      context.Context
	plugins  []extensions
	nodes    protocol.Nodes[*v1.Node]
	snapshot *cache.Snapshot
}

// Put makes another snapshot, as the scheduler's cache does of nodes that have changed.
func (p *player) Put(nodes []byte) error {
	var list v1.NodeList
	if err := list.Unmarshal(nodes); err != nil {
		return err
	}
	for i := range list.Items {
		p.nodes.Put(list.Items[i].Name, &list.Items[i])
	}
	all, err := p.nodes.Asked(&protocol.Request{})
	if err != nil {
		return err
	}
	*p.snapshot = *cache.NewSnapshot(nil, all)
	return nil
}

// Play runs the cycle.
func (p *player) Play(request *protocol.Request) (*protocol.Cycle, error) {
	pod := &v1.Pod{}
	if err := pod.Unmarshal(request.Pod); err != nil {
		return nil, err
	}
	nodes, err := p.nodes.Asked(request)
	if err != nil {
		return protocol.Failed(err.Error()), nil
	}
	infos := make([]*framework.NodeInfo, len(nodes))
	for i, node := range nodes {
		if infos[i], err = p.snapshot.NodeInfos().Get(node.Name); err != nil {
			return nil, err
		}
	}
	c := &cycle{ctx: p.ctx, plugins: p.plugins, state: framework.NewCycleState(), pod: pod}
	played, failed := c.run(infos)
	if failed != nil {
		return protocol.Failed(failed.Message()), nil
	}
	if request.Answer {
		played.Answer = c.answer()
	}
	return played, nil
}
