package main

import (
	"testing"

	"kwx.dev/guest"
	"kwx.dev/guest/groups"
)

func TestAGroupIsAdmittedWhenItsPodsAreThere(t *testing.T) {
	for _, test := range []struct {
		minimum int
		want    guest.Status
	}{
		{0, guest.Unschedulable("nobody says how many pods the group ml/train needs")},
		{3, guest.Unschedulable("2 of 3 pods of the group ml/train are there")},
		{2, guest.Success},
	} {
		group := groups.New(groups.Member{State: groups.Pending}, groups.Member{State: groups.Bound})
		group.Namespace, group.Name, group.Minimum = "ml", "train", test.minimum
		if got := isThere(group); got != test.want {
			t.Errorf("got %v, want %v", got, test.want)
		}
	}
}
