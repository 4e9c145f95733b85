package lab

import (
	"bytes"
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"svc.internal/pkg/fakeengine"
	"svc.internal/pkg/openai"
	"svc.internal/pkg/tinylm"
	tinylab "svc.internal/pkg/tinylm/lab"
	"svc.internal/services/verifier/internal/prompt"
	"svc.internal/services/verifier/internal/statistic"
	"svc.internal/services/verifier/internal/window"
)

// ask posts a chat and returns the body of the answer.
func ask(t *testing.T, handler http.Handler, request any) []byte {
	t.Helper()
	body, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/chat/completions",
		bytes.NewReader(body)))
	if w.Code != http.StatusOK {
		t.Fatalf("status: got %d, want 200, with %s", w.Code, w.Body)
	}
	return w.Body.Bytes()
}

// A reference that is asked over HTTP says the same as the model.
func TestScoresOverHTTPAreThoseOfTheModel(t *testing.T) {
	t.Parallel()
	model := tinylab.Base()
	server := tinylm.NewServer(model, tinylm.Options{})
	for _, answer := range []string{
		"Hello! How can I help you today?", "Grüße aus Köln: 3 × 4 = 12.", "こんにちは", " begins and ends with a space ",
	} {
		body := ask(t, server, map[string]any{
			"model": tinylm.ModelName, "max_tokens": 1, "prompt_logprobs": statistic.MaxTop,
			"continue_final_message": true, "add_generation_prompt": false,
			"messages": []map[string]string{{"role": "user", "content": "Hello"}, {"role": "assistant", "content": answer}},
		})
		got, void := statistic.Prompt(body, answer)
		if void != statistic.None {
			t.Errorf("%q: got void %q, want none", answer, void)
			continue
		}
		q := question{prompt: tinylm.Prompt([]tinylm.Message{{Role: tinylm.RoleUser, Text: "Hello"}})}
		want, err := score(t.Context(), model, q, answer)
		if err != nil {
			t.Fatal(err)
		}
		var gotSum, wantSum float64
		var text strings.Builder
		for _, p := range got {
			gotSum += p.Own.Logprob.Nats()
			text.WriteString(p.Own.Token)
		}
		for _, p := range want {
			wantSum += p.Own.Logprob.Nats()
		}
		if text.String() != answer {
			t.Errorf("%q: got the tokens %q, want them to join to the answer", answer, text.String())
		}
		// A character of several bytes is one token of which the first bytes are empty.
		if len(got) == len(want) && math.Abs(gotSum-wantSum) > 1e-4 {
			t.Errorf("%q: got the sum %v, want %v", answer, gotSum, wantSum)
		}
	}
}

// tokensOf counts as the fake engine does.
func tokensOf(text string) int { return openai.EstimateTokens([]byte(text)) }

// recallOf asks a fake engine a written prompt, and returns its needles and its answer.
func recallOf(t *testing.T, e http.Handler, r prompt.Recall) []window.Needle {
	t.Helper()
	text := r.Messages[0].Content
	var got struct {
		Choices []struct{ Message struct{ Content string } }
	}
	body := ask(t, e, map[string]any{
		"model": "recall", "messages": []map[string]string{{"role": "user", "content": text}},
	})
	if err := json.Unmarshal(body, &got); err != nil {
		t.Fatal(err)
	}
	var codes []string
	for _, n := range r.Needles {
		codes = append(codes, n.Code)
	}
	recalled := statistic.Recalled(codes, got.Choices[0].Message.Content)
	var needles []window.Needle
	for i, n := range r.Needles {
		from := tokensOf(text[len(text)-n.BytesFromEnd:])
		needles = append(needles, window.Needle{FromEnd: from, Recall: .99, Returned: recalled[i]})
	}
	return needles
}

// A window is measured by prompts as they are written, on an engine that loses the front of
// long ones.
func TestTheWindowOfAFakeEngineIsMeasured(t *testing.T) {
	t.Parallel()
	writer := prompt.NewWriter(prompt.Secret{7}, prompt.Demo())
	all := make([]int, window.Needles)
	for i := range all {
		all[i] = i
	}
	for i, tokens := range []int{2_000, 9_000, 30_000} {
		e := fakeengine.New(t)
		e.Script("recall", fakeengine.Behaviour{Recall: &fakeengine.Recall{WindowTokens: tokens}})
		m, err := window.New(smallestWindow, 65_536)
		if err != nil {
			t.Fatal(err)
		}
		perToken := 4.0
		for n := 0; m.Phase() == window.Measuring; n++ {
			plan := m.Plan()
			r, err := writer.Recall(prompt.ID{byte(i), byte(n)}, prompt.RecallPlan{
				Tokens: plan.Tokens, BytesPerToken: perToken, FromEnd: plan.FromEnd[:], Asked: all,
			})
			if err != nil {
				t.Fatal(err)
			}
			perToken = float64(len(r.Messages[0].Content)) / float64(tokensOf(r.Messages[0].Content))
			if err := m.Answered(recallOf(t, e, r)); err != nil {
				t.Fatal(err)
			}
		}
		if got := float64(m.Window()) / float64(tokens); math.Abs(got-1) > .03 {
			t.Errorf("%d tokens: got %d after %d prompts, want it within 3%%", tokens, m.Window(), m.Prompts())
		}
		if got := m.Prompts(); got > 8 {
			t.Errorf("%d tokens: got %d prompts, want at most 8", tokens, got)
		}
	}
}

// The figures of a run do not depend on the number of cores.
func TestTheFiguresAreThoseOfOneWorker(t *testing.T) {
	t.Parallel()
	measure := func(workers int) []Gate {
		var r Report
		if err := windows(t.Context(), Options{Workers: workers}, &r); err != nil {
			t.Fatal(err)
		}
		return r.Gates
	}
	if one, four := measure(1), measure(4); !slices.Equal(one, four) {
		t.Errorf("four workers: got %v, want %v", four, one)
	}
}

// A calibration and one cheat, with few answers: the gates of powers run whole in the
// laboratory alone.
func TestACheatIsSeenByTheLaboratory(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("asks a model for seconds")
	}
	o := Options{Workers: 2}
	reference := tinylab.Honest(tinylab.Base(), referenceSeed)
	questions, err := screened(t.Context(), o, reference, 20)
	if err != nil {
		t.Fatal(err)
	}
	j := &judge{reference: reference}
	base := 0.0
	for _, q := range questions {
		honest, err := j.greedy(t.Context(), q, serve(tinylab.Honest(tinylab.Base(), cheatSeed)))
		if err != nil {
			t.Fatal(err)
		}
		if honest.voidB == statistic.None {
			base = max(base, honest.b[0])
		}
	}
	seen := 0
	for _, q := range questions {
		other, err := j.greedy(t.Context(), q, serve(tinylab.Smaller()))
		if err != nil {
			t.Fatal(err)
		}
		if other.voidB == statistic.None && other.b[0] > 10*base {
			seen++
		}
	}
	if seen < 15 {
		t.Errorf("another size: got %d of 20 answers far above the honest, want at least 15", seen)
	}
}
