package groups

import (
	"encoding/binary"
	"time"

	"kwx.dev/guest/internal/hooks"
	"kwx.dev/guest/internal/podfeed"
	"kwx.dev/guest/internal/residents"
)

// none is the number of no group.
const none = 1<<32 - 1

const (
	groupHeader  = 40
	memberRecord = 16
	alignment    = 8
)

func init() { hooks.GroupsChanged, hooks.MembersChanged = groupschanged, memberschanged }

//go:wasmexport groupschanged
func groupschanged(count uint32) {
	records := podfeed.Records()
	for range count {
		number, group, length := readGroup(records)
		known.put(number, group)
		records = records[length:]
	}
}

//go:wasmexport memberschanged
func memberschanged(count uint32) {
	records := podfeed.Records()
	for range count {
		pod, group, member := readMember(records)
		known.join(pod, group, member)
		records = records[memberRecord:]
	}
}

// readGroup reads a record: the group's number, what is known of it, and the record's bytes. A group that is gone is nil.
func readGroup(record []byte) (number uint32, group *Group, length int) {
	middle := groupHeader + int(word(record, 32))
	end := middle + int(word(record, 36))
	number, length = word(record, 0), (end+alignment-1)/alignment*alignment
	if word(record, 4) == 0 {
		return number, nil, length
	}
	group = &Group{
		Namespace: string(record[groupHeader:middle]),
		Name:      string(record[middle:end]),
		Minimum:   int(word(record, 12)),
		Timeout:   time.Duration(word(record, 16)) * time.Second,
		Priority:  int32(word(record, 20)),
	}
	if created := binary.LittleEndian.Uint64(record[24:]); created > 0 {
		group.Created = time.Unix(int64(created), 0)
	}
	group.key = Key{source(word(record, 8)), group.Namespace, group.Name}
	return number, group, length
}

// readMember reads a record: the pod's number, that of its group, and where it is.
func readMember(record []byte) (pod, group uint32, member Member) {
	pod, group, member.Node = word(record, 0), word(record, 12), word(record, 4)
	switch state := word(record, 8); {
	case state == 0:
		group = none
	case state == 2:
		member.State = Tentative
	case state == 3:
		member.State = Binding
	case member.Node != residents.Unannounced:
		member.State = Bound
	}
	return pod, group, member
}

func word(record []byte, at int) uint32 { return binary.LittleEndian.Uint32(record[at:]) }
