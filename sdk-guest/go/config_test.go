package guest

import "testing"

type example struct {
	Reverse bool   `json:"reverse"`
	Label   string `json:"label"`
	Limit   uint8  `json:"limit"`
}

var defaults = example{Label: "zone", Limit: 10}

func TestConfigurations(t *testing.T) {
	for text, want := range map[string]example{
		"":                        defaults,
		" \n":                     defaults,
		"{}":                      defaults,
		` {"limit": 255} `:        {Label: "zone", Limit: 255},
		`{"reverse":true}` + "\n": {Reverse: true, Label: "zone", Limit: 10},
	} {
		got := defaults
		if err := parse([]byte(text), &got); err != nil || got != want {
			t.Errorf("%q: %v %v, want %v", text, got, err, want)
		}
	}
}

func TestWhatIsWrongWithAConfigurationAndWhatWasExpected(t *testing.T) {
	for text, want := range map[string]string{
		"reverse: true":        "invalid character 'r' looking for beginning of value",
		`{"reverse": true`:     "the text ends within a value",
		`{"reverse": true} {}`: "more than one value",
		`{"revers": true}`:     `json: unknown field "revers"`,
		`{"reverse": "true"}`:  "json: cannot unmarshal string into Go struct field example.reverse of type bool",
		`{"limit": 256}`:       "json: cannot unmarshal number 256 into Go struct field example.limit of type uint8",
		`["reverse"]`:          "json: cannot unmarshal array into Go value of type guest.example",
	} {
		got := defaults
		err := parse([]byte(text), &got)
		want := "guestConfig: " + want + `; expected an object as {"reverse":false,"label":"zone","limit":10}`
		if err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %v", text, err, want)
		}
	}
}
