package providerhub_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/fakeagent"
	"svc.internal/pkg/fault"
	eventsv1 "svc.internal/proto/svc/events/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
)

// expulsions are how a provider loses its connections, and what its agents hear.
func expulsions(w *world) map[string]func(m member) (code string, number int) {
	return map[string]func(m member) (string, int){
		"its key is revoked": func(m member) (string, int) {
			_, err := w.hub.admin.RevokeProviderKey(w.t.Context(), &hubv1.RevokeProviderKeyRequest{KeyId: m.keyID})
			must(w.t, err)
			return "key_revoked", 401
		},
		"it is suspended": func(m member) (string, int) {
			_, err := w.hub.admin.SetProviderStatus(w.t.Context(), &hubv1.SetProviderStatusRequest{
				ProviderId: m.id, Status: hubv1.ProviderStatus_PROVIDER_STATUS_SUSPENDED,
			})
			must(w.t, err)
			return "suspended", 403
		},
		"a verdict removes it": func(m member) (string, int) {
			_, err := w.hub.verdict.Expel(w.t.Context(), &hubv1.ExpelRequest{ProviderId: m.id, VerdictId: testVerdict})
			must(w.t, err)
			return "suspended", 403
		},
	}
}

// outcomes hears what becomes of attempts.
func (w *world) outcomes() <-chan *eventsv1.Attempt {
	heard := make(chan *eventsv1.Attempt, 64)
	w.t.Cleanup(w.subscribe(bus.SubjectAttempts(testHub), func(data []byte) {
		b := &eventsv1.AttemptBatch{}
		must(w.t, proto.Unmarshal(data, b))
		for _, a := range b.GetAttempts() {
			heard <- a
		}
	}))
	return heard
}

func TestRequestsUnderWayOutliveAnExpulsionAndNothingNewIsSent(t *testing.T) {
	t.Parallel()
	w := setup(t)
	usage, outcomes := w.listen(), w.outcomes()
	paid := 0
	for name, expel := range expulsions(w) {
		m := w.active()
		a := w.dial(m, fakeagent.Options{})
		streamed, whole := w.call(order(m, a, true)), w.call(order(m, a, false))
		first, second := received(t, a), received(t, a)
		if !first.Open.GetStream() {
			first, second = second, first
		}
		twoWords(t, first)
		streamed.content()
		code, _ := expel(m)
		if err := w.call(order(m, a, true)).err(); !fault.Is(err, fault.SessionGone) {
			t.Errorf("%s: a further request: got the error %v, want the reason %v", name, err, fault.SessionGone)
		}
		must(t, first.Finish("stop"))
		must(t, first.Usage(11, 2))
		must(t, first.Done())
		must(t, first.End(200, true))
		if end := streamed.rest(); end.finished == nil {
			t.Errorf("%s: the stream under way: %v", name, end.failed)
		}
		select {
		case <-a.Closed():
			t.Errorf("%s: the connection closed under a request: %v", name, a.Farewell())
		default:
		}
		fakeagent.Answer("Hello world")(second)
		if end := whole.rest(); end.finished == nil {
			t.Errorf("%s: the whole answer under way: %v", name, end.failed)
		}
		wait(t, "the end of the connection", a.Closed())
		if why := a.Farewell(); why.GetCode() != code {
			t.Errorf("%s: farewell %v, want %s", name, why, code)
		}
		select {
		case r := <-a.Requests():
			t.Errorf("%s: %s was sent behind it", name, r.Open.GetRequestId())
		default:
		}
		for range 2 {
			paid++
			e := usage.next(paid)
			switch {
			case e.GetEnding() != eventsv1.Ending_ENDING_COMPLETED:
				t.Errorf("%s: usage: e.GetEnding(): got %v, want %v", name, e.GetEnding(), eventsv1.Ending_ENDING_COMPLETED)
			case e.GetBillableCompletionTokens() == 0:
				t.Errorf("%s: usage: e.GetBillableCompletionTokens(): got 0, want any but 0", name)
			case e.GetBillablePromptTokens() == 0:
				t.Errorf("%s: usage: e.GetBillablePromptTokens(): got 0, want any but 0", name)
			}
		}
		for range 3 { // a refused attempt says nothing of the provider
			got := wait(t, "a report", outcomes).GetOutcome()
			if got != eventsv1.AttemptOutcome_ATTEMPT_OUTCOME_SERVED &&
				got != eventsv1.AttemptOutcome_ATTEMPT_OUTCOME_CANCELLED {
				t.Errorf("%s: an attempt counts as %v", name, got)
			}
		}
	}
}

func TestV1RequestsUnderWayOutliveAnExpulsion(t *testing.T) {
	t.Parallel()
	w := setupV1(t)
	usage := w.listen()
	paid := 0
	for name, expel := range expulsions(w.world) {
		a := w.join(w.active(), fakeagent.V1Options{})
		open := w.order(a, true)
		call := w.call(open)
		r := a.request()
		must(t, r.Text("Hello world"))
		call.content()
		further := w.order(a, true)
		_, number := expel(a.who)
		if err := w.call(further).err(); !fault.Is(err, fault.SessionGone) {
			t.Errorf("%s: a further request: got the error %v, want the reason %v", name, err, fault.SessionGone)
		}
		must(t, r.Text(" and more"))
		must(t, r.Finish("stop"))
		must(t, r.Usage(11, 4))
		must(t, r.Done())
		if heard := a.heard("error"); len(heard) > 0 {
			t.Errorf("%s: told of it under a request: got %d, want 0", name, len(heard))
		}
		must(t, r.End())
		if end := call.rest(); end.finished == nil {
			t.Errorf("%s: the stream under way: %v", name, end.failed)
		}
		a.until(name+": it is told", func(fakeagent.V1State) bool { return len(a.heard("error")) > 0 })
		if e := decode[struct{ Code int }](t, a.heard("error")[0]); e.Code != number {
			t.Errorf("%s: code: got %d, want %d", name, e.Code, number)
		}
		paid++
		if e := usage.next(paid); e.GetEnding() != eventsv1.Ending_ENDING_COMPLETED {
			t.Errorf("%s: usage: e.GetEnding(): got %v, want %v", name, e.GetEnding(), eventsv1.Ending_ENDING_COMPLETED)
		} else if e.GetBillableCompletionTokens() == 0 {
			t.Errorf("%s: usage: e.GetBillableCompletionTokens(): got 0, want any but 0", name)
		}
	}
}
