package podfeed

import (
	"encoding/binary"
	"fmt"
	"testing"
	"unsafe"
)

// write does what a host does with changes.
func write(feed *Feed, changes ...Change) {
	var records []byte
	for _, change := range changes {
		for _, number := range []uint32{change.Pod, change.Node, uint32(change.State), uint32(len(change.Object))} {
			records = binary.LittleEndian.AppendUint32(records, number)
		}
		records = append(records, change.Object...)
		for len(records)%alignment != 0 {
			records = append(records, 0xff)
		}
	}
	copy(unsafe.Slice((*byte)(Buffer(uint32(len(records)))), len(records)), records)
	feed.Tell(uint32(len(changes)))
}

func TestEachChangeIsTold(t *testing.T) {
	var feed, other Feed
	var got []string
	feed.Follow(func(change Change) { got = append(got, fmt.Sprintf("%+v", change)) })
	if feed.HasTold() {
		t.Error("nothing was told so far")
	}
	write(&feed, Change{3, 1, There, []byte("a")}, Change{0, 1 << 31, Tentative, nil}, Change{3, 1<<32 - 1, Gone, nil})
	write(&feed, Change{2, 5, There, []byte("12345678")}, Change{1, 5, There, []byte("123456789")})
	want := fmt.Sprint([]string{
		"{Pod:3 Node:1 State:1 Object:[97]}",
		"{Pod:0 Node:2147483648 State:2 Object:[]}",
		"{Pod:3 Node:4294967295 State:0 Object:[]}",
		"{Pod:2 Node:5 State:1 Object:[49 50 51 52 53 54 55 56]}",
		"{Pod:1 Node:5 State:1 Object:[49 50 51 52 53 54 55 56 57]}",
	})
	if fmt.Sprint(got) != want || !feed.HasTold() || other.HasTold() {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestTheBufferHasRoomAndStays(t *testing.T) {
	for _, size := range []uint32{0, 1, 9, 2, 65536} {
		room := Buffer(size)
		if room == nil || uintptr(room)%alignment != 0 {
			t.Fatalf("%d: %v", size, room)
		}
		if again := Buffer(size); again != room || uint32(len(buffer)*alignment) < size {
			t.Errorf("%d: %v %v", size, room, again)
		}
	}
}
