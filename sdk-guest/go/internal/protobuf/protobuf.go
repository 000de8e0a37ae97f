// Package protobuf reads the fields of a message where they are: it copies
// nothing, and what is not asked for costs almost nothing.
//
// Wire format: https://protobuf.dev/programming-guides/encoding/. Groups, which
// no message of Kubernetes has, count as malformed.
package protobuf

import (
	"encoding/binary"
	"errors"
)

var errMalformed = errors.New("malformed protobuf")

// Fields are those of a message, one after the other.
type Fields struct {
	// Number is that of the field; Bytes are a string's, a message's, or none; Value is that of an integer or bool.
	Number int
	Bytes  []byte
	Value  uint64
	// Err is set once Next has come to what is malformed.
	Err error

	message []byte
	at      int
}

// Of is before the first field of a message.
func Of(message []byte) Fields { return Fields{message: message} }

// Next goes on to the next field. It is false behind the last one.
func (f *Fields) Next() bool {
	if f.at == len(f.message) || f.Err != nil {
		return false
	}
	tag := f.varint()
	f.Number, f.Bytes, f.Value = int(tag>>3), nil, 0
	switch {
	case tag>>32 != 0 || f.Number == 0:
		f.Err = errMalformed
	case tag&7 == 0:
		f.Value = f.varint()
	case tag&7 == 1:
		f.take(8)
	case tag&7 == 2:
		f.Bytes = f.take(f.varint())
	case tag&7 == 5:
		f.take(4)
	default:
		f.Err = errMalformed
	}
	return f.Err == nil
}

func (f *Fields) varint() uint64 {
	if f.at < len(f.message) && f.message[f.at] < 0x80 {
		f.at++
		return uint64(f.message[f.at-1])
	}
	value, length := binary.Uvarint(f.message[f.at:])
	if length <= 0 {
		f.Err = errMalformed
		return 0
	}
	f.at += length
	return value
}

func (f *Fields) take(length uint64) []byte {
	if uint64(len(f.message)-f.at) < length {
		f.Err = errMalformed
		return nil
	}
	begin := f.at
	f.at += int(length)
	return f.message[begin:f.at]
}

// Each reads the fields of a message until there is an error.
func Each(message []byte, read func(field *Fields) error) error {
	fields := Of(message)
	for fields.Next() {
		if err := read(&fields); err != nil {
			return err
		}
	}
	return fields.Err
}

// Bytes are those of a string or a message in a message: none if it is not
// there, and of several the last ones.
func Bytes(message []byte, number int) []byte {
	var found []byte
	for fields := Of(message); fields.Next(); {
		if fields.Number == number {
			found = fields.Bytes
		}
	}
	return found
}

// Value is that of an integer or bool in a message: 0 if it is not there, and of several the last one.
func Value(message []byte, number int) uint64 {
	var found uint64
	for fields := Of(message); fields.Next(); {
		if fields.Number == number {
			found = fields.Value
		}
	}
	return found
}

// Entry has the bytes of a key's value in a map, and whether the key is there.
func Entry(message []byte, number int, key string) (value []byte, isThere bool) {
	for fields := Of(message); fields.Next(); {
		if fields.Number == number && string(Bytes(fields.Bytes, 1)) == key {
			value, isThere = Bytes(fields.Bytes, 2), true
		}
	}
	return value, isThere
}
