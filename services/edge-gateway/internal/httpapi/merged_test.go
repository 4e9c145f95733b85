package httpapi

import (
	"testing"

	"svc.internal/services/edge-gateway/internal/inference"
	"svc.internal/services/edge-gateway/internal/rewrite"
)

// twoPrompts is a request with two prompts.
func twoPrompts(stream bool) *inference.Request {
	return &inference.Request{
		Prompt: inference.Prompt{ID: "req-1"}, More: []inference.Prompt{{ID: "req-2"}},
		Answer: rewrite.Spec{Kind: rewrite.Completion, Stream: stream},
	}
}

func TestThePartThatComesFirstBeginsTheStream(t *testing.T) {
	h, x, w := sinkTo()
	s := h.newMergedSink(x, twoPrompts(true))
	first, second := s.Part(0), s.Part(1)
	second.Commit(provider("q"))
	first.Commit(provider("p"))
	if got := w.Result().Header.Get("X-Svc-Provider-Id"); got != "q" {
		t.Errorf("X-Svc-Provider-Id: got %q, want that of the part that came first", got)
	}
	first.Event(event(`{"a":1}`))
	second.Event(event(`{"b":2}`))
	for _, part := range []inference.Sink{second, first} {
		if err := part.Whole(inference.Whole{}); err != nil {
			t.Fatal(err)
		}
	}
	usage := event(`{"usage":{}}`)
	if err := s.Whole(inference.Whole{}, &usage); err != nil {
		t.Fatal(err)
	}
	wantBody(t, w, "data: {\"b\":2}\n\ndata: {\"a\":1}\n\ndata: {\"usage\":{}}\n\ndata: [DONE]\n\n")
}

func TestTheErrorOfAPartIsSentWhenTheOthersHaveEnded(t *testing.T) {
	h, x, w := sinkTo()
	s := h.newMergedSink(x, twoPrompts(true))
	part := s.Part(0)
	part.Commit(provider("p"))
	part.Event(event("{}"))
	part.Fail(inference.Failure{Err: brokenOff(), RequestID: "req-1"})
	wantBody(t, w, "data: {}\n\n")
	x.id = "req-2"
	s.FailPart(inference.PartFailure{Part: 0, Answer: brokenOffAnswer()})
	wantBody(t, w, "data: {}\n\n"+brokenOffEvent)
}

func TestAPartThatNobodyPaysForIsNotSent(t *testing.T) {
	h, x, w := sinkTo()
	part := h.newMergedSink(x, twoPrompts(true)).Part(0)
	part.Commit(provider("p"))
	part.Event(event("{}"))
	part.Fail(inference.Failure{Err: brokenOff(), Unpaid: true})
	wantBody(t, w, "")
}

func TestAFailureWithoutChoicesIsLeftToTheCaller(t *testing.T) {
	h, x, w := sinkTo()
	s := h.newMergedSink(x, twoPrompts(false))
	part := s.Part(1)
	part.Fail(inference.Failure{Err: brokenOff(), Attempts: 2})
	s.FailPart(inference.PartFailure{Part: 1, Answer: brokenOffAnswer()})
	if s.Begun() {
		t.Error("the answer has begun")
	}
	wantBody(t, w, "")
	if got := x.Header().Get("X-Svc-Attempts"); got != "2" {
		t.Errorf("X-Svc-Attempts: got %q, want that of the part that failed", got)
	}
}

func TestChoicesStandBesideAnError(t *testing.T) {
	h, x, w := sinkTo()
	s := h.newMergedSink(x, twoPrompts(false))
	s.FailPart(inference.PartFailure{
		Part: 1, Answer: brokenOffAnswer(), Choices: []byte(`{"index":0}`), Usage: `{"total_tokens":2}`, Cost: "0.5",
	})
	const want = `{"error":{"message":"It broke off.","type":"server_error","param":null,"code":"upstream_error"},` +
		`"request_id":"req-1","choices":[{"index":0}],"usage":{"total_tokens":2}}`
	wantBody(t, w, want)
	if w.Code != 502 {
		t.Errorf("the status: got %d, want 502", w.Code)
	}
	if got := w.Result().Header.Get("X-Svc-Cost-Usd"); got != "0.5" {
		t.Errorf("X-Svc-Cost-Usd: got %q, want 0.5", got)
	}
}
