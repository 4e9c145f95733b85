package flow_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/fault"
	hubv1 "svc.internal/proto/svc/hub/v1"
	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/flow"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/store"
)

const shortAnswer = `{"choices":[{"message":{"content":"No."},"finish_reason":"stop","logprobs":{"content":[` +
	`{"token":"No.","logprob":-0.1,"top_logprobs":[]}]}}],"usage":{"prompt_tokens":9,"completion_tokens":1}}`

// screening is a world whose references answer the first prompts shortly, if they are asked
// for an answer of their own. It counts these.
type screening struct {
	*world
	asked int
	// short is how many prompts are answered shortly, and busy refuses all.
	short int
	busy  bool
	// hangs lets no answer come.
	hangs bool
}

func screened(t *testing.T) *screening {
	t.Helper()
	s := &screening{world: setup(t)}
	s.cfg.ScreenTimeout = 20 * time.Second
	s.build()
	s.hub.run = func(m *runRequest, stream runStream) (bool, error) {
		if bytes.Contains(m.GetInference().GetBody(), []byte("prompt_logprobs")) || m.GetFingerprint() != nil {
			return false, nil
		}
		s.asked++
		switch {
		case s.hangs:
			<-stream.Context().Done()
			return true, stream.Context().Err()
		case s.busy:
			return true, fault.New(fault.Unavailable, fault.ProviderBusy, "no slot")
		case s.asked > s.short:
			return false, nil
		}
		return true, answer(stream, []byte(shortAnswer), &hubv1.ChallengeFinished{
			End: hubv1.ChallengeEnd_CHALLENGE_END_ANSWERED, EngineStatus: 200, Dialect: "v2",
		})
	}
	return s
}

func TestAPromptWhoseAnswerProvesNothingIsNotAsked(t *testing.T) {
	t.Parallel()
	s := screened(t)
	s.short = 1
	r := s.run(plan(1))
	if r.Plan.Draw < 1 {
		t.Errorf("got the prompt %d, want a later one", r.Plan.Draw)
	}
	body, _, err := writer{}.Body(r.Plan)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(r.Request, body) {
		t.Error("the plan of the record writes another request, want the one that was sent")
	}
	if len(s.edge.seen) != 1 {
		t.Errorf("requests to the provider: got %d, want 1", len(s.edge.seen))
	}
	if len(r.Scores) == 0 {
		t.Error("the answer has no score, want one")
	}
}

func TestScreeningEndsAtItsBound(t *testing.T) {
	t.Parallel()
	s := screened(t)
	s.short = 100
	r := s.run(plan(1))
	if want := probe.MaxDraws - 1; r.Plan.Draw != want {
		t.Errorf("got the prompt %d, want %d, which is used unseen", r.Plan.Draw, want)
	}
	if want := probe.MaxDraws - 1; s.asked != want {
		t.Errorf("answers of references: got %d, want %d", s.asked, want)
	}
}

func TestWithoutAFreeReferenceAPromptIsAskedUnseen(t *testing.T) {
	t.Parallel()
	s := screened(t)
	s.busy = true
	r := s.run(plan(1))
	if r.Plan.Draw != 0 {
		t.Errorf("got the prompt %d, want the first", r.Plan.Draw)
	}
	if !r.Answer.Complete {
		t.Error("the provider was not asked, want it asked")
	}
	if s.asked != 2 {
		t.Errorf("references tried: got %d, want 2", s.asked)
	}
}

func TestAReferenceThatHangsHoldsNoProbe(t *testing.T) {
	t.Parallel()
	s := screened(t)
	s.hangs, s.cfg.ScreenTimeout = true, 50*time.Millisecond
	s.build()
	if r := s.run(plan(1)); !r.Answer.Complete {
		t.Error("the provider was not asked, want it asked")
	}
}

func TestOnlyHiddenPromptsAtTemperatureZeroAreScreened(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*probe.Plan){
		"sampled":   func(p *probe.Plan) { p.Kind, p.Greedy = probe.Sampled, false },
		"visible":   func(p *probe.Plan) { p.Flow, p.Feeds = probe.Visible, evidence.Greedy },
		"benchmark": func(p *probe.Plan) { p.Purpose = probe.Benchmark },
		"sampled, with log-probabilities": func(p *probe.Plan) {
			p.Kind, p.Greedy, p.TopLogprobs = probe.Logprobs, false, 5
		},
	} {
		s := screened(t)
		s.short = 100
		p := plan(1)
		change(&p)
		if r := s.run(p); r.Plan.Draw != 0 {
			t.Errorf("%s: got the prompt %d, want the first", name, r.Plan.Draw)
		}
	}
}

func TestAScreeningAsksWhatTheRequestAsks(t *testing.T) {
	t.Parallel()
	s := screened(t)
	p := plan(1)
	p.Streamed, p.Unbounded, p.MaxTokens = true, true, 1_024
	r := s.run(p)
	body := string(s.hub.asked[0].GetInference().GetBody())
	for _, want := range []string{`"max_tokens":160`, `"temperature":0`, `"logprobs":true`} {
		if !strings.Contains(body, want) {
			t.Errorf("got %s, want it with %s", body, want)
		}
	}
	if strings.Contains(body, `"stream"`) {
		t.Errorf("got %s, want it without a stream", body)
	}
	if r.Plan.MaxTokens != p.MaxTokens {
		t.Errorf("bound of the probe: got %d, want %d", r.Plan.MaxTokens, p.MaxTokens)
	}
}

func TestAProbeEndsWithinItsLease(t *testing.T) {
	t.Parallel()
	c := flow.DefaultConfig()
	if got := c.ScreenTimeout + c.AnswerTimeout + c.ClaimTimeout + c.ScoreTimeout; got >= store.Lease {
		t.Errorf("the longest probe: got %v, want below %v", got, store.Lease)
	}
}
