package klog

import (
	"reflect"
	"testing"

	"kwx.dev/guest/internal/host"
)

func TestLinesBelowTheHostsSeverityAreNotSent(t *testing.T) {
	host.Native.Severity = 1
	Infof("info %d", 1)
	Warningf("warning %d", 2)
	Errorf("error %d", 3)
	if want := []string{"1 warning 2", "2 error 3"}; !reflect.DeepEqual(host.Native.Logged, want) {
		t.Error(host.Native.Logged)
	}
}
