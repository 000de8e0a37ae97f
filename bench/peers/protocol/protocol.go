// Package protocol is how the harness asks a player: by lines of JSON on its standard input and output.
//
// A player writes Ready once it has its nodes. Then it reads a Request a line, and answers each that has a pod with a
// Cycle. The end of its input ends it.
package protocol

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// Ready is the first line of a player.
type Ready struct {
	// StartSeconds is what loading the plugin took.
	StartSeconds float64 `json:"startSeconds"`
}

// Request is a pod that waits, or nodes that have changed.
type Request struct {
	// Pod is a protobuf v1.Pod.
	Pod []byte `json:"pod"`
	// Start is the index of the node that comes first where there are no Names: kube-scheduler goes round.
	Start int `json:"start"`
	// Names are those of the nodes that the pod may be put on, in this order; nil for all nodes.
	Names []string `json:"names"`
	// Answer tells whether the harness wants to know what the cycle came to.
	Answer bool `json:"answer"`
	// Nodes is a protobuf v1.NodeList, and nil where there is a pod.
	Nodes []byte `json:"nodes"`
}

// Cycle is what became of a pod.
type Cycle struct {
	Filter Verb `json:"filter"`
	// Prioritize is nil where no more than one node passed: kube-scheduler takes the only one.
	Prioritize *Verb `json:"prioritize"`
	// Answer is there if it was asked for, or if the cycle failed; then nothing was measured.
	Answer *Answer `json:"answer"`
}

// Verb is what a verb took, and its parts, in seconds.
type Verb struct {
	Seconds float64            `json:"seconds"`
	Parts   map[string]float64 `json:"parts"`
}

// Answer is what a cycle came to.
type Answer struct {
	// Failure is why it ended early; empty if it did not.
	Failure string `json:"failure"`
	// Rejected are the nodes that did not pass.
	Rejected map[string]Status `json:"rejected"`
	// Scores are those of the nodes that passed, 0 for the only one.
	Scores map[string]int64 `json:"scores"`
}

// Failed is a cycle that ended early.
func Failed(why string) *Cycle {
	return &Cycle{
		Filter: Verb{Parts: map[string]float64{}},
		Answer: &Answer{why, map[string]Status{}, map[string]int64{}},
	}
}

// Status is a code of the scheduling framework, Unschedulable or UnschedulableAndUnresolvable, and the reason.
type Status struct {
	Code   int    `json:"code"`
	Reason string `json:"reason"`
}

// Player knows nodes and puts pods through scheduling cycles.
type Player interface {
	// Put puts the nodes of a protobuf v1.NodeList in the place of those of the same names, or after all others.
	Put(nodes []byte) error
	// Play puts a pod through a cycle. An error is the harness's fault and ends the player.
	Play(request *Request) (*Cycle, error)
}

// Serve lets a player answer requests.
func Serve(player Player, startSeconds float64) error {
	requests, lines := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	if err := lines.Encode(Ready{startSeconds}); err != nil {
		return err
	}
	for {
		var request Request
		if err := requests.Decode(&request); err != nil {
			return unlessEnd(err)
		}
		if request.Nodes != nil {
			if err := player.Put(request.Nodes); err != nil {
				return err
			}
			continue
		}
		cycle, err := player.Play(&request)
		if err != nil {
			return err
		}
		if err := lines.Encode(cycle); err != nil {
			return err
		}
	}
}

func unlessEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// Nodes are what a player knows, in the order in which it was told of them first.
type Nodes[Node any] struct {
	all   []Node
	index map[string]int
}

// Put puts a node in the place of the one that has its name, or after all others.
func (n *Nodes[Node]) Put(name string, node Node) {
	at, known := n.index[name]
	if known {
		n.all[at] = node
		return
	}
	if n.index == nil {
		n.index = map[string]int{}
	}
	n.index[name] = len(n.all)
	n.all = append(n.all, node)
}

// Asked are the nodes of a request, in its order.
func (n *Nodes[Node]) Asked(request *Request) ([]Node, error) {
	if request.Names == nil {
		return n.round(request.Start)
	}
	nodes := make([]Node, len(request.Names))
	for i, name := range request.Names {
		at, known := n.index[name]
		if !known {
			return nil, fmt.Errorf("node %s is not known", name)
		}
		nodes[i] = n.all[at]
	}
	return nodes, nil
}

func (n *Nodes[Node]) round(start int) ([]Node, error) {
	if start < 0 || start > len(n.all) {
		return nil, fmt.Errorf("there is no node %d: they are %d", start, len(n.all))
	}
	return append(append(make([]Node, 0, len(n.all)), n.all[start:]...), n.all[:start]...), nil
}
