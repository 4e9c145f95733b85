// Package judgetest makes records of probes for tests: small ones whose judgement is known
// (this file), and ones that models of the laboratory answer (lab.go).
package judgetest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/services/verifier/internal/calibration"
	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/judge"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/quant"
)

// Model is the model of the records.
const Model = "acme/tiny"

// Offer is the offer of the records.
var Offer = probe.Offer{Provider: ids.ProviderID{1}, Model: Model}

// Stratum is the stratum of the records.
var Stratum = calibration.Stratum{Model: Model, Class: quant.Bits16, Engine: "tinylm"}

// Say is what a record is to say.
type Say struct {
	// N tells records apart, and is their number of milliseconds since 1970.
	N int
	// Exceeded is b of the family of the kind. The other families have b = 0.
	Exceeded bool
	// Host is the reference that scores; "" is "reference-1".
	Host string
	// Visible makes the probe a visible one that feeds V, Benchmark one of a benchmark.
	Visible, Benchmark bool
}

// tokens is how many tokens the small answers have.
const tokens = 24

// Answer is the text of the small answers.
var Answer = strings.Repeat("abcdefgh", tokens/8)

// Greedy returns a record of an answer at temperature 0: B and U.
func Greedy(t testing.TB, s Say) judge.Record {
	t.Helper()
	r := record(t, s, probe.Greedy, evidence.Greedy)
	r.Answer.Raw = chat(t, Answer)
	own, other := -.6, -.8
	if s.Exceeded {
		own, other = -1.7, -.3
	}
	r.Scores = []judge.Score{{Host: host(s), Class: 16, Raw: Score(Answer, 50, own, other)}}
	r.Calibrations = map[string][]byte{
		evidence.Greedy.String(): Calibration(t, evidence.Greedy, .1),
		evidence.Usage.String():  Calibration(t, evidence.Usage, 2, .05, 3),
	}
	return r
}

// Recall returns a record of a recall: D and U. Exceeded loses half of the needles.
func Recall(t testing.TB, s Say) judge.Record {
	t.Helper()
	r := record(t, s, probe.Recall, evidence.Recall)
	r.Plan.PromptTokens = 6_000
	Needles(&r, 8)
	lost := 0
	if s.Exceeded {
		lost = 4
	}
	r.Answer.Raw = chat(t, Lines(r.Needles[lost:]))
	r.Scores = []judge.Score{{Host: host(s), Class: 16, Raw: chat(t, Lines(r.Needles))}}
	r.Calibrations = map[string][]byte{evidence.Recall.String(): Calibration(t, evidence.Recall, 1)}
	return r
}

// Measured returns a record of a prompt that measures a window: needles at the distances
// come back up to the window.
func Measured(t testing.TB, s Say, kind probe.Kind, fromEnd []int, windowTokens int) judge.Record {
	t.Helper()
	r := record(t, s, kind, evidence.NoFamily)
	r.Plan.FromEnd, r.Plan.Asked, r.Needles = fromEnd, nil, nil
	var kept []string
	for i, at := range fromEnd {
		code := fmt.Sprintf("%06d", 100_000+i*137)
		r.Plan.Asked, r.Needles = append(r.Plan.Asked, i), append(r.Needles, code)
		if at <= windowTokens {
			kept = append(kept, code)
		}
	}
	r.Answer.Raw = chat(t, Lines(kept))
	r.Scores = []judge.Score{{Host: host(s), Class: 16, Raw: chat(t, Lines(r.Needles))}}
	return r
}

// Fingerprint returns a record of a fingerprint. Exceeded are wrong bytes.
func Fingerprint(t testing.TB, s Say) judge.Record {
	t.Helper()
	r := record(t, Say{N: s.N, Visible: true}, probe.Fingerprint, evidence.Files)
	r.Plan.Feeds = evidence.NoFamily
	r.Plan.Purpose, r.Plan.Run = probe.Benchmark, probe.RunID{9}
	ours, theirs := judge.Digests{Digests: [][]byte{make([]byte, 32)}}, judge.Digests{Digests: [][]byte{make([]byte, 32)}}
	if s.Exceeded {
		theirs.Digests[0][3] ^= 4
	}
	r.Expected, r.Answer.Raw = encode(t, ours), encode(t, theirs)
	return r
}

// Silent returns a record of an answer without the log-probabilities that it was asked for.
func Silent(t testing.TB, s Say) judge.Record {
	t.Helper()
	r := Greedy(t, s)
	r.Plan.Kind, r.Plan.Greedy, r.Plan.TopLogprobs = probe.Logprobs, true, 5
	return r
}

