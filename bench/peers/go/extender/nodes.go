package main

import (
	"context"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// Nodes are the cluster's nodes, decoded, by name. It is the store of a client-go reflector.
type Nodes struct {
	mu     sync.RWMutex
	byName map[string]*v1.Node
	synced atomic.Bool
}

var _ cache.ReflectorStore = &Nodes{}

// NewNodes knows no node.
func NewNodes() *Nodes {
	return &Nodes{byName: map[string]*v1.Node{}}
}

// Follow keeps the nodes current by list and watch, in protobuf, until the context is done.
func (n *Nodes) Follow(ctx context.Context, config *rest.Config) error {
	config.ContentType = runtime.ContentTypeProtobuf
	client, err := corev1.NewForConfig(config)
	if err != nil {
		return err
	}
	listWatch := cache.NewListWatchFromClient(client.RESTClient(), "nodes", v1.NamespaceAll, fields.Everything())
	reflector := cache.NewReflectorWithOptions(listWatch, &v1.Node{}, n, cache.ReflectorOptions{Name: "nodes"})
	go reflector.RunWithContext(ctx)
	return nil
}

// Synced tells whether all nodes have been read at least once.
func (n *Nodes) Synced() bool {
	return n.synced.Load()
}

// Named are the nodes of these names; missing is one that is not known, if there is any.
func (n *Nodes) Named(names []string) (nodes []*v1.Node, missing string) {
	nodes = make([]*v1.Node, len(names))
	n.mu.RLock()
	defer n.mu.RUnlock()
	for i, name := range names {
		node, ok := n.byName[name]
		if !ok {
			return nil, name
		}
		nodes[i] = node
	}
	return nodes, ""
}

// Add puts a node.
func (n *Nodes) Add(object any) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	node := object.(*v1.Node)
	n.byName[node.Name] = node
	return nil
}

// Update puts a node.
func (n *Nodes) Update(object any) error {
	return n.Add(object)
}

// Delete forgets a node.
func (n *Nodes) Delete(object any) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.byName, object.(*v1.Node).Name)
	return nil
}

// Replace makes the objects all nodes there are.
func (n *Nodes) Replace(objects []any, _ string) error {
	byName := make(map[string]*v1.Node, len(objects))
	for _, object := range objects {
		node := object.(*v1.Node)
		byName[node.Name] = node
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.byName = byName
	n.synced.Store(true)
	return nil
}

// Resync has nothing to do.
func (n *Nodes) Resync() error {
	return nil
}
