// Package list is where the host writes the numbers of nodes, and the guest
// its answers over them.
package list

import "unsafe"

var numbers []uint32

//go:wasmexport nodebuffer
func Buffer(count uint32) unsafe.Pointer {
	if uint32(len(numbers)) < count || numbers == nil {
		numbers = make([]uint32, max(count, 1))
	}
	return unsafe.Pointer(unsafe.SliceData(numbers))
}

// Numbers are the ones that the host has written.
func Numbers(count uint32) []uint32 { return numbers[:count] }
