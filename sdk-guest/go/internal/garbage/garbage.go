// Package garbage collects it when the host has nothing else to do.
package garbage

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// leastCeiling is the smallest amount of memory, in bytes, at which Go collects within a verb.
	leastCeiling = 64 << 20
	// leastGarbage is the smallest amount, in bytes, that a collection is worth.
	leastGarbage = 4 << 20
)

// sizes of the heap in bytes: live after the last collection, and now.
var sizes = []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}}

// collectgarbage takes the collections over from Go, which chooses its time by
// how much was allocated: a full one takes longer than any verb. Until the host
// calls it, and above twice what is live, it is Go that collects.
//
// What is live is looked through for each collection, so garbage has to be a
// quarter of that before it is worth one.
//
//go:wasmexport collectgarbage
func collectgarbage() {
	debug.SetGCPercent(-1)
	if live, heap := read(); heap-min(live, heap) >= max(live/4, leastGarbage) {
		runtime.GC()
	}
	live, _ := read()
	debug.SetMemoryLimit(max(2*live, leastCeiling))
}

func read() (live, heap int64) {
	metrics.Read(sizes)
	return int64(sizes[0].Value.Uint64()), int64(sizes[1].Value.Uint64())
}
