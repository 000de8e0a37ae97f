// Package handle does what a plugin may do beyond answering.
package handle

import "kwx.dev/guest/internal/host"

// RejectWaitingPod ends the wait of a pod on Permit: it is not bound. It is
// false if no pod of that UID waits.
func RejectWaitingPod(uid string) bool { return host.RejectWaitingPod(uid) }
