// Scores nodes by number: a pod whose name ends in a digit prefers the nodes
// whose names end in the same digit. It knows nodes by name only, so it runs
// where the host has no node objects.
//
// Configuration: {"reverse": true} prefers all the other nodes instead.
package main

import (
	"kwx.dev/guest"
	"kwx.dev/guest/lazy"
	"kwx.dev/guest/prescore"
	"kwx.dev/guest/score"
)

var config struct {
	Reverse bool `json:"reverse"`
}

// none stands for the last digit of a name that does not end in one.
const none = -1

func init() {
	guest.Config(&config)
	pod := lazy.Pods(func(pod lazy.Pod) int { return lastDigit(pod.Name()) })
	node := lazy.Names(lastDigit)
	prescore.Register(pod, preScore)
	score.Register(pod, node, rate)
}

func main() {}

func preScore(pod int) guest.Status {
	if pod == none {
		return guest.Skip
	}
	return guest.Success
}

func rate(pod, node int) int32 {
	if pod != none && (pod == node) != config.Reverse {
		return 100
	}
	return 0
}

func lastDigit(name string) int {
	if name == "" {
		return none
	}
	last := name[len(name)-1]
	if last < '0' || last > '9' {
		return none
	}
	return int(last - '0')
}
