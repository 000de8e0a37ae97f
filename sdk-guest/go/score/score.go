// Package score has modules that import it export score, for one node and for
// lists of them.
package score

import (
	"kwx.dev/guest"
	"kwx.dev/guest/internal/hooks"
	"kwx.dev/guest/internal/list"
	"kwx.dev/guest/internal/podview"
	"kwx.dev/guest/internal/residents"
)

var (
	one func() (int32, guest.Status)
	all func(numbers []uint32) guest.Status
)

func init() { hooks.ScoreNodes = scorenodes }

// Register makes score the plugin's Score: how good the node is for the pod, from 0 to 100.
func Register[P, N any](pod *podview.View[P], node *residents.View[N], score func(P, N) int32) {
	one = func() (int32, guest.Status) {
		node, err := node.Current()
		if err != nil {
			return 0, guest.Error(err)
		}
		return score(pod.Current(), node), guest.Success
	}
	all = func(numbers []uint32) guest.Status {
		pod := pod.Current()
		for i, number := range numbers {
			node, err := node.Numbered(number)
			if err != nil {
				return guest.Error(err)
			}
			numbers[i] = uint32(score(pod, node))
		}
		return guest.Success
	}
}

//go:wasmexport score
func score() int64 {
	score, status := one()
	return int64(score)<<32 | int64(status.Send())
}

//go:wasmexport scorenodes
func scorenodes(count uint32) int32 { return all(list.Numbers(count)).Send() }
