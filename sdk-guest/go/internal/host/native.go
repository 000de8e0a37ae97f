//go:build !wasip1

package host

import (
	"fmt"
	"unsafe"
)

// Native is the host of tests, which run natively.
var Native struct {
	Pod, Config []byte
	NodeName    string
	Nodes       map[string][]byte
	// Asked has the nodes whose objects were asked for, Reasons what was handed over.
	Asked, Reasons, Logged []string
	Severity               int32
}

func currentPod(buf *byte, limit uint32) uint32 { return write(Native.Pod, buf, limit) }

func currentNodeName(buf *byte, limit uint32) uint32 {
	return write([]byte(Native.NodeName), buf, limit)
}

func node(name string, buf *byte, limit uint32) uint32 {
	Native.Asked = append(Native.Asked, name)
	return write(Native.Nodes[name], buf, limit)
}

func config(buf *byte, limit uint32) uint32 { return write(Native.Config, buf, limit) }

func StatusReason(reason string) { Native.Reasons = append(Native.Reasons, reason) }

func Severity() int32 { return Native.Severity }

func Log(severity int32, message string) {
	Native.Logged = append(Native.Logged, fmt.Sprint(severity, " ", message))
}

func write(value []byte, buf *byte, limit uint32) uint32 {
	if uint32(len(value)) <= limit {
		copy(unsafe.Slice(buf, limit), value)
	}
	return uint32(len(value))
}
