package flow_test

import (
	"bytes"
	"testing"

	hubv1 "svc.internal/proto/svc/hub/v1"
	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/probe"
)

// For recalls and vectors a reference answers the same request itself, whole.
func TestAReferenceAnswersTheSameRequestItself(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		kind     probe.Kind
		endpoint hubv1.Endpoint
		path     string
		said     string
	}{
		"recall": {
			probe.Recall, hubv1.Endpoint_ENDPOINT_CHAT, "/v1/chat/completions",
			`{"choices":[{"index":0,"message":{"content":"123456"},"finish_reason":"stop"}]}`,
		},
		"a vector": {
			probe.Embedding, hubv1.Endpoint_ENDPOINT_EMBEDDINGS, "/v1/embeddings", `{"data":[{"embedding":[1,0,0]}]}`,
		},
	} {
		w := setup(t)
		w.edge.says(200, tc.said, provider(0).String())
		w.hub.run = func(_ *runRequest, s runStream) (bool, error) {
			return true, answer(s, []byte(tc.said), &hubv1.ChallengeFinished{
				End: hubv1.ChallengeEnd_CHALLENGE_END_ANSWERED, EngineStatus: 200,
			})
		}
		p := plan(1)
		p.Kind, p.Streamed = tc.kind, tc.kind == probe.Recall
		r := w.run(p)
		if got := len(r.Scores); got < 1 {
			t.Fatalf("%s: scores: got %d, want the reference's answer", name, got)
		}
		if got := string(r.Scores[0].Raw); got != tc.said {
			t.Errorf("%s: the reference's answer: got %s, want %s", name, got, tc.said)
		}
		asked := w.hub.asked[0].GetInference()
		if got := asked.GetEndpoint(); got != tc.endpoint {
			t.Errorf("%s: endpoint: got %v, want %v", name, got, tc.endpoint)
		}
		if asked.GetStream() {
			t.Errorf("%s: got a stream from the reference, want a whole answer", name)
		}
		if bytes.Contains(asked.GetBody(), []byte(`"stream`)) {
			t.Errorf("%s: the request to the reference: got %s, want it without stream", name, asked.GetBody())
		}
		if got := w.edge.seen[0].URL.Path; got != tc.path {
			t.Errorf("%s: path: got %s, want %s", name, got, tc.path)
		}
	}
}

// A measurement goes on without a reference.
func TestAMeasurementNeedsNoReference(t *testing.T) {
	t.Parallel()
	w := setup(t)
	p := plan(1)
	p.Kind, p.Stratum.Class = probe.Measure, 8
	if r := w.run(p); !r.Answer.Complete {
		t.Error("complete: got false, want true")
	}
}

// What does not fit into evidence is left out, alternatives first.
func TestARecordIsBounded(t *testing.T) {
	t.Parallel()
	w := setup(t)
	huge := bytes.Repeat([]byte("x"), 8<<20)
	huge = append([]byte(`{"choices":[{"index":0,"message":{"content":"x"}}],"pad":"`), append(huge, `"}`...)...)
	w.hub.run = func(_ *runRequest, s runStream) (bool, error) {
		return true, answer(s, huge, &hubv1.ChallengeFinished{
			End: hubv1.ChallengeEnd_CHALLENGE_END_ANSWERED, EngineStatus: 200,
		})
	}
	p := plan(1)
	p.Kind, p.Greedy, p.Alternatives = probe.Sampled, false, []evidence.Alternative{evidence.Class4, evidence.Sibling}
	r := w.run(p)
	total := len(r.Request) + len(r.Answer.Raw)
	for _, s := range r.Scores {
		total += len(s.Raw)
	}
	if total > 22<<20 {
		t.Errorf("bytes of a record: got %d, want at most 22 MiB", total)
	}
	if got := len(r.Scores); got != 2 {
		t.Fatalf("scores: got %d, want the 2 that fit", got)
	}
	if got := r.Scores[0].Alternative; got != "" {
		t.Errorf("what is kept: got %q, want the model's own score first", got)
	}
}
