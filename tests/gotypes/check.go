package main

import (
	"bufio"
	"bytes"
	stdjson "encoding/json"
	"fmt"
	"io"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
)

// maxLine bounds one line of input: a random object has some 100 kB.
const maxLine = 16 << 20

// question is one line of input. Without protobuf only the JSON is judged.
type question struct {
	Kind     string `json:"kind"`
	JSON     string `json:"json"`
	Protobuf []byte `json:"protobuf"`
}

// check answers each question with one line (quoted texts keep it one):
//
//	OK                 the protobuf says what the JSON says (or the JSON is valid and alone)
//	REJECT reason      Go refuses the JSON
//	DIFFERENT diff     the protobuf is refused, or says something else
func check(in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var q question
		if err := stdjson.Unmarshal(lines.Bytes(), &q); err != nil {
			return err
		}
		if newObject[q.Kind] == nil {
			return fmt.Errorf("unknown kind %q", q.Kind)
		}
		fmt.Fprintln(out, q.verdict())
	}
	return lines.Err()
}

// verdict compares what Go makes of the JSON with what it makes of the protobuf.
//
// Both are marshalled to protobuf again and compared byte for byte: that is
// stricter than equality.Semantic, and leaves out what only JSON keeps (the
// fractions of a metav1.Time).
func (q question) verdict() string {
	fromJSON := newObject[q.Kind]()
	if err := json.Unmarshal([]byte(q.JSON), fromJSON); err != nil {
		return fmt.Sprintf("REJECT %q", err)
	}
	if q.Protobuf == nil {
		return "OK"
	}
	fromProtobuf := newObject[q.Kind]()
	if err := fromProtobuf.Unmarshal(q.Protobuf); err != nil {
		return fmt.Sprintf("DIFFERENT %q", err)
	}
	want, got := canonical(fromJSON), canonical(fromProtobuf)
	if bytes.Equal(want, got) {
		return "OK"
	}
	return "DIFFERENT " + difference(fromJSON, fromProtobuf)
}

// canonical marshals an object after giving equal JSON in fieldsV1 equal bytes.
func canonical(object message) []byte {
	rewriteFields(reflect.ValueOf(object))
	return must(object.Marshal())
}

// rewriteFields decodes and encodes the JSON of every metav1.FieldsV1 below v.
func rewriteFields(v reflect.Value) {
	if fields, ok := v.Interface().(*metav1.FieldsV1); ok && fields != nil {
		var value any
		if stdjson.Unmarshal(fields.GetRawBytes(), &value) == nil {
			fields.SetRawBytes(must(stdjson.Marshal(value)))
		}
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			rewriteFields(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			rewriteFields(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				rewriteFields(v.Field(i))
			}
		}
	}
}

// difference shows both objects as JSON from shortly before the first byte that differs.
func difference(want, got message) string {
	// Protobuf does not carry apiVersion and kind.
	want.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	a, b := must(stdjson.Marshal(want)), must(stdjson.Marshal(got))
	start := 0
	for start < len(a) && start < len(b) && a[start] == b[start] {
		start++
	}
	return fmt.Sprintf("want %q, got %q", excerpt(a, start), excerpt(b, start))
}

func excerpt(text []byte, at int) []byte {
	return text[max(0, at-80):min(len(text), at+80)]
}

func must(data []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return data
}