// Needles puts n needles in a record, all of them asked for.
func Needles(r *judge.Record, n int) {
	for i := range n {
		r.Needles = append(r.Needles, fmt.Sprintf("%06d", 123_456+i*1_001))
		r.Plan.FromEnd, r.Plan.Asked = append(r.Plan.FromEnd, 100*(i+1)), append(r.Plan.Asked, i)
	}
}

// Lines is an answer with codes.
func Lines(codes []string) string {
	var b strings.Builder
	for i, c := range codes {
		_, _ = fmt.Fprintf(&b, "name %c: %s\n", 'a'+i, c) // a Builder never fails
	}
	return "Here they are.\n" + b.String()
}

// Score is a reference's score of a text of which each byte is a token: own and other are
// the log-probabilities of each token and of another.
func Score(text string, prompt int, own, other float64) []byte {
	var b strings.Builder
	_, _ = fmt.Fprintf(&b, `{"choices":[{"index":0,"message":{"role":"assistant","content":"x"},`+
		`"finish_reason":"length"}],"usage":{"prompt_tokens":%d,"completion_tokens":1},"prompt_logprobs":[null`,
		prompt+len(text)) // a Builder never fails
	for i := range len(text) {
		_, _ = fmt.Fprintf(&b, `,{"%d":{"logprob":%v,"rank":1,"decoded_token":"%c"},"1":{"logprob":%v,"rank":2,`+
			`"decoded_token":"!"}}`, text[i], own, text[i], other)
	}
	return []byte(b.String() + "]}")
}

// Calibration is the binary form of a calibration that reaches penalties.
func Calibration(t testing.TB, f evidence.Family, largest ...float64) []byte {
	t.Helper()
	b, err := calibration.Calibration{
		Stratum: Stratum, Family: f, Rules: judge.Version, N: 5_000, Hosts: 2, Whole: 2, Largest: largest,
	}.Encode()
	if err != nil {
		t.Fatalf("make a calibration: %v", err)
	}
	return b
}

func record(t testing.TB, s Say, kind probe.Kind, feeds evidence.Family) judge.Record {
	t.Helper()
	at := time.UnixMilli(int64(s.N)).UTC()
	id := probe.ID{14: byte(s.N >> 8), 15: byte(s.N), 13: byte(s.N >> 16), 0: 1, 1: byte(len(kind))}
	r := judge.Record{
		Version: judge.Version,
		Plan: probe.Plan{
			ID: id, Offer: Offer, Kind: kind, Flow: probe.Hidden, Purpose: probe.Evidence, DueAt: at,
			PromptTokens: 50, MaxTokens: tokens, Stratum: Stratum,
		},
		Sent: at, Ended: at, Request: []byte(`{"model":"acme/tiny"}`),
		Answer: judge.Answer{
			Served: Offer.Provider.String(), Status: 200, Complete: true, Claimed: true,
			ClaimedPrompt: 50, ClaimedOutput: tokens, Chunks: []judge.Chunk{{AtMicros: 9, Bytes: 3}},
		},
	}
	if s.Visible || s.Benchmark {
		r.Plan.Flow, r.Plan.Feeds = probe.Visible, feeds
	}
	if s.Benchmark {
		r.Plan.Purpose, r.Plan.Run = probe.Benchmark, probe.RunID{9}
	}
	return r
}

func host(s Say) string {
	if s.Host == "" {
		return "reference-1"
	}
	return s.Host
}

// chat is an engine's whole answer.
func chat(t testing.TB, text string) []byte {
	t.Helper()
	return encode(t, map[string]any{
		"choices": []any{map[string]any{
			"index": 0, "message": map[string]any{"role": "assistant", "content": text}, "finish_reason": "length",
		}},
		"usage": map[string]any{"prompt_tokens": 50, "completion_tokens": tokens},
	})
}

func encode(t testing.TB, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatalf("write JSON: %v", err)
	}
	return b
}

// Ratios is the binary form of a calibration of family R that reaches penalties.
func Ratios(t testing.TB, alternatives ...evidence.Alternative) []byte {
	t.Helper()
	c := calibration.Calibration{
		Stratum: Stratum, Family: evidence.Sampled, Rules: judge.Version, N: 5_000, Hosts: 2, Whole: 2,
	}
	for _, g := range alternatives {
		c.Ratios = append(c.Ratios, calibration.Moments{Alternative: g, Mean: 1, Variance: 1, N: 5_000})
	}
	b, err := c.Encode()
	if err != nil {
		t.Fatalf("make a calibration of ratios: %v", err)
	}
	return b
}
