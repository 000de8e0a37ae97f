// Package normalizescore has modules that import it export normalizescore.
package normalizescore

import (
	"encoding/json"
	"fmt"

	"kwx.dev/guest"
	"kwx.dev/guest/internal/hooks"
	"kwx.dev/guest/internal/host"
	"kwx.dev/guest/internal/podview"
)

var plugin func(scores map[string]int32) guest.Status

func init() { hooks.NormalizeScore = normalizescore }

// Register makes normalize the plugin's NormalizeScore: it brings the scores
// that the plugin gave the nodes, which may be any, to 0 to 100 in place.
func Register[P any](pod *podview.View[P], normalize func(pod P, scores map[string]int32) guest.Status) {
	plugin = func(scores map[string]int32) guest.Status { return normalize(pod.Current(), scores) }
}

//go:wasmexport normalizescore
func normalizescore() int32 { return normalized().Send() }

func normalized() guest.Status {
	var scores map[string]int32
	if err := json.Unmarshal(host.NodeScoreList(), &scores); err != nil {
		return guest.Error(fmt.Errorf("scores of the nodes: %w", err))
	}
	status := plugin(scores)
	if status != guest.Success {
		return status
	}
	text, err := json.Marshal(scores)
	if err != nil {
		return guest.Error(err)
	}
	host.NormalizedScores(string(text))
	return guest.Success
}
