package calibrate_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/tinylm"
	"svc.internal/pkg/tinylm/lab"
	"svc.internal/services/verifier/internal/calibrate"
	"svc.internal/services/verifier/internal/calibration"
	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/judge"
	"svc.internal/services/verifier/internal/judge/judgetest"
	"svc.internal/services/verifier/internal/plan"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/prompt"
	"svc.internal/services/verifier/internal/quant"
)

// hosts has models of the laboratory as reference hosts.
type hosts struct {
	writer *plan.Writer
	models map[string]http.Handler
	// judges score: the model itself, and those that stand for alternatives.
	judges map[string]http.Handler
	took   time.Duration
}

func serve(m *tinylm.Model) http.Handler {
	return tinylm.NewServer(m, tinylm.Options{ModelName: judgetest.Model, MaxConcurrent: 64})
}

func post(t *testing.T, h http.Handler, body any) ([]byte, int) {
	t.Helper()
	text, ok := body.([]byte)
	if !ok {
		var err error
		if text, err = json.Marshal(body); err != nil {
			t.Fatal(err)
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(string(text))))
	return w.Body.Bytes(), w.Code
}

// record asks a host and has the answer scored.
func (h *hosts) record(t *testing.T, host string, p probe.Plan) judge.Record {
	t.Helper()
	defer func(began time.Time) { h.took += time.Since(began) }(time.Now())
	body, needles, err := h.writer.Body(p)
	if err != nil {
		t.Fatal(err)
	}
	raw, status := post(t, h.models[host], body)
	rec := judge.Record{
		Version: judge.Version, Plan: p, Request: body, Needles: needles,
		Answer: judge.Answer{Served: p.Offer.Provider.String(), Status: status, Complete: status == http.StatusOK, Raw: raw},
	}
	var asked map[string]any
	if err := json.Unmarshal(body, &asked); err != nil {
		t.Fatal(err)
	}
	if p.Kind == probe.Recall {
		maps.DeleteFunc(asked, func(name string, _ any) bool { return strings.HasPrefix(name, "stream") })
		ours, _ := post(t, h.judges[""], asked)
		rec.Scores = []judge.Score{{Host: "judge", Raw: ours}}
		return rec
	}
	text, v := judge.Text(raw)
	if v != "" || text == "" {
		return rec
	}
	if strings.Contains(string(raw), `"usage":{`) {
		rec.Answer.Claimed = true
		rec.Answer.ClaimedPrompt, rec.Answer.ClaimedOutput = judgetest.Claims(t, raw)
	}
	answer := map[string]any{"role": "assistant", "content": judge.Scored(raw)}
	score := map[string]any{
		"model": judgetest.Model, "max_tokens": 1, "temperature": 0, "logprobs": true, "top_logprobs": 20,
		"messages":               append(asked["messages"].([]any), answer),
		"continue_final_message": true, "add_generation_prompt": false, "prompt_logprobs": 20,
	}
	for _, name := range append([]string{""}, names(p.Alternatives)...) {
		if judge1, there := h.judges[name]; there {
			ours, _ := post(t, judge1, score)
			rec.Scores = append(rec.Scores, judge.Score{Host: "judge", Alternative: name, Raw: judge.Trim(ours, text)})
		}
	}
	return rec
}

func names(all []evidence.Alternative) (names []string) {
	for _, g := range all {
		names = append(names, g.String())
	}
	return names
}

func laboratory() (*hosts, calibrate.Order) {
	base := lab.Base()
	four := lab.Host(lab.Base(), tinylm.Variant{Seed: 4, WeightBits: 4})
	h := &hosts{
		writer: plan.NewWriter(prompt.Secret{7}, prompt.Demo()),
		models: map[string]http.Handler{
			"a": serve(lab.Honest(base, 1)), "b": serve(lab.Honest(base, 2)), "cheap": serve(four),
		},
		judges: map[string]http.Handler{"": serve(lab.Honest(base, 3)), evidence.Class4.String(): serve(four)},
	}
	return h, calibrate.Order{
		Stratum: calibration.Stratum{Model: judgetest.Model, Class: quant.Bits16, Engine: "tinylm"},
		Hosts: []calibrate.Host{
			{Name: "a", Provider: ids.ProviderID{1, 15: 1}}, {Name: "b", Provider: ids.ProviderID{2, 15: 1}},
			{Name: "cheap", Provider: ids.ProviderID{3, 15: 1}, Cheaper: true},
		},
		Cheaper: quant.Bits4, Alternatives: []evidence.Alternative{evidence.Class4},
		WindowTokens: 4_096, BytesPerToken: 1, Logprobs: true,
	}
}

// run carries a round to its end. It returns how many answers gave no sample.
func (h *hosts) run(t *testing.T, r *calibrate.Round) (asked, void int) {
	t.Helper()
	voids := measured{}
	defer func() { voids.log(t, asked) }()
	for b, more := r.Next(); more; b, more = r.Next() {
		for _, p := range b.Plans {
			asked++
			rec := h.record(t, b.Host.Name, p)
			voids.add(t, rec)
			samples, err := r.Took(rec)
			if err != nil {
				t.Fatal(err)
			}
			if len(samples) == 0 {
				void++
			}
		}
	}
	return asked, void
}

// The development model is calibrated by way of its API, from the wording of prompts to the
// limits. The log says what a whole calibration costs.
func TestTheDevelopmentModelIsCalibrated(t *testing.T) {
	if testing.Short() {
		t.Skip("it asks a model some hundred times")
	}
	t.Parallel()
	h, order := laboratory()
	order.Challenges, order.WindowTokens = 12, 2_000 // too few for a recall
	r, err := calibrate.New(probe.RunID{1, 15: 1}, order)
	if err != nil {
		t.Fatal(err)
	}
	asked, void := h.run(t, r)
	have, want := r.Progress()
	t.Logf("%d challenges, %d without a sample, %d of %d samples, %v each", asked, void, have, want,
		h.took/time.Duration(asked))
	all, err := r.Fit()
	if err != nil {
		t.Fatal(err)
	}
	found := map[evidence.Family]calibration.Calibration{}
	for _, c := range all {
		found[c.Family] = c
		t.Logf("%v: n %d, largest %.3v, ratios %.3v, power %+v", c.Family, c.N, c.Largest, c.Ratios, c.Power)
	}
	for _, f := range []evidence.Family{evidence.Greedy, evidence.Sampled, evidence.Logprobs, evidence.Usage} {
		if found[f].N == 0 {
			t.Errorf("calibration of %v: got none, want one", f)
		}
	}
	// An end token that the two lists of an engine name differently widens the limits of C
	// from .002 to .09, and hides the 4 bits.
	if p := found[evidence.Logprobs].Power; p.Exceeded*10 < p.N*9 {
		t.Errorf("4 bits seen by log-probabilities: got %d of %d, want nine of ten", p.Exceeded, p.N)
	}
}
