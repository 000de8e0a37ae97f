// Package klog writes lines to the host's log.
package klog

import (
	"fmt"

	"kwx.dev/guest/internal/host"
)

// Severities of k8s.io/klog.
const (
	info int32 = iota
	warning
	failure
)

func Infof(format string, args ...any)    { log(info, format, args) }
func Warningf(format string, args ...any) { log(warning, format, args) }
func Errorf(format string, args ...any)   { log(failure, format, args) }

func log(severity int32, format string, args []any) {
	// Asked first: formatting a line that the host drops costs more than the question.
	if severity >= host.Severity() {
		host.Log(severity, fmt.Sprintf(format, args...))
	}
}
