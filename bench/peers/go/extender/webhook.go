package main

import (
	"encoding/json"
	"expvar"
	"fmt"
	"net/http"
	"strconv"

	v1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

type webhook struct {
	nodes                          *Nodes
	plugins                        int
	top                            *top
	filterPhases, prioritizePhases *expvar.Map
}

// NewHandler serves the verbs with these nodes and as many policies. Where most is not 0, filter answers the best nodes
// only, that many at most.
func NewHandler(nodes *Nodes, plugins, most int) http.Handler {
	w := &webhook{nodes, plugins, newTop(most), phases("filter"), phases("prioritize")}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /filter", w.filter)
	mux.HandleFunc("POST /prioritize", w.prioritize)
	mux.HandleFunc("GET /readyz", w.ready)
	mux.Handle("GET /debug/vars", expvar.Handler())
	return mux
}

func (w *webhook) ready(response http.ResponseWriter, _ *http.Request) {
	if !w.nodes.Synced() {
		http.Error(response, "the nodes are not known yet", http.StatusServiceUnavailable)
	}
}

func (w *webhook) filter(response http.ResponseWriter, request *http.Request) {
	clock := startClock(w.filterPhases)
	args, nodes, err := w.read(request, clock)
	if err != nil {
		http.Error(response, err.Error(), http.StatusBadRequest)
		return
	}
	policies := newPolicies(w.plugins, args.Pod)
	kept := make([]*v1.Node, 0, len(nodes))
	result := extenderv1.ExtenderFilterResult{
		FailedNodes:                extenderv1.FailedNodesMap{},
		FailedAndUnresolvableNodes: extenderv1.FailedNodesMap{},
	}
	for _, node := range nodes {
		switch reason, unresolvable := policies.filter(node); {
		case reason == "":
			kept = append(kept, node)
		case unresolvable:
			result.FailedAndUnresolvableNodes[node.Name] = reason
		default:
			result.FailedNodes[node.Name] = reason
		}
	}
	if w.top.most > 0 {
		kept = w.top.of(kept, policies.score)
	}
	clock.lap("guest")
	if args.NodeNames != nil {
		result.NodeNames = names(kept)
	} else {
		result.Nodes = list(kept)
	}
	write(response, &result, clock)
}

func (w *webhook) prioritize(response http.ResponseWriter, request *http.Request) {
	clock := startClock(w.prioritizePhases)
	args, nodes, err := w.read(request, clock)
	if err != nil {
		http.Error(response, err.Error(), http.StatusBadRequest)
		return
	}
	policies := newPolicies(w.plugins, args.Pod)
	priorities := make(extenderv1.HostPriorityList, len(nodes))
	for i, node := range nodes {
		priorities[i] = extenderv1.HostPriority{Host: node.Name, Score: policies.score(node)}
	}
	clock.lap("guest")
	write(response, priorities, clock)
}

// read decodes a request and finds its nodes: those that it names, or those that it carries.
func (w *webhook) read(request *http.Request, clock *clock) (*extenderv1.ExtenderArgs, []*v1.Node, error) {
	var args extenderv1.ExtenderArgs
	body := &timedReader{Reader: request.Body}
	if err := json.NewDecoder(body).Decode(&args); err != nil {
		return nil, nil, err
	}
	clock.skip(body.taken)
	clock.lap("decode")
	defer clock.lap("map")
	switch {
	case args.Pod == nil:
		return nil, nil, fmt.Errorf("the request has no Pod")
	case args.NodeNames != nil:
		nodes, missing := w.nodes.Named(*args.NodeNames)
		if missing != "" {
			return nil, nil, fmt.Errorf("node %s is not known", missing)
		}
		return &args, nodes, nil
	case args.Nodes != nil:
		nodes := make([]*v1.Node, len(args.Nodes.Items))
		for i := range args.Nodes.Items {
			nodes[i] = &args.Nodes.Items[i]
		}
		return &args, nodes, nil
	}
	return nil, nil, fmt.Errorf("the request has neither NodeNames nor Nodes")
}

func names(nodes []*v1.Node) *[]string {
	names := make([]string, len(nodes))
	for i, node := range nodes {
		names[i] = node.Name
	}
	return &names
}

func list(nodes []*v1.Node) *v1.NodeList {
	items := make([]v1.Node, len(nodes))
	for i, node := range nodes {
		items[i] = *node
	}
	return &v1.NodeList{Items: items}
}

// write answers with a Content-Length, so that the scheduler's client keeps the connection.
func write(response http.ResponseWriter, result any, clock *clock) {
	body, err := json.Marshal(result)
	if err != nil {
		http.Error(response, err.Error(), http.StatusInternalServerError)
		return
	}
	clock.lap("encode")
	response.Header().Set("Content-Type", "application/json")
	response.Header().Set("Content-Length", strconv.Itoa(len(body)))
	response.Write(body)
}
