// Player puts pods through scheduling cycles and tells what filter and prioritize took.
//
//	player native -nodes FILE [-plugins N]                           calls the plugin in this process
//	player http -nodes FILE -url URL [-whole] [-timeout DURATION]    asks an extender, by kube-scheduler's own client
//
// FILE is a protobuf v1.NodeList. How it is asked says package protocol.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"

	"peers/protocol"
)

func main() {
	if err := play(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func play(ctx context.Context, args []string) error {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	flags := flag.NewFlagSet("player", flag.ExitOnError)
	file := flags.String("nodes", "", "file of a protobuf v1.NodeList")
	plugins := flags.Int("plugins", 1, "native: how many plugins there are, each with the same policy")
	url := flags.String("url", "", "http: where the extender is")
	whole := flags.Bool("whole", false, "http: send whole nodes, and not their names")
	timeout := flags.Duration("timeout", scheduler.DefaultExtenderTimeout, "http: how long a request may take")
	if len(args) == 0 {
		return fmt.Errorf("say native or http")
	}
	flags.Parse(args[1:])

	begun := time.Now()
	var cycle cycle
	var err error
	switch args[0] {
	case "native":
		cycle, err = newNative(ctx, *plugins)
	case "http":
		cycle, err = newClient(*url, *whole, *timeout)
	default:
		err = fmt.Errorf("%q is neither native nor http", args[0])
	}
	if err != nil {
		return err
	}
	startSeconds := time.Since(begun).Seconds()

	player := &player{cycle: cycle}
	nodes, err := os.ReadFile(*file)
	if err != nil {
		return err
	}
	if err := player.Put(nodes); err != nil {
		return fmt.Errorf("%s: %w", *file, err)
	}
	return protocol.Serve(player, startSeconds)
}
