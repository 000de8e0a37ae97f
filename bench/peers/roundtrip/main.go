// Roundtrip tells what bytes cost on the way to a server and back, with HTTP/1.1 and perhaps TLS, as kube-scheduler asks:
// by net/http, one request after the other, each connection kept.
//
//	roundtrip serve -listen ADDRESS -answer FILE [-cert FILE -key FILE -ca FILE]                  answers any request with a file
//	roundtrip ask -body FILE -rounds N -requests N [-cert FILE -key FILE -ca FILE] URL ...        asks in rounds that take turns
//
// ask prints a JSON array with an object for each URL: the milliseconds of each request, by rounds, and those of the
// processor that a request has cost the client.
package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"syscall"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("roundtrip", flag.ExitOnError)
	listen := flags.String("listen", "", "serve: the address")
	answer := flags.String("answer", "", "serve: what is answered")
	body := flags.String("body", "", "ask: what is sent")
	rounds := flags.Int("rounds", 1, "ask: rounds of each URL")
	requests := flags.Int("requests", 1, "ask: requests of a round")
	cert := flags.String("cert", "", "the certificate that is shown; with it TLS is spoken")
	key := flags.String("key", "", "its key")
	ca := flags.String("ca", "", "the CA of the other side")
	if len(args) == 0 {
		return errors.New("say serve or ask")
	}
	flags.Parse(args[1:])
	config, err := tlsConfig(*cert, *key, *ca)
	if err != nil {
		return err
	}
	switch args[0] {
	case "serve":
		return serve(*listen, *answer, config)
	case "ask":
		return ask(flags.Args(), *body, *rounds, *requests, config)
	}
	return fmt.Errorf("%q is neither serve nor ask", args[0])
}

// tlsConfig is for either side; nil without a certificate.
func tlsConfig(cert, key, ca string) (*tls.Config, error) {
	if cert == "" {
		return nil, nil
	}
	own, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	pem, err := os.ReadFile(ca)
	if err != nil {
		return nil, err
	}
	others := x509.NewCertPool()
	if !others.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s has no certificate", ca)
	}
	return &tls.Config{
		Certificates: []tls.Certificate{own},
		RootCAs:      others,
		ClientCAs:    others,
		ClientAuth:   tls.RequireAndVerifyClientCert,
		NextProtos:   []string{"http/1.1"},
	}, nil
}

func serve(address, file string, config *tls.Config) error {
	answer, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	handler := func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
		w.Write(answer)
	}
	server := &http.Server{Addr: address, Handler: http.HandlerFunc(handler), TLSConfig: config}
	if config == nil {
		return server.ListenAndServe()
	}
	return server.ListenAndServeTLS("", "")
}

// side is one server and what was measured there.
type side struct {
	url    string
	client *http.Client

	Rounds [][]float64 `json:"rounds"`
	CPU    float64     `json:"cpu"`
}

func ask(urls []string, file string, rounds, requests int, config *tls.Config) error {
	body, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	sides := make([]*side, len(urls))
	for i, url := range urls {
		sides[i] = &side{url: url, client: &http.Client{Transport: &http.Transport{TLSClientConfig: config}}}
		if err := sides[i].play(body, requests); err != nil { // A round that does not count.
			return err
		}
		sides[i].Rounds, sides[i].CPU = nil, 0
	}
	for round := range rounds {
		for i := range sides {
			if round%2 == 1 {
				i = len(sides) - 1 - i
			}
			if err := sides[i].play(body, requests); err != nil {
				return err
			}
		}
	}
	for _, each := range sides {
		each.CPU /= float64(rounds * requests)
	}
	return json.NewEncoder(os.Stdout).Encode(sides)
}

// play is a round.
func (s *side) play(body []byte, requests int) error {
	took, before := make([]float64, requests), spent()
	for i := range took {
		begun := time.Now()
		if err := s.post(body); err != nil {
			return err
		}
		took[i] = time.Since(begun).Seconds() * 1e3
	}
	s.Rounds, s.CPU = append(s.Rounds, took), s.CPU+spent()-before
	return nil
}

func (s *side) post(body []byte) error {
	response, err := s.client.Post(s.url, "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answered %s: %s", s.url, response.Status, answer)
	}
	return err
}

// spent is the milliseconds of the processor that this process has taken.
func spent() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e6
}
