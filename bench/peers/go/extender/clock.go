package main

import (
	"expvar"
	"io"
	"time"
)

// seconds are what the phases of each verb took so far, at /debug/vars: decode (JSON to Go's objects), map (finding the
// nodes), guest (the policies), encode (Go's objects to JSON). Neither reading a request nor writing its answer is in them.
var seconds = expvar.NewMap("seconds")

// phases are those of a verb.
func phases(verb string) *expvar.Map {
	p := new(expvar.Map)
	seconds.Set(verb, p)
	return p
}

// clock measures the phases of one request.
type clock struct {
	phases *expvar.Map
	last   time.Time
}

func startClock(phases *expvar.Map) *clock {
	return &clock{phases, time.Now()}
}

// lap ends a phase.
func (c *clock) lap(phase string) {
	now := time.Now()
	c.phases.AddFloat(phase, now.Sub(c.last).Seconds())
	c.last = now
}

// skip leaves some time out of the current phase.
func (c *clock) skip(duration time.Duration) {
	c.last = c.last.Add(duration)
}

// timedReader measures how long it was read from.
type timedReader struct {
	io.Reader
	taken time.Duration
}

// Read reads, which may have to wait for the client.
func (r *timedReader) Read(into []byte) (int, error) {
	begun := time.Now()
	n, err := r.Reader.Read(into)
	r.taken += time.Since(begun)
	return n, err
}
