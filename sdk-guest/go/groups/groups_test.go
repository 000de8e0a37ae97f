package groups

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"
	"unsafe"

	v1 "k8s.io/api/core/v1"

	"kwx.dev/guest/internal/podfeed"
	"kwx.dev/guest/internal/residents"
)

func words(numbers ...uint32) []byte {
	var bytes []byte
	for _, number := range numbers {
		bytes = binary.LittleEndian.AppendUint32(bytes, number)
	}
	return bytes
}

// write has the host write records.
func write(records ...[]byte) uint32 {
	bytes := slices.Concat(records...)
	copy(unsafe.Slice((*byte)(podfeed.Buffer(uint32(len(bytes)))), len(bytes)), bytes)
	return uint32(len(records))
}

func there(number uint32, name string, minimum uint32) []byte {
	record := words(number, 1, uint32(byLabel), minimum, 60, ^uint32(0), 7, 0, 2, uint32(len(name)))
	record = append(record, "ml"+name...)
	for len(record)%alignment != 0 {
		record = append(record, 0xff)
	}
	return record
}

func gone(number uint32) []byte { return words(number, 0, 0, 0, 0, 0, 0, 0, 0, 0) }

// told is what is kept of a group, with its members by the numbers of pods.
func told(name string) string {
	group := Get(Key{byLabel, "ml", name})
	if group == nil {
		return "unknown"
	}
	return fmt.Sprint(group.Minimum, " ", group.members)
}

func expect(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func restart() { known = table{numbers: map[Key]uint32{}} }

func TestAPodNamesItsGroup(t *testing.T) {
	train, empty := "train", ""
	field := func(name *string) *v1.PodSchedulingGroup { return &v1.PodSchedulingGroup{PodGroupName: name} }
	for what, test := range map[string]struct {
		group  *v1.PodSchedulingGroup
		labels map[string]string
		want   Key
	}{
		"none":             {nil, map[string]string{"app": "a"}, Key{}},
		"an empty field":   {field(&empty), nil, Key{}},
		"a field of none":  {field(nil), nil, Key{}},
		"the field first":  {field(&train), map[string]string{labels[0]: "a"}, Key{byField, "ml", "train"}},
		"the new label":    {field(&empty), map[string]string{labels[0]: "a", labels[1]: "b"}, Key{byLabel, "ml", "a"}},
		"the old label":    {nil, map[string]string{labels[1]: "b"}, Key{byLabel, "ml", "b"}},
		"no name by label": {nil, map[string]string{labels[0]: "", labels[1]: "b"}, Key{byLabel, "ml", "b"}},
	} {
		pod := v1.Pod{Spec: v1.PodSpec{SchedulingGroup: test.group}}
		pod.Namespace, pod.Labels = "ml", test.labels
		if key, isOfGroup := KeyOf(&pod); key != test.want || isOfGroup != (test.want != Key{}) {
			t.Errorf("%s: got %v %v, want %v", what, key, isOfGroup, test.want)
		}
	}
}

func TestWhatIsKnownOfAGroup(t *testing.T) {
	restart()
	nameless := words(258, 1, uint32(byField), 0, 0, 0, 0, 0, 0, 0)
	aged := there(1, "b", 0)
	binary.LittleEndian.PutUint64(aged[24:], 1<<32+7)
	groupschanged(write(there(0, "train", 4), nameless, aged))
	want := Group{
		Namespace: "ml", Name: "train", Minimum: 4, Timeout: time.Minute, Priority: -1, Created: time.Unix(7, 0),
		key: Key{byLabel, "ml", "train"}, members: map[uint32]Member{},
	}
	if got := Get(want.key); !reflect.DeepEqual(*got, want) {
		t.Errorf("got %+v", *got)
	}
	want = Group{key: Key{source: byField}, members: map[uint32]Member{}}
	if got := Get(want.key); !reflect.DeepEqual(*got, want) {
		t.Errorf("got %+v", *got)
	}
	if got := Get(Key{byLabel, "ml", "b"}).Created; !got.Equal(time.Unix(1<<32+7, 0)) {
		t.Error(got)
	}
	if got := len(slices.Collect(All())); got != 3 {
		t.Error(got)
	}
}

func TestGroupsAndTheirMembersComeAndGo(t *testing.T) {
	restart()
	const nowhere = residents.Unannounced
	groupschanged(write(there(1, "b", 0), there(0, "a", 4)))
	memberschanged(write(
		words(7, nowhere, 1, 0), words(3, 2, 2, 0), words(4, 2, 3, 0), words(3, 2, 1, 0), words(5, 2, 1, 1),
	))
	expect(t, told("a"), "4 map[3:{3 2} 4:{2 2} 7:{0 4294967295}]")
	a := Get(Key{byLabel, "ml", "a"})
	if a.Len() != 3 || a.Count(Bound) != 1 || a.Count(Tentative) != 0 || a.Count(Bound, Binding) != 2 {
		t.Error(a)
	}
	if got := len(slices.Collect(a.Members())); got != 3 {
		t.Error(got)
	}
	groupschanged(write(there(0, "a", 5)))
	expect(t, told("a"), "5 map[3:{3 2} 4:{2 2} 7:{0 4294967295}]")
	memberschanged(write(words(7, nowhere, 1, 1), words(3, nowhere, 0, none), words(4, nowhere, 0, none)))
	expect(t, told("a"), "5 map[]")
	expect(t, told("b"), "0 map[5:{3 2} 7:{0 4294967295}]")
	groupschanged(write(gone(1)))
	expect(t, told("b"), "unknown")
	if got := len(slices.Collect(All())); got != 1 {
		t.Error(got)
	}
	memberschanged(write(words(5, nowhere, 0, none)))
}

func TestANumberMayBeAnotherGroupsBeforeItsMembersAreToldToBeGone(t *testing.T) {
	restart()
	groupschanged(write(there(0, "a", 1)))
	memberschanged(write(words(7, residents.Unannounced, 1, 0)))
	groupschanged(write(there(0, "b", 1)))
	expect(t, told("a")+" and "+told("b"), "unknown and 1 map[]")
	memberschanged(write(words(8, 1, 1, 0), words(7, residents.Unannounced, 0, none)))
	expect(t, told("b"), "1 map[8:{3 1}]")
}

func TestAGroupMayBeBackUnderANumberThatIsToldBeforeItsFormerOne(t *testing.T) {
	restart()
	groupschanged(write(there(1, "a", 1)))
	memberschanged(write(words(7, residents.Unannounced, 1, 1)))
	groupschanged(write(there(0, "a", 2), there(1, "b", 3)))
	expect(t, told("a")+" and "+told("b"), "2 map[] and 3 map[]")
	groupschanged(write(there(2, "b", 4), gone(1)))
	expect(t, told("a")+" and "+told("b"), "2 map[] and 4 map[]")
}

func TestATestMakesAGroup(t *testing.T) {
	group := New(Member{State: Bound}, Member{State: Pending, Node: residents.Unannounced})
	if group.Len() != 2 || group.Count(Bound) != 1 {
		t.Error(group)
	}
}
