//go:build !wasip1

package hosttest

import (
	"iter"
	"maps"
)

// table has entries by their keys, with numbers that stay as long as they do.
type table[K comparable, V any] struct {
	entries map[K]entry[V]
	free    []uint32
}

type entry[V any] struct {
	number uint32
	value  V
}

func (t *table[K, V]) put(key K, value V) uint32 {
	if t.entries == nil {
		t.entries = map[K]entry[V]{}
	}
	number, isThere := t.number(key)
	if last := len(t.free) - 1; !isThere && last >= 0 {
		number, t.free = t.free[last], t.free[:last]
	} else if !isThere {
		number = uint32(len(t.entries))
	}
	t.entries[key] = entry[V]{number, value}
	return number
}

// remove leaves the number to the next one.
func (t *table[K, V]) remove(key K) {
	t.free = append(t.free, t.entries[key].number)
	delete(t.entries, key)
}

func (t *table[K, V]) number(key K) (number uint32, isThere bool) {
	found, isThere := t.entries[key]
	return found.number, isThere
}

func (t *table[K, V]) get(key K) (value V, isThere bool) {
	found, isThere := t.entries[key]
	return found.value, isThere
}

// all may be changed while it is looked at.
func (t *table[K, V]) all() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for key, entry := range maps.Clone(t.entries) {
			if !yield(key, entry.value) {
				return
			}
		}
	}
}
