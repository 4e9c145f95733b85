//go:build engine

package engine

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"svc.internal/services/verifier/internal/calibration"
	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/judge"
	"svc.internal/services/verifier/internal/judge/judgetest"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/statistic"
)

const (
	// prompts are those of each host; the honest one answers as many others before, for its
	// calibration.
	prompts = 100
	// answerTokens is the length of the answers: the shortest that is judged, and some for the
	// blanks around it.
	answerTokens = statistic.MinTokens + 4
	// words is the length of prompts, which have about 30 tokens, and narrowWindow cuts
	// every one of them.
	words        = 6
	narrowWindow = 20
)

// hosts are what providers run while they state 16 bits of the weights of seed 1.
var hosts = map[string]model{
	"reference": {flags: weights("1")},
	"twin":      {flags: append(weights("1"), "-half")},
	"8-bit":     {flags: append(weights("1"), "-half"), quantize: "q8_0"},
	"4-bit":     {flags: append(weights("1"), "-half"), quantize: "q4_K_M"},
	"other":     {flags: append(weights("2"), "-half")},
	// The engine runs a file with one window at a time: a name makes another file.
	"narrow": {flags: append(weights("1"), "-half", "-name", "narrow"), window: strconv.Itoa(narrowWindow)},
}

// weights are flags of a model whose rows the engine's 4-bit quantizer takes.
func weights(seed string) []string {
	return []string{"-seed", seed, "-sharpness", "4", "-layers", "1", "-width", "256", "-heads", "8", "-ff", "256"}
}

// bench asks hosts and judges their answers.
type bench struct {
	engine    *ollama
	reference reference
}

// sample is what was judged of one host, by family.
type sample struct {
	parts map[evidence.Family][][]float64
	voids map[evidence.Family][]statistic.Void
}

// collect puts the prompts of a seed to a host.
func (b *bench) collect(t *testing.T, host string, seed uint64) (records []judge.Record) {
	t.Helper()
	dice := rand.New(rand.NewPCG(seed, 1))
	for n := range prompts {
		records = append(records, b.record(t, host, n, sentence(dice)))
	}
	return records
}

// record asks a host one prompt and lets the reference score the answer.
func (b *bench) record(t *testing.T, host string, n int, ask string) judge.Record {
	t.Helper()
	r := judgetest.Greedy(t, judgetest.Say{N: n})
	r.Plan.Kind, r.Plan.Greedy, r.Plan.TopLogprobs, r.Plan.MaxTokens = probe.Logprobs, true, 5, answerTokens
	r.Answer.Raw = b.engine.call(t, "/v1/chat/completions", map[string]any{
		"model": host, "messages": []any{map[string]any{"role": "user", "content": ask}}, "temperature": 0,
		"max_tokens": answerTokens, "logprobs": true, "top_logprobs": 5,
	})
	if _, v := judge.Text(r.Answer.Raw); v != statistic.None {
		t.Fatalf("an answer has no text: %s", v)
	}
	tokens, v := statistic.Content(nil, r.Answer.Raw)
	if v != statistic.None {
		t.Fatalf("an answer has no log-probabilities: %s", v)
	}
	r.Answer.ClaimedPrompt, r.Answer.ClaimedOutput = judgetest.Claims(t, r.Answer.Raw)
	r.Calibrations, r.Scores[0].Raw = nil, b.reference.score(t, ask, judge.Scored(r.Answer.Raw),
		within(tokens, judge.Scored(r.Answer.Raw)))
	return r
}

// within returns the tokens of a part of an answer's text.
func within(tokens []statistic.Position, text string) []statistic.Position {
	whole := ""
	for _, p := range tokens {
		whole += p.Own.Token
	}
	begin := strings.Index(whole, text)
	end := begin + len(text)
	var out []statistic.Position
	at := 0
	for _, p := range tokens {
		from, to := max(at, begin), min(at+len(p.Own.Token), end)
		if at += len(p.Own.Token); begin >= 0 && from < to {
			p.Own.Token = whole[from:to]
			out = append(out, p)
		}
	}
	return out
}

// lying returns the records of a host that claims the tokens that the reference counts.
func lying(t *testing.T, records []judge.Record) []judge.Record {
	t.Helper()
	records = slices.Clone(records)
	for i := range records {
		a := &records[i].Answer
		counted, _ := judgetest.Claims(t, records[i].Scores[0].Raw)
		a.ClaimedPrompt = counted - a.ClaimedOutput
	}
	return records
}

// judged judges records.
func judged(t *testing.T, records []judge.Record) sample {
	t.Helper()
	s := sample{parts: map[evidence.Family][][]float64{}, voids: map[evidence.Family][]statistic.Void{}}
	for n, r := range records {
		j, err := judge.Judge(r)
		if err != nil {
			t.Fatalf("judge answer %d: %v", n, err)
		}
		for f, parts := range j.Parts {
			s.parts[f] = append(s.parts[f], parts)
		}
		for f, v := range j.Voids {
			s.voids[f] = append(s.voids[f], v)
		}
	}
	return s
}

// sentence draws words of two syllables.
func sentence(dice *rand.Rand) string {
	var list []string
	for range words {
		word := ""
		for range 2 {
			word += string("bcdfghklmnprstvw"[dice.IntN(16)]) + string("aeiou"[dice.IntN(5)])
		}
		list = append(list, word)
	}
	return strings.Join(list, " ")
}

// compare returns the share of a host's answers that exceed a calibration, and the area
// under the curve of X against that of the honest host.
func (s sample) compare(t *testing.T, c calibration.Calibration, honest sample) (exceeding, auc float64) {
	t.Helper()
	mine, theirs := s.xs(t, c), honest.xs(t, c)
	for _, x := range mine {
		if x > calibration.Tau {
			exceeding++
		}
		for _, y := range theirs {
			switch {
			case x > y:
				auc++
			case x == y:
				auc += .5
			}
		}
	}
	return exceeding / float64(len(mine)), auc / float64(len(mine)*len(theirs))
}

func (s sample) xs(t *testing.T, c calibration.Calibration) []float64 {
	t.Helper()
	var xs []float64
	for _, parts := range s.parts[c.Family] {
		x, err := c.X(parts)
		if err != nil {
			t.Fatalf("X of %v: %v", parts, err)
		}
		xs = append(xs, x)
	}
	if len(xs) == 0 {
		t.Fatalf("family %v was not judged", c.Family)
	}
	return xs
}

// calibrate fits families to honest answers.
func (s sample) calibrate(t *testing.T) map[evidence.Family]calibration.Calibration {
	t.Helper()
	fits := map[evidence.Family]calibration.Calibration{}
	for f, k := range map[evidence.Family]int{evidence.Greedy: 1, evidence.Logprobs: 2, evidence.Usage: 3} {
		var challenges []calibration.Challenge
		for _, parts := range s.parts[f] {
			challenges = append(challenges, calibration.Challenge{Host: "twin", Parts: parts})
		}
		c, err := calibration.Fit(judgetest.Stratum, f, k, challenges)
		if err != nil {
			t.Fatalf("calibrate %v: %v", f, err)
		}
		c.Rules = judge.Version
		fits[f] = c
	}
	return fits
}

// median returns the middle of the first parts of a family.
func (s sample) median(f evidence.Family) float64 {
	var first []float64
	for _, parts := range s.parts[f] {
		first = append(first, parts[0])
	}
	slices.Sort(first)
	return first[len(first)/2]
}
