package nodeinfo

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"

	"kwx.dev/guest/internal/protobuf"
)

// list is a v1.ResourceList, whose entries are exact: what is rounded is their sum.
type list struct {
	amounts []amount
	// places are those of the names, once there are too many to look through: a pod may have thousands.
	places map[string]int
}

type amount struct {
	name     string
	quantity resource.Quantity
}

// few is up to how many entries a look through them takes less time than an index.
const few = 16

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

func (l *list) len() int { return len(l.amounts) }

func (l *list) find(name string) *resource.Quantity {
	if l.places != nil {
		if at, isThere := l.places[name]; isThere {
			return &l.amounts[at].quantity
		}
		return nil
	}
	for i := range l.amounts {
		if l.amounts[i].name == name {
			return &l.amounts[i].quantity
		}
	}
	return nil
}

func (l *list) set(name string, quantity resource.Quantity) {
	if found := l.find(name); found != nil {
		*found = quantity
		return
	}
	l.amounts = append(l.amounts, amount{name, quantity})
	switch {
	case l.places != nil:
		l.places[name] = len(l.amounts) - 1
	case len(l.amounts) > few:
		l.places = make(map[string]int, 2*few)
		for at, each := range l.amounts {
			l.places[each.name] = at
		}
	}
}

func (l *list) add(other list) {
	for _, each := range other.amounts {
		if found := l.find(each.name); found != nil {
			found.Add(each.quantity)
		} else {
			l.set(each.name, each.quantity.DeepCopy())
		}
	}
}

// raise takes the greater of what both have, and what only the other has.
func (l *list) raise(other list) {
	for _, each := range other.amounts {
		if found := l.find(each.name); found == nil || each.quantity.Cmp(*found) > 0 {
			l.set(each.name, each.quantity.DeepCopy())
		}
	}
}

// beside is the list with what another has of the same names.
func (l *list) beside(other list) (sum list) {
	for _, each := range l.amounts {
		quantity := each.quantity.DeepCopy()
		if more := other.find(each.name); more != nil {
			quantity.Add(*more)
		}
		sum.set(each.name, quantity)
	}
	return sum
}

func (l *list) equals(other list) bool {
	if l.len() != other.len() {
		return false
	}
	for i := range l.amounts {
		if found := other.find(l.amounts[i].name); found == nil || found.Cmp(l.amounts[i].quantity) != 0 {
			return false
		}
	}
	return true
}

// with is the list with what it does not have of another.
func (l *list) with(missing list) list {
	all := list{slices.Clip(l.amounts), maps.Clone(l.places)}
	for _, each := range missing.amounts {
		if l.find(each.name) == nil {
			all.set(each.name, each.quantity)
		}
	}
	return all
}

func (l *list) resource() (sum Resource) {
	for i := range l.amounts {
		sum.addQuantity(l.amounts[i].name, &l.amounts[i].quantity)
	}
	sum.sort()
	return sum
}
