package guest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"reflect"

	"kwx.dev/guest/internal/hooks"
	"kwx.dev/guest/internal/host"
)

// Config fills a struct with the plugin's configuration: the host's
// guestConfig, a JSON object. Keys that are not there keep their defaults. It
// belongs into func init: with a text that is anything but an object of the
// struct's keys, the instance ends, and the host tells why.
func Config(into any) {
	defaults, err := json.Marshal(into)
	if err == nil {
		err = parse(host.Config(), into)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	hooks.Configs = append(hooks.Configs, func(text []byte) error { return configure(text, into, defaults) })
}

// configure begins with the defaults, whatever is there.
func configure(text []byte, into any, defaults []byte) error {
	reflect.ValueOf(into).Elem().SetZero()
	if err := json.Unmarshal(defaults, into); err != nil {
		return err
	}
	return parse(text, into)
}

// parse takes an empty text for the defaults.
func parse(text []byte, into any) error {
	defaults, err := json.Marshal(into)
	if err != nil {
		return err
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	err = decoder.Decode(into)
	if err == nil && decoder.InputOffset() < int64(len(bytes.TrimRight(text, " \t\r\n"))) {
		err = fmt.Errorf("more than one value")
	}
	if err == io.ErrUnexpectedEOF {
		err = fmt.Errorf("the text ends within a value")
	}
	if err != nil {
		return fmt.Errorf("guestConfig: %w; expected an object as %s", err, defaults)
	}
	return nil
}
