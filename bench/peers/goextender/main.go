// Goextender is a scheduler extender as one writes it in Go: net/http, encoding/json, the types of k8s.io/kube-scheduler,
// and client-go to keep the nodes. The extender of this project is measured beside it, with the same policy.
//
// Verbs are POST /filter and POST /prioritize; GET /readyz is 200 once the nodes are known.
package main

import (
	"context"
	"flag"
	"log"
	"net/http"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8888", "address of the verbs")
	apiServer := flag.String("apiserver", "", "URL of the API server; without one, requests must carry whole nodes")
	flag.Parse()

	nodes := NewNodes()
	if *apiServer != "" {
		if err := nodes.Follow(context.Background(), *apiServer); err != nil {
			log.Fatal(err)
		}
	}
	log.Fatal(http.ListenAndServe(*listen, NewHandler(nodes)))
}
