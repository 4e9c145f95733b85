package providerhub_test

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/fakeagent"
	agentv2 "svc.internal/proto/svc/agent/v2"
	hubv1 "svc.internal/proto/svc/hub/v1"
)

// codesOf returns the parts of a failure on which callers decide.
func codesOf(f *hubv1.DispatchFailed) *hubv1.DispatchFailed {
	return &hubv1.DispatchFailed{Retryable: f.GetRetryable(), Code: f.GetCode(), EngineStatus: f.GetEngineStatus(),
		Busy: f.GetBusy(), EngineCode: f.GetEngineCode()}
}

// engineFailure is a failure as agents of both dialects report it, with the codes that it must have.
type engineFailure struct {
	v1   func(*fakeagent.V1Request) error
	v2   func(*fakeagent.Request) error
	want *hubv1.DispatchFailed
}

// engineFailures has a case for each row of the table in dispatch/engine_codes.go.
func engineFailures() map[string]engineFailure {
	const tooLong = "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens."
	upstream := func(status int32) *hubv1.DispatchFailed {
		return &hubv1.DispatchFailed{Retryable: true, Code: "upstream_error", EngineStatus: status}
	}
	refused := func(status int32, code string) *hubv1.DispatchFailed {
		return &hubv1.DispatchFailed{Code: "engine_refused", EngineStatus: status, EngineCode: code}
	}
	busy := upstream(429)
	busy.Busy = true
	fails := func(status int32, body string) func(*fakeagent.Request) error {
		return func(r *fakeagent.Request) error { return r.Fail(status, body) }
	}
	return map[string]engineFailure{
		"the prompt is too long": {
			func(r *fakeagent.V1Request) error { return r.Fail(400, tooLong) },
			fails(400, `{"object":"error","message":"`+tooLong+`","type":"BadRequestError","param":null,"code":400}`),
			refused(400, "context_length_exceeded")},
		"the content is refused": {
			func(r *fakeagent.V1Request) error { return r.Fail(400, "temperature must be positive") },
			fails(400, `{"error":{"message":"temperature must be positive","type":"BadRequestError","code":400}}`),
			refused(400, "")},
		"the engine is not reached": {
			func(r *fakeagent.V1Request) error { return r.Break() },
			func(r *fakeagent.Request) error {
				return r.EndWith(&agentv2.End{Error: "the engine does not answer: connection refused"})
			}, upstream(0)},
		"the engine breaks off before content": {
			func(r *fakeagent.V1Request) error { return r.Break() },
			func(r *fakeagent.Request) error { return r.End(200, false) }, upstream(0)},
		"the engine's own 502": {
			func(r *fakeagent.V1Request) error { return r.Fail(502, "bad gateway") }, fails(502, "bad gateway"), upstream(502)},
		"the engine has no such model": {
			func(r *fakeagent.V1Request) error { return r.Fail(404, "model x not deployed on this provider") },
			func(r *fakeagent.Request) error {
				return r.EndWith(&agentv2.End{EngineStatus: 404, Error: "the model is not served here"})
			}, upstream(404)},
		"an error under a status of success names no such model": {
			func(r *fakeagent.V1Request) error {
				return r.Whole(`{"error":{"message":"no","type":"invalid_request_error","code":"model_not_found"}}`)
			},
			fails(200, `{"error":{"message":"no","type":"invalid_request_error","code":"model_not_found"}}`), upstream(404)},
		"the engine fails":   {func(r *fakeagent.V1Request) error { return r.Fail(503, "") }, fails(503, ""), upstream(503)},
		"the engine is full": {func(r *fakeagent.V1Request) error { return r.Fail(429, "full") }, fails(429, ""), busy},
		"the key is wrong":   {func(r *fakeagent.V1Request) error { return r.Fail(401, "") }, fails(401, ""), upstream(401)},
	}
}

// An engine's failure has the same codes in both dialects of agents.
func TestAnEnginesFailureHasTheSameCodesInBothDialects(t *testing.T) {
	t.Parallel()
	w := setupV1(t)
	m := w.active()
	one, two := w.join(w.active(), fakeagent.V1Options{}), w.dial(m, fakeagent.Options{})
	for name, c := range engineFailures() {
		for _, stream := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, stream %v", name, stream), func(t *testing.T) {
				call := w.call(w.order(one, stream))
				r := one.request()
				must(t, c.v1(r))
				if got := codesOf(call.rest().failed); !proto.Equal(got, c.want) {
					t.Errorf("v1: got %v, want %v", got, c.want)
				}
				call = w.call(order(m, two, stream))
				must(t, c.v2(received(t, two)))
				if got := codesOf(call.rest().failed); !proto.Equal(got, c.want) {
					t.Errorf("v2: got %v, want %v", got, c.want)
				}
			})
		}
	}
}
