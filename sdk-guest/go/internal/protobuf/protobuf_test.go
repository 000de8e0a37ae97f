package protobuf

import (
	"fmt"
	"testing"
)

func all(message string) (found []string) {
	fields := Of([]byte(message))
	for fields.Next() {
		found = append(found, fmt.Sprintf("%d %q %d", fields.Number, fields.Bytes, fields.Value))
	}
	return append(found, fmt.Sprint(fields.Err))
}

func TestEachWireType(t *testing.T) {
	got := all("\x08\x96\x01\x11\x01\x00\x00\x00\x00\x00\x00\x80\x1a\x03abc\x25\x02\x00\x00\x01\xf8\xff\xff\xff\x0f\x00")
	want := `[1 "" 150 2 "" 0 3 "abc" 0 4 "" 0 536870911 "" 0 <nil>]`
	if fmt.Sprint(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestMalformedBytesAreAnErrorAndTheEnd(t *testing.T) {
	for what, message := range map[string]string{
		"no value":               "\x08",
		"tag cut off":            "\x80",
		"field number 0":         "\x00\x01",
		"varint of 65 bits":      "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02",
		"varint without an end":  "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
		"tag of 33 bits":         "\x80\x80\x80\x80\x10\x01",
		"length beyond the end":  "\x0a\x05abcd",
		"length of 2^64-1":       "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
		"fixed64 cut off":        "\x09\x00\x00\x00",
		"fixed32 cut off":        "\x0d\x00",
		"a group":                "\x0b\x0c",
		"a wire type of no kind": "\x0e",
	} {
		if got := all("\x0a\x01a" + message); fmt.Sprint(got) != `[1 "a" 0 malformed protobuf]` {
			t.Errorf("%s: %s", what, got)
		}
	}
}

func TestWhatIsAskedFor(t *testing.T) {
	message := []byte("\x0a\x01a\x10\x01\x0a\x02bc\x10\x02\x5a\x06\x0a\x01a\x12\x01x\x5a\x03\x0a\x01b\x5a\x06\x12\x01z\x0a\x01a")
	got := fmt.Sprintf("%q %q %d %d", Bytes(message, 1), Bytes(message, 3), Value(message, 2), Value(message, 3))
	if want := `"bc" "" 2 0`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for key, want := range map[string]string{"a": `"z" true`, "b": `"" true`, "c": `"" false`} {
		value, isThere := Entry(message, 11, key)
		if got := fmt.Sprintf("%q %t", value, isThere); got != want {
			t.Errorf("%s: got %s, want %s", key, got, want)
		}
	}
}

func FuzzNoBytesLeadOutOfBounds(f *testing.F) {
	f.Add([]byte("\x0a\x05abcd"))
	f.Fuzz(func(t *testing.T, message []byte) {
		for fields := Of(message); fields.Next(); {
			if len(fields.Bytes) > len(message) {
				t.Error(fields)
			}
		}
	})
}
