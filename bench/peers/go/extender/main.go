// Extender is a scheduler extender as one writes it in Go: net/http, encoding/json, the types of k8s.io/kube-scheduler,
// and client-go to keep the nodes. The extender of this project is measured beside it, with the same policy.
//
// Verbs are POST /filter and POST /prioritize; GET /readyz is 200 once the nodes are known; GET /debug/vars tells what the
// verbs took so far, by phases.
package main

import (
	"context"
	"flag"
	"log"
	"net/http"

	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8888", "address of the verbs")
	apiServer := flag.String("apiserver", "", "URL of the API server")
	kubeconfig := flag.String("kubeconfig", "", "file that says where the API server is, and who asks")
	plugins := flag.Int("plugins", 1, "how many policies there are, each the same")
	top := flag.Int("top", 0, "how many nodes filter answers, the best ones; 0: all that pass")
	flag.Parse()
	if *plugins < 1 {
		log.Fatalf("-plugins is %d: there must be one at least", *plugins)
	}
	if *top < 0 {
		log.Fatalf("-top is %d: it cannot be negative", *top)
	}

	nodes := NewNodes()
	// Without an API server, requests must carry whole nodes.
	if *apiServer != "" || *kubeconfig != "" {
		config, err := clientcmd.BuildConfigFromFlags(*apiServer, *kubeconfig)
		if err != nil {
			log.Fatal(err)
		}
		if err := nodes.Follow(context.Background(), config); err != nil {
			log.Fatal(err)
		}
	}
	log.Fatal(http.ListenAndServe(*listen, NewHandler(nodes, *plugins, *top)))
}
