// Package pods keeps what a plugin needs of the pod of the cycle.
package pods

import (
	v1 "k8s.io/api/core/v1"

	_ "kwx.dev/guest/internal/argv"
	"kwx.dev/guest/internal/podview"
)

// View is the current pod as a P.
type View[P any] = podview.View[P]

// As makes each pod a P, once in its cycle, when it is first asked for.
func As[P any](derive func(*v1.Pod) P) *View[P] {
	return podview.New(func(object []byte) (made P, err error) {
		pod := new(v1.Pod)
		if err = pod.Unmarshal(object); err == nil {
			made = derive(pod)
		}
		return made, err
	})
}
