package main

import (
	"fmt"
	"io"
	"maps"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const schemaHeader = `"""Field numbers and kinds of the protobuf messages below Pod and Node.

Generated from the struct tags of k8s.io/api %s; do not edit. In tests/gotypes:

    go run . schema > ../../wasm_runtime/protobuf/schema.py
"""

from typing import Final, Literal, TypeAlias

Kind: TypeAlias = Literal[
    "string",
    "bool",
    "int32",
    "int64",
    "quantity",
    "time",
    "int_or_string",
    "fields_v1",
    "message",
]
"""What one value is; for a map, what its values are (keys are always strings)."""

Shape: TypeAlias = Literal["one", "list", "map"]
"""How many values a field holds."""

Field: TypeAlias = tuple[int, Shape, Kind, str]
"""Field number, shape, kind, and the message's name where the kind is "message" (else "")."""

`

const messagesHeader = `MESSAGES: Final[dict[str, dict[str, Field]]] = {
`

const inlineHeader = `}
"""Per message: its fields by their name in JSON."""

INLINE: Final[dict[str, dict[str, int]]] = {
`

const schemaFooter = `}
"""Per message: the messages whose fields JSON keeps beside its own, with their field numbers."""
`

// specialKinds are the types whose JSON is not the JSON of their fields.
var specialKinds = map[reflect.Type]string{
	reflect.TypeFor[resource.Quantity]():  "quantity",
	reflect.TypeFor[metav1.Time]():        "time",
	reflect.TypeFor[intstr.IntOrString](): "int_or_string",
	reflect.TypeFor[metav1.FieldsV1]():    "fields_v1",
}

// scalarKinds are the other Go kinds a field can have. They tell the wire type as well;
// the tag does not always (SecretVolumeSource.DefaultMode says bytes and is a varint).
var scalarKinds = map[reflect.Kind]string{
	reflect.String: "string",
	reflect.Bool:   "bool",
	reflect.Int32:  "int32",
	reflect.Int64:  "int64",
}

// field is one row of the table; the JSON name of an inline message is "".
type field struct {
	json    string
	number  string
	shape   string
	kind    string
	message reflect.Type
}

// table has a row per field for each struct type.
type table map[reflect.Type][]field

// printSchema writes the Python module that describes the types of roots and all below them.
func printSchema(out io.Writer, roots ...any) error {
	rows := table{}
	for _, root := range roots {
		if err := rows.add(reflect.TypeOf(root)); err != nil {
			return err
		}
	}
	types, err := rows.types()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, schemaHeader, apiVersion())
	fmt.Fprint(out, messagesHeader)
	for _, t := range types {
		fmt.Fprintf(out, "    %q: {\n%s    },\n", t.Name(), rows.fieldLines(t))
	}
	fmt.Fprint(out, inlineHeader)
	for _, t := range types {
		if items := rows.inlineItems(t); len(items) > 0 {
			fmt.Fprintf(out, "    %q: {%s},\n", t.Name(), strings.Join(items, ", "))
		}
	}
	_, err = fmt.Fprint(out, schemaFooter)
	return err
}

// add puts a struct type and, depth first, every struct below it into the table.
func (rows table) add(t reflect.Type) error {
	if fields, known := rows[t]; known {
		if fields == nil {
			return fmt.Errorf("%s contains itself: encoding could recurse without end", t)
		}
		return nil
	}
	rows[t] = nil
	fields := []field{}
	for i := range t.NumField() {
		f, err := describe(t.Field(i))
		if err != nil {
			return fmt.Errorf("%s.%s: %w", t, t.Field(i).Name, err)
		}
		if f == nil {
			continue
		}
		fields = append(fields, *f)
		if f.message != nil {
			if err := rows.add(f.message); err != nil {
				return err
			}
		}
	}
	rows[t] = fields
	return rows.unambiguous(t)
}

// unambiguous fails if a JSON name would mean two fields of t (Go would take the outer one).
func (rows table) unambiguous(t reflect.Type) error {
	names := rows.jsonNames(t)
	slices.Sort(names)
	if len(slices.Compact(slices.Clone(names))) < len(names) {
		return fmt.Errorf("%s: two fields have one name in JSON: %q", t, names)
	}
	return nil
}

