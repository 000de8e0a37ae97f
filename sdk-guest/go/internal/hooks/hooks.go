// Package hooks has what the host of tests calls: a module's exports that no internal package has by name. They are nil
// if the plugin does not have them.
package hooks

// Functions of extension points, of the packages that are named like them.
var (
	AddPod, RemovePod, PreScore, NormalizeScore, Reserve, PreBind, Bind, Filter func() int32
	PostFilter, Permit                                                          func() int64
	Unreserve, PostBind                                                         func()
	// FilterNodes and ScoreNodes get a number of nodes, whose own numbers are in package list.
	FilterNodes, ScoreNodes func(count uint32) int32
	// BindingAnnotations are keys and values in turn, each ended by a NUL.
	BindingAnnotations func() []byte
)

// What the host tells records of package podfeed by, with their number.
var PendingPodsChanged, GroupsChanged, MembersChanged func(count uint32)

// Configs take a guestConfig in the place of the one that the program began with.
var Configs []func(text []byte) error
