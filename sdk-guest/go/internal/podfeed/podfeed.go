// Package podfeed is where the host tells of pods, those on nodes or those without one.
package podfeed

import (
	"encoding/binary"
	"unsafe"
)

// State is what a pod is to a node.
type State uint32

const (
	Gone State = iota
	There
	// Tentative is a pod that is expected on the node, and may not come.
	Tentative
)

// Change is what is new of a pod.
type Change struct {
	// Pod and Node are their numbers.
	Pod, Node uint32
	State     State
	// Object is a protobuf v1.Pod, valid until the next change; empty if it is as before.
	Object []byte
}

const (
	header    = 16
	alignment = 8
)

var buffer []uint64

// Feed is what the host tells of pods by one export.
type Feed struct {
	followers []func(Change)
	hasTold   bool
}

// Follow has every change told.
func (f *Feed) Follow(follower func(Change)) { f.followers = append(f.followers, follower) }

// HasTold is whether the host has ever told of a pod.
func (f *Feed) HasTold() bool { return f.hasTold }

//go:wasmexport podbuffer
func Buffer(size uint32) unsafe.Pointer {
	if words := (int(size) + alignment - 1) / alignment; len(buffer) < words || buffer == nil {
		buffer = make([]uint64, max(words, 1))
	}
	return unsafe.Pointer(unsafe.SliceData(buffer))
}

// Records are what the host has written, and perhaps more behind it.
func Records() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(buffer))), len(buffer)*alignment)
}

// Tell reads so many records of the buffer. Each is aligned: pod, node, state
// and length as u32, then as many bytes.
func (f *Feed) Tell(count uint32) {
	f.hasTold = true
	records := Records()
	for range count {
		length := binary.LittleEndian.Uint32(records[12:])
		change := Change{
			Pod:    binary.LittleEndian.Uint32(records),
			Node:   binary.LittleEndian.Uint32(records[4:]),
			State:  State(binary.LittleEndian.Uint32(records[8:])),
			Object: records[header : header+length],
		}
		for _, follow := range f.followers {
			follow(change)
		}
		records = records[(header+length+alignment-1)/alignment*alignment:]
	}
}
