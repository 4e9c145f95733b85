package plan_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"svc.internal/services/verifier/internal/judge"
	"svc.internal/services/verifier/internal/plan"
	"svc.internal/services/verifier/internal/probe"
)

// counted is a record of a prompt of so many bytes that a reference counts.
func counted(k probe.Kind, bytes int, tokens string) judge.Record {
	return judge.Record{
		Plan:    probe.Plan{Kind: k, Offer: probe.Offer{Model: "acme/large"}},
		Request: fmt.Appendf(nil, `{"messages":[{"role":"user","content":%q}]}`, strings.Repeat("x", bytes)),
		Answer:  judge.Answer{Raw: []byte(`{"choices":[{"message":{"content":"yyyyyyyyyy"}}]}`)},
		Scores:  []judge.Score{{Raw: []byte(`{"choices":[],"usage":{"prompt_tokens":` + tokens + `}}`)}},
	}
}

func TestReferencesTellHowLongTokensAre(t *testing.T) {
	t.Parallel()
	var l plan.Lengths
	l.Heard(counted(probe.Greedy, 4_990, "1000")) // and ten bytes of the answer
	if got := l.Of("acme/large"); got != 0 {
		t.Errorf("after 1,000 tokens: got %v, want 0, which is unknown", got)
	}
	l.Heard(counted(probe.Recall, 5_000, "1000"))
	if got := l.Of("acme/large"); got != 5 {
		t.Errorf("bytes per token: got %v, want 5", got)
	}
	if got := l.Of("acme/small"); got != 0 {
		t.Errorf("another model: got %v, want 0, which is unknown", got)
	}
}

func TestAbsurdCountsTeachNothing(t *testing.T) {
	t.Parallel()
	var l plan.Lengths
	for _, tokens := range []string{"-5", "0", "1e99", "NaN", `"12"`, "9223372036854775807"} {
		l.Heard(counted(probe.Recall, 5_000, tokens))
	}
	alternative := counted(probe.Greedy, 5_000, "3000")
	alternative.Scores[0].Alternative = "4-bit"
	l.Heard(alternative)
	l.Heard(judge.Record{})
	if got := l.Of("acme/large"); got != 0 {
		t.Errorf("bytes per token: got %v, want 0, which is unknown", got)
	}
	l.Heard(counted(probe.Recall, 5_000, "2000000"))
	if got := l.Of("acme/large"); got != 0 {
		t.Errorf("a token of a four-hundredth of a byte: got %v, want 0, which is unknown", got)
	}
}

func TestATokenizerThatChangesIsLearntAnew(t *testing.T) {
	t.Parallel()
	var l plan.Lengths
	for range 50 {
		l.Heard(counted(probe.Recall, 400_000, "100000"))
	}
	for range 300 {
		l.Heard(counted(probe.Recall, 300_000, "100000"))
	}
	within(t, "bytes per token", l.Of("acme/large"), 3, .05)
}

func TestWithoutAKnownLengthNoPromptIsTooLong(t *testing.T) {
	t.Parallel()
	o := offer(1)
	o.BytesPerToken, o.EffectiveTokens, o.StatedTokens = 0, 4_096, 4_096
	w := writer()
	for _, p := range newWorld(o).run(t, 14) {
		r, _ := read(t, w, p.Plan)
		bytes := p.Plan.MaxTokens
		for _, m := range r.Messages {
			bytes += len(m.Content)
		}
		if bytes > 4_096 {
			t.Errorf("a %s of %d tokens: got %d bytes with its answer, want at most 4096", p.Plan.Kind, p.Plan.PromptTokens,
				bytes)
		}
	}
}

func TestWhatIsRecallableFitsTheWindow(t *testing.T) {
	t.Parallel()
	w := writer()
	for _, bytesPerToken := range []float64{.5, 1, 2.7, 4, 6} {
		window := 256
		for !plan.Recallable(window, bytesPerToken, plan.Needles) {
			window++
		}
		for n := range byte(20) {
			p := probe.Plan{
				ID: probe.ID{n, 15: 1}, Offer: offer(1).Offer, Kind: probe.Recall, Flow: probe.Hidden,
				MaxTokens: plan.RecallAnswer(plan.Needles, bytesPerToken), BytesPerToken: bytesPerToken,
			}
			plan.Place(rand.New(rand.NewPCG(1, uint64(n))), &p, 1, plan.Needles)
			r, _ := read(t, w, p)
			tokens := float64(len(r.Messages[0].Content)) / bytesPerToken
			if got := int(tokens) + p.MaxTokens; got > window {
				t.Errorf("%v bytes per token: got %d tokens with the answer, want at most %d", bytesPerToken, got, window)
			}
		}
	}
}
