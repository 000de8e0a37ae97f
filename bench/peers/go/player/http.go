package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	schedulerapi "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"peers/protocol"
)

// client asks an extender, with the client and the settings that kube-scheduler has.
type client struct {
	extender fwk.Extender
	watch    *stopwatch
}

func newClient(url string, whole bool, timeout time.Duration) (*client, error) {
	extender, err := scheduler.NewHTTPExtender(&schedulerapi.Extender{
		URLPrefix:        url,
		FilterVerb:       "filter",
		PrioritizeVerb:   "prioritize",
		Weight:           1,
		HTTPTimeout:      metav1.Duration{Duration: timeout},
		NodeCacheCapable: !whole,
	})
	if err != nil {
		return nil, err
	}
	inner, err := httpClient(extender)
	if err != nil {
		return nil, err
	}
	watch := &stopwatch{RoundTripper: inner.Transport, timeout: inner.Timeout}
	inner.Transport, inner.Timeout = watch, 0
	return &client{extender, watch}, nil
}

// httpClient is the private field of a *scheduler.HTTPExtender, whose constructor takes no client.
func httpClient(extender fwk.Extender) (*http.Client, error) {
	field := reflect.Indirect(reflect.ValueOf(extender)).FieldByName("client")
	if !field.IsValid() || field.Type() != reflect.TypeFor[*http.Client]() {
		return nil, fmt.Errorf("%T of this Kubernetes has no field `client *http.Client`: see NewHTTPExtender in pkg/scheduler/extender.go", extender)
	}
	return (*http.Client)(field.UnsafePointer()), nil
}

func (c *client) run(pod *v1.Pod, nodes []fwk.NodeInfo) (*protocol.Cycle, func() *protocol.Answer, error) {
	begun := time.Now()
	kept, failed, unresolvable, err := c.extender.Filter(pod, nodes)
	played := &protocol.Cycle{Filter: c.watch.since(begun)}
	var scores *extenderv1.HostPriorityList
	if err == nil && scored(kept) {
		begun = time.Now()
		scores, _, err = c.extender.Prioritize(pod, kept)
		verb := c.watch.since(begun)
		played.Prioritize = &verb
	}
	return played, func() *protocol.Answer { return told(kept, failed, unresolvable, scores) }, err
}

// told is an extender's answer as the scheduler takes it: a node without a score has 0.
func told(kept []fwk.NodeInfo, failed, unresolvable extenderv1.FailedNodesMap, scores *extenderv1.HostPriorityList) *protocol.Answer {
	found := &protocol.Answer{Rejected: map[string]protocol.Status{}, Scores: map[string]int64{}}
	for name, reason := range failed {
		found.Rejected[name] = protocol.Status{Code: int(fwk.Unschedulable), Reason: reason}
	}
	for name, reason := range unresolvable {
		found.Rejected[name] = protocol.Status{Code: int(fwk.UnschedulableAndUnresolvable), Reason: reason}
	}
	for _, node := range kept {
		found.Scores[node.Node().Name] = 0
	}
	if scores != nil {
		for _, each := range *scores {
			found.Scores[each.Host] = each.Score
		}
	}
	return found
}

// stopwatch is a transport that measures how long a request is out of its client's hands: from when it is sent until the
// answer begins, and while more of the answer is waited for.
//
// It sets the deadline as http.Client does where it knows the transport; for this one it would start a goroutine with each
// request, which kube-scheduler has not.
type stopwatch struct {
	http.RoundTripper
	timeout time.Duration
	sent    time.Time
	away    time.Duration
}

// RoundTrip sends a request.
func (s *stopwatch) RoundTrip(request *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(request.Context(), s.timeout)
	request = request.WithContext(ctx)
	s.sent = time.Now()
	response, err := s.RoundTripper.RoundTrip(request)
	s.away = time.Since(s.sent)
	if err != nil {
		cancel()
		return nil, err
	}
	response.Body = &body{response.Body, s, cancel}
	return response, nil
}

// since is a request's time, whose parts are before, within and after the transport.
func (s *stopwatch) since(begun time.Time) protocol.Verb {
	seconds, encode, away := time.Since(begun).Seconds(), s.sent.Sub(begun).Seconds(), s.away.Seconds()
	return protocol.Verb{Seconds: seconds, Parts: map[string]float64{
		"clientEncode": encode,
		"transport":    away,
		"clientDecode": seconds - encode - away,
	}}
}

type body struct {
	io.ReadCloser
	watch  *stopwatch
	cancel context.CancelFunc
}

// Read waits for more of an answer.
func (b *body) Read(into []byte) (int, error) {
	begun := time.Now()
	n, err := b.ReadCloser.Read(into)
	b.watch.away += time.Since(begun)
	return n, err
}

// Close ends the request.
func (b *body) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}
