// Command gotypes answers, from the Go types of k8s.io/api, what the Python
// side has to agree with: the field numbers of Pod and Node, what random
// objects look like as JSON, and whether protobuf bytes say the same as JSON.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

const usage = `usage: gotypes COMMAND

  schema                       print wasm_runtime/protobuf/schema.py
  random -seed N -count N      print random objects, one JSON {"kind", "json"} a line
  check                        read lines {"kind", "json", "protobuf"}, print one verdict a line
`

// message is what pointers to the types of this command can do.
type message interface {
	runtime.Object
	metav1.Object
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

// newObject maps the kinds of this command to empty objects.
var newObject = map[string]func() message{
	"Pod":  func() message { return &corev1.Pod{} },
	"Node": func() message { return &corev1.Node{} },
}

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "gotypes:", err)
		os.Exit(1)
	}
}

func run(args []string, in io.Reader, out io.Writer) error {
	if len(args) == 0 {
		return fmt.Errorf("no command\n%s", usage)
	}
	buffered := bufio.NewWriter(out)
	defer buffered.Flush()
	switch args[0] {
	case "schema":
		return printSchema(buffered, corev1.Pod{}, corev1.Node{})
	case "random":
		flags := flag.NewFlagSet("random", flag.ContinueOnError)
		seed := flags.Int64("seed", 1, "seed of the generator")
		count := flags.Int("count", 100, "number of objects")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		return printRandom(buffered, *seed, *count)
	case "check":
		return check(in, buffered)
	default:
		return fmt.Errorf("unknown command %q\n%s", args[0], usage)
	}
}
