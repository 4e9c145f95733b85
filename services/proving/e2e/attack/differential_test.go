package attack

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"svc.internal/services/proving/internal/trial"
)

// differential is a marketplace with one engine whose rules change.
type differential struct {
	*stage
	engine *lengthEngine
	model  string
	key    string
}

// maxCatalog is the longest answer by the catalog, and engineOwn the longest of an engine
// that nobody stops.
const maxCatalog, engineOwn = 96, 300

func newDifferential(t testing.TB) *differential {
	t.Helper()
	d := &differential{stage: &stage{Market: trial.Start(t, settings()...), form: standaloneForm, name: "differential"}}
	d.model = d.put(t, model{maxOutput: maxCatalog})
	d.engine = newLengthEngine(t, fourEngines[0], engineOwn, d.model)
	d.Join(t, d.title(), d.engine.url, d.model)
	_, d.key = d.caller(t)
	return d
}

// randomBody is a chat with random members about length. Every choice follows from the
// seed.
func (d *differential) randomBody(r *rand.Rand) string {
	pick := func(values ...string) string { return values[r.IntN(len(values))] }
	bound := func() string {
		return pick("1", "2", "7", "16", fmt.Sprint(1+r.IntN(maxCatalog)), fmt.Sprint(maxCatalog), "null", "3.0", "1e1")
	}
	var members strings.Builder
	for _, m := range []struct {
		name, value string
		odds        int
	}{
		{"max_tokens", bound(), 2},
		{"max_completion_tokens", bound(), 2},
		{"n", pick("1", "2", "3", "null"), 4},
		{"stream", pick("true", "false"), 2},
		{"n_predict", pick("-1", "0", "5", "300", "1e9", "null"), 3},
		{"max_new_tokens", pick("1", "300"), 4},
		{"num_predict", pick("-1", "300"), 4},
		{"options", `{"num_predict":300}`, 6},
		{"min_tokens", pick("0", "3", "300"), 4},
		{"min_new_tokens", "300", 6},
		{"ignore_eos", pick("true", "false"), 3},
		{"stop", `["\u0000"]`, 6},
		// The client sees the usage that is billed.
		{"stream_options", `{"include_usage":true}`, 1},
	} {
		if r.IntN(m.odds) == 0 {
			fmt.Fprintf(&members, ",%q:%s", m.name, m.value)
		}
	}
	return trial.Chat(d.model, members.String())
}

// check makes one random request to an engine of one of the four rules.
func (d *differential) check(t testing.TB, seed uint64) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 11))
	rule := fourEngines[r.IntN(len(fourEngines))]
	d.engine.obey(rule)
	body := d.randomBody(r)
	_, _, before := d.engine.last()
	answer := d.chat(t, d.key, body)
	limit, sent, asked := d.engine.last()
	if asked == before {
		if answer.status != http.StatusBadRequest {
			t.Errorf("%s: got %d %s without the engine, want 400", body, answer.status, answer.body)
		}
		return
	}
	bound, ok := sent.number("max_tokens")
	if !ok {
		t.Errorf(`%s: the engine is sent max_tokens %s: ok of sent.number("max_tokens"): got false, want true`, body,
			sent["max_tokens"])
		return
	}
	if bound < 1 || bound > maxCatalog {
		t.Errorf("%s: the engine is sent max_tokens %s: bound: got %d, want 1 to %d", body, sent["max_tokens"], bound,
			maxCatalog)
		return
	}
	choices := max(1, sent.first("n")%unbounded)
	_, vendors := sent.number("n_predict")
	if rule.name != "llama.cpp" || !vendors {
		if limit > bound {
			t.Errorf("%s: %s goes: got %d, want at most the bound of %d", body, rule.name, limit, bound)
		}
	}
	if answer.status != http.StatusOK {
		return
	}
	if answer.completion > bound*choices {
		t.Errorf("%s: got a bill of %d tokens, want at most %d of %d", body, answer.completion, choices, bound)
	}
	delivered := answer.words()
	// Several choices run together where one ends and the next begins.
	if bounded := choices * mark(bound); delivered > bounded {
		t.Errorf("%s: %s delivers: got %d tokens for a bound of %d choices of %d, want at most %d", body, rule.name,
			delivered, choices, bound, bounded)
	}
	if limit <= bound && delivered > 0 && answer.completion < delivered {
		t.Errorf("%s: got %d tokens for a bill of %d, want no more than is billed", body, delivered, answer.completion)
	}
}

// TestEnginesNeverAnswerPastTheBill compares random bodies with the rules of four
// engines: none answers more than the bound of the bill, whatever members it knows.
func TestEnginesNeverAnswerPastTheBill(t *testing.T) {
	if reason, isOpen := open["differential"]; isOpen {
		t.Skip("open: " + reason)
	}
	requests := uint64(150)
	if !testing.Short() {
		requests = 1500
	}
	d := newDifferential(t)
	for seed := range requests {
		if d.check(t, seed); t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// FuzzEnginesNeverAnswerPastTheBill is the same for as long as one likes. Use -parallel 1
// for one marketplace.
func FuzzEnginesNeverAnswerPastTheBill(f *testing.F) {
	if _, isOpen := open["differential"]; isOpen {
		f.Skip("open")
	}
	if testing.Short() {
		f.Skip("the seeded test does so")
	}
	d := newDifferential(f)
	for seed := range uint64(8) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) { d.check(t, seed) })
}