// jsonNames lists the JSON names of t, those of its inline messages included.
func (rows table) jsonNames(t reflect.Type) []string {
	names := []string{}
	for _, f := range rows[t] {
		if f.json == "" {
			names = append(names, rows.jsonNames(f.message)...)
		} else {
			names = append(names, f.json)
		}
	}
	return names
}

// types sorts the types by name and fails if two of them share one.
func (rows table) types() ([]reflect.Type, error) {
	types := slices.SortedFunc(maps.Keys(rows), func(a, b reflect.Type) int {
		return strings.Compare(a.Name(), b.Name())
	})
	for i := 1; i < len(types); i++ {
		if types[i].Name() == types[i-1].Name() {
			return nil, fmt.Errorf("%s and %s have the same name", types[i-1], types[i])
		}
	}
	return types, nil
}

// fieldLines writes the fields of t as items of a Python dict, one a line.
func (rows table) fieldLines(t reflect.Type) string {
	lines := strings.Builder{}
	for _, f := range rows[t] {
		if f.json != "" {
			fmt.Fprintf(&lines, "        %q: (%s, %q, %q, %q),\n", f.json, f.number, f.shape, f.kind, f.messageName())
		}
	}
	return lines.String()
}

// inlineItems writes the inline messages of t as items of a Python dict.
func (rows table) inlineItems(t reflect.Type) []string {
	items := []string{}
	for _, f := range rows[t] {
		if f.json == "" {
			items = append(items, fmt.Sprintf("%q: %s", f.messageName(), f.number))
		}
	}
	return items
}

func (f field) messageName() string {
	if f.message == nil {
		return ""
	}
	return f.message.Name()
}

// describe reads one struct field; nil if protobuf does not carry it (TypeMeta).
func describe(f reflect.StructField) (*field, error) {
	tag, ok := f.Tag.Lookup("protobuf")
	if !ok {
		if f.Type == reflect.TypeFor[metav1.TypeMeta]() {
			return nil, nil
		}
		return nil, fmt.Errorf("no protobuf tag")
	}
	number, err := fieldNumber(tag)
	if err != nil {
		return nil, err
	}
	jsonName, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	inline := f.Anonymous && strings.Contains(options, "inline")
	if (jsonName == "") != inline || jsonName == "-" {
		return nil, fmt.Errorf("json tag %q", f.Tag.Get("json"))
	}
	result := field{json: jsonName, number: number}
	elem := result.setShape(f.Type)
	if inline && (result.shape != "one" || elem != f.Type) {
		return nil, fmt.Errorf("inline, but not a plain struct")
	}
	return &result, result.setKind(elem)
}

// fieldNumber takes the number from a tag such as "bytes,1,opt,name=metadata".
func fieldNumber(tag string) (string, error) {
	parts := strings.Split(tag, ",")
	if len(parts) < 3 || slices.Contains(parts, "packed") {
		return "", fmt.Errorf("protobuf tag %q", tag)
	}
	return parts[1], nil
}

// setShape strips pointer, slice or map from t, notes which, and returns what is inside.
func (f *field) setShape(t reflect.Type) reflect.Type {
	f.shape = "one"
	switch {
	case t.Kind() == reflect.Pointer:
		return t.Elem()
	case t.Kind() == reflect.Slice:
		f.shape = "list"
		return t.Elem()
	case t.Kind() == reflect.Map && t.Key().Kind() == reflect.String:
		f.shape = "map"
		return t.Elem()
	}
	return t
}

// setKind notes what a value of type t is.
func (f *field) setKind(t reflect.Type) error {
	if special, ok := specialKinds[t]; ok {
		f.kind = special
	} else if scalar, ok := scalarKinds[t.Kind()]; ok {
		f.kind = scalar
	} else if t.Kind() == reflect.Struct && t.PkgPath() != "time" {
		f.kind, f.message = "message", t
	} else {
		return fmt.Errorf("no kind for %s", t)
	}
	return nil
}

// apiVersion is the version of k8s.io/api this command was built with.
func apiVersion() string {
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if module.Path == "k8s.io/api" {
			return module.Version
		}
	}
	return "(unknown)"
}
