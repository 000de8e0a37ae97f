package nodeinfo

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"

	"guest/internal/protobuf"
)

// list is a v1.ResourceList with few entries, which are exact: what is rounded is their sum.
type list []amount

type amount struct {
	name     string
	quantity resource.Quantity
}

// names of resources, each text kept once.
var names = map[string]string{}

func intern(text []byte) string {
	name, isKnown := names[string(text)]
	if !isKnown {
		name = string(text)
		names[name] = name
	}
	return name
}

// quantities reads a field of a message that is a map of quantities.
func quantities(message []byte, number int) (found list, err error) {
	err = protobuf.Each(message, func(field *protobuf.Fields) error {
		if field.Number != number {
			return nil
		}
		name := intern(protobuf.Bytes(field.Bytes, 1))
		quantity, err := parse(protobuf.Bytes(protobuf.Bytes(field.Bytes, 2), 1))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		found.set(name, quantity)
		return nil
	})
	return found, err
}

func parse(text []byte) (resource.Quantity, error) {
	if len(text) == 0 {
		return resource.Quantity{}, nil
	}
	return resource.ParseQuantity(string(text))
}

func (l list) find(name string) *resource.Quantity {
	for i := range l {
		if l[i].name == name {
			return &l[i].quantity
		}
	}
	return nil
}

func (l *list) set(name string, quantity resource.Quantity) {
	if found := l.find(name); found != nil {
		*found = quantity
	} else {
		*l = append(*l, amount{name, quantity})
	}
}

func (l *list) add(other list) {
	for _, each := range other {
		if found := l.find(each.name); found != nil {
			found.Add(each.quantity)
		} else {
			*l = append(*l, amount{each.name, each.quantity.DeepCopy()})
		}
	}
}

// raise takes the greater of what both have, and what only the other has.
func (l *list) raise(other list) {
	for _, each := range other {
		if found := l.find(each.name); found == nil || each.quantity.Cmp(*found) > 0 {
			l.set(each.name, each.quantity.DeepCopy())
		}
	}
}

func (l list) equals(other list) bool {
	if len(l) != len(other) {
		return false
	}
	for i := range l {
		if found := other.find(l[i].name); found == nil || found.Cmp(l[i].quantity) != 0 {
			return false
		}
	}
	return true
}

// with is the list with what it does not have of another.
func (l list) with(missing list) list {
	all := l
	for _, each := range missing {
		if l.find(each.name) == nil {
			all = append(all[:len(all):len(all)], each)
		}
	}
	return all
}

func (l list) resource() (sum Resource) {
	for i := range l {
		sum.addQuantity(l[i].name, &l[i].quantity)
	}
	return sum
}
