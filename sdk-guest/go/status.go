// Package guest is a small library for scheduler plugins in Go. README.md
// shows how a plugin is written with it.
package guest

import (
	"encoding/json"

	"kwx.dev/guest/internal/host"
)

// Status is what a plugin answers. The zero value is success.
type Status struct {
	code   code
	reason string
}

// code is one of those of k8s.io/kube-scheduler/framework.
type code int32

const (
	success                      code = 0
	failure                      code = 1
	unschedulable                code = 2
	unschedulableAndUnresolvable code = 3
	wait                         code = 4
	skip                         code = 5
)

// Success lets the pod, or the node, pass.
var Success = Status{code: success}

// Skip answers PreFilter and PreScore: the pod needs no Filter, or no score and
// every node counts 0. It answers Bind where others are to bind the pod.
var Skip = Status{code: skip}

// Wait answers Permit: the pod waits.
var Wait = Status{code: wait}

// Unschedulable says no, but the node may do once other pods are gone from it.
func Unschedulable(reason string) Status { return Status{unschedulable, reason} }

// Unresolvable says no, and preempting other pods would not help.
func Unresolvable(reason string) Status { return Status{unschedulableAndUnresolvable, reason} }

// Error ends the call: the plugin has no answer.
func Error(err error) Status { return Status{failure, err.Error()} }

// StatusOf is the one of a code and a reason, as hosts are told them.
func StatusOf(number int32, reason string) Status { return Status{code(number), reason} }

// Code is the number that an export returns.
func (s Status) Code() int32 { return int32(s.code) }

// Reason says to people why the code is what it is.
func (s Status) Reason() string { return s.reason }

// UnmarshalJSON reads a code, as hosts tell the statuses of nodes.
func (s *Status) UnmarshalJSON(text []byte) error {
	var number int32
	err := json.Unmarshal(text, &number)
	*s = StatusOf(number, "")
	return err
}

// Send hands the reason to the host and returns the code.
func (s Status) Send() int32 {
	if s.reason != "" {
		host.StatusReason(s.reason)
	}
	return s.Code()
}
