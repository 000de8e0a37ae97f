package garbage

import (
	"runtime/debug"
	"runtime/metrics"
	"testing"
)

var kept, dropped [][]byte

func collections() uint64 {
	sample := []metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

func allocate(bytes int) (blocks [][]byte) {
	for range bytes >> 12 {
		blocks = append(blocks, make([]byte, 1<<12))
	}
	return blocks
}

func TestItCollectsWhatIsWorthIt(t *testing.T) {
	collectgarbage()
	for _, step := range []struct {
		kept, dropped int
		collections   uint64
		ceiling       int64
	}{
		{0, leastGarbage / 2, 0, leastCeiling},
		{0, leastGarbage, 1, leastCeiling},
		{60 << 20, 0, 1, 120 << 20},
		{0, leastGarbage, 0, 120 << 20},
		{0, 20 << 20, 1, 120 << 20},
	} {
		before := collections()
		kept = append(kept, allocate(step.kept)...)
		dropped = allocate(step.dropped)
		dropped = nil
		if got := collections() - before; step.kept == 0 && got != 0 {
			t.Errorf("%+v: Go collected %d times", step, got)
		}
		before = collections()
		collectgarbage()
		if got := collections() - before; got != step.collections {
			t.Errorf("%+v: collected %d times", step, got)
		}
		ceiling := debug.SetMemoryLimit(-1)
		if ceiling < step.ceiling || ceiling > step.ceiling+10<<20 {
			t.Errorf("%+v: the ceiling is %d", step, ceiling)
		}
	}
}
