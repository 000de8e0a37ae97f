package main

import (
	"strings"
	"testing"

	fwk "k8s.io/kube-scheduler/framework"
)

type moved struct {
	fwk.Extender
	client string
}

func TestAClientThatIsNotWhereItWasIsMissed(t *testing.T) {
	for _, extender := range []fwk.Extender{&moved{client: "other"}, &struct{ fwk.Extender }{}} {
		_, err := httpClient(extender)
		if err == nil || !strings.HasSuffix(err.Error(), "has no field `client *http.Client`: see NewHTTPExtender in pkg/scheduler/extender.go") {
			t.Errorf("%T: got %v", extender, err)
		}
	}
}
