// Package argv gives the process a name where the host gives it none: klog,
// which k8s.io/api brings along, panics without one.
//
// It is in time: of the packages whose imports are done, Go initializes the
// first by import path (Go specification, "Program initialization"), and this
// one needs no more than klog does and comes before k8s.io.
package argv

import "os"

func init() {
	if len(os.Args) == 0 {
		os.Args = []string{"guest"}
	}
}
