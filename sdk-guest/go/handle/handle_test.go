package handle

import (
	"testing"

	"kwx.dev/guest/internal/host"
)

func TestAPodIsRejectedOnce(t *testing.T) {
	host.Native.Waiting = map[string]bool{"a": true}
	if RejectWaitingPod("b") || !RejectWaitingPod("a") || RejectWaitingPod("a") {
		t.Error(host.Native.Waiting)
	}
}
