//go:build engine

package engine

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"

	"svc.internal/services/verifier/internal/calibration"
	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/judge"
)

// The rows of the table.
const (
	calibrated = "calibration"
	honest     = "16-bit twin"
	eight      = "8-bit"
	four       = "4-bit"
	truncated  = "cut context"
	liar       = "cut context, lying"
	another    = "other weights"
)

// rows are those that are printed, in order, and families those that a probe with
// log-probabilities at temperature 0 feeds.
var (
	rows     = []string{honest, eight, four, truncated, liar, another}
	families = []evidence.Family{evidence.Greedy, evidence.Logprobs, evidence.Usage}
)

// asked are the hosts, their models, and the seeds of their prompts.
var asked = []struct {
	name, model string
	seed        uint64
}{
	{calibrated, "twin", 1},
	{honest, "twin", 2},
	{eight, "8-bit", 2},
	{four, "4-bit", 2},
	{truncated, "narrow", 2},
	{another, "other", 2},
}

// gates bound the shares of answers that exceed. What families see weakly has no gate: B of
// 8-bit weights, and U of what does not touch counts.
var gates = []struct {
	name        string
	family      evidence.Family
	least, most float64
}{
	{honest, evidence.Greedy, 0, .03},
	{honest, evidence.Logprobs, 0, .03},
	{honest, evidence.Usage, 0, .03},
	{eight, evidence.Logprobs, .9, 1},
	{four, evidence.Greedy, .77, 1}, // .85 ± .08
	{four, evidence.Logprobs, .9, 1},
	{truncated, evidence.Usage, .9, 1},
	{liar, evidence.Usage, 0, .03},
	{liar, evidence.Greedy, .4, 1},
	{liar, evidence.Logprobs, .86, 1}, // .94 ± .08
	{another, evidence.Greedy, .92, 1},
	{another, evidence.Logprobs, .92, 1},
}

func TestFamiliesSeeWhatARealEngineServes(t *testing.T) {
	b := &bench{engine: start(t)}
	b.reference.engine, b.reference.model = b.engine, "reference"
	for name, m := range hosts {
		b.engine.create(t, name, m)
	}
	records := b.everybody(t)
	if t.Failed() {
		return
	}
	if got := b.engine.window(t, "narrow"); got != narrowWindow {
		t.Errorf("the window that the engine states of the host that cuts: got %d, want %d", got, narrowWindow)
	}
	records[liar] = lying(t, records[truncated])
	samples := map[string]sample{}
	for name, r := range records {
		samples[name] = judged(t, r)
	}
	fits := samples[calibrated].calibrate(t)
	show(t, fits, samples)
	for _, g := range gates {
		s := samples[g.name]
		rate, _ := s.compare(t, fits[g.family], samples[honest])
		if rate < g.least || rate > g.most {
			t.Errorf("%s, %v: exceeding: got %.2f, want %.2f to %.2f", g.name, g.family, rate, g.least, g.most)
		}
		if len(s.voids[g.family]) > prompts/10 {
			t.Errorf("%s, %v: void: got %d, want at most %d", g.name, g.family, len(s.voids[g.family]), prompts/10)
		}
	}
}

// everybody asks all hosts, as many at a time as tests run.
func (b *bench) everybody(t *testing.T) map[string][]judge.Record {
	t.Helper()
	var mu sync.Mutex
	all := map[string][]judge.Record{}
	t.Run("asked", func(t *testing.T) {
		for _, a := range asked {
			t.Run(a.name, func(t *testing.T) {
				t.Parallel()
				records := b.collect(t, a.model, a.seed)
				mu.Lock()
				defer mu.Unlock()
				all[a.name] = records
			})
		}
	})
	return all
}

// show prints the table.
func show(t *testing.T, fits map[evidence.Family]calibration.Calibration, samples map[string]sample) {
	t.Helper()
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "host\tfamily\tanswers\tvoid\tmedian\texceeding\tAUC\t") // Flush says what failed
	for _, name := range rows {
		s := samples[name]
		for _, f := range families {
			rate, auc := s.compare(t, fits[f], samples[honest])
			_, _ = fmt.Fprintf(w, "%s\t%v\t%d\t%d\t%.5f\t%.2f\t%.3f\t\n", name, f, len(s.parts[f]), len(s.voids[f]),
				s.median(f), rate, auc)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatalf("print the figures: %v", err)
	}
}

// window returns the window that the engine states of a loaded model.
func (o *ollama) window(t *testing.T, model string) int {
	t.Helper()
	raw := o.call(t, "/api/ps", nil)
	var list struct {
		Models []struct {
			Name   string `json:"name"`
			Window int    `json:"context_length"`
		} `json:"models"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		t.Fatalf("read the loaded models: %v", err)
	}
	for _, m := range list.Models {
		if strings.HasPrefix(m.Name, model) {
			return m.Window
		}
	}
	t.Fatalf("the model %s is not loaded: %s", model, raw)
	return 0
}
