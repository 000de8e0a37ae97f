// Package decoded has nodes as those of k8s.io/api.
package decoded

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	_ "kwx.dev/guest/internal/argv"
	"kwx.dev/guest/internal/residents"
)

// Node is the node of a name, as the host knows it.
func Node(name string) (*v1.Node, error) {
	contents, err := residents.Object(name)
	if err != nil {
		return nil, err
	}
	node := new(v1.Node)
	if err := node.Unmarshal(contents); err != nil {
		return nil, fmt.Errorf("node %s: %w", name, err)
	}
	return node, nil
}
