// Command nodeinfo has random pods come to a node and go, and compares what the
// guests' library counts of them with what kube-scheduler's framework does.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
)

func main() {
	seed := flag.Int64("seed", 1, "seed of what is random")
	steps := flag.Int("steps", 1000, "how many pods come or go")
	flag.Parse()
	if err := compare(*seed, *steps); err != nil {
		fmt.Fprintf(os.Stderr, "seed %d: %v\n", *seed, err)
		os.Exit(1)
	}
}

// compare ends with the first difference.
func compare(seed int64, steps int) error {
	source := newSource(seed)
	both := newNodeInfos(source.node())
	for at := range steps {
		pod, err := both.step(source)
		if err == nil {
			err = both.difference()
		}
		if err != nil {
			text, _ := json.Marshal(pod)
			return fmt.Errorf("step %d: %w, after %s", at, err, text)
		}
	}
	return nil
}
