package main

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/randfill"
)

// The seconds since 1970 of the first and the last whole day that RFC 3339 can name and Go does not
// take for an unset time.
const (
	earliest = -62135510400
	latest   = 253402214400
)

// printRandom writes count objects, Pods and Nodes by turns; some are full, most are sparse.
func printRandom(out io.Writer, seed int64, count int) error {
	kinds := []string{"Pod", "Node"}
	lines := json.NewEncoder(out)
	for i := range count {
		kind := kinds[i%len(kinds)]
		object := newObject[kind]()
		filler(seed+int64(i), i).Fill(object)
		text, err := json.Marshal(object)
		if err != nil {
			return err
		}
		if err := lines.Encode(question{Kind: kind, JSON: string(text)}); err != nil {
			return err
		}
	}
	return nil
}

// filler leaves out 30% to 95% of what may be left out, by turns.
func filler(seed int64, i int) *randfill.Filler {
	nilChance := 0.3 + 0.65*float64(i%10)/9
	return randfill.NewWithSeed(seed).NilChance(nilChance).NumElements(0, 3).MaxDepth(30).Funcs(
		fillQuantity, fillTime, fillIntOrString, fillFields,
	)
}

func fillQuantity(q *resource.Quantity, c randfill.Continue) {
	suffixes := []string{"", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E-3"}
	fraction := ""
	if c.Bool() {
		fraction = fmt.Sprintf(".%d", c.Intn(1000))
	}
	*q = resource.MustParse(fmt.Sprintf("%d%s%s", c.Intn(1_000_000)-500_000, fraction, suffixes[c.Intn(len(suffixes))]))
}

func fillTime(t *metav1.Time, c randfill.Continue) {
	*t = metav1.NewTime(time.Unix(earliest+c.Int63n(latest-earliest), 0))
}

func fillIntOrString(v *intstr.IntOrString, c randfill.Continue) {
	if c.Bool() {
		*v = intstr.FromInt32(int32(c.Uint32()))
	} else {
		*v = intstr.FromString(c.String(0))
	}
}

func fillFields(f *metav1.FieldsV1, c randfill.Continue) {
	raw, err := json.Marshal(map[string]any{
		"f:" + c.String(10): map[string]any{".": map[string]any{}, "k:{\"type\":\"<&>\"}": []any{1, -2.5, nil, c.Bool()}},
	})
	if err != nil {
		panic(err)
	}
	f.SetRawBytes(raw)
}
