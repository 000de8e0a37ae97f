package list

import (
	"reflect"
	"testing"
	"unsafe"
)

func TestTheBufferHasRoomAndStays(t *testing.T) {
	for _, count := range []uint32{0, 1, 3, 2, 5000} {
		room := Buffer(count)
		if room == nil || uintptr(room)%4 != 0 {
			t.Fatalf("%d: %v", count, room)
		}
		for i := range count {
			*(*uint32)(unsafe.Add(room, 4*i)) = i * i
		}
		var want []uint32
		for i := range count {
			want = append(want, i*i)
		}
		if got := Numbers(count); len(got) != int(count) || count > 0 && !reflect.DeepEqual(got, want) {
			t.Errorf("%d: %v", count, got)
		}
	}
}
