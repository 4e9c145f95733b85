package providerhub_test

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	eventsv1 "svc.internal/proto/svc/events/v1"
)

// ofAccount is what a server says of the account behind its key.
const ofAccount = "org-4711 has no credit left"

func TestWhatAServerSaysOfItsAccountIsPassedOnToNobody(t *testing.T) {
	t.Parallel()
	v := newVendor(t)
	var status atomic.Int64
	answer := v.chat
	v.chat = func(w http.ResponseWriter, r *http.Request) {
		if status.Load() == http.StatusOK {
			answer(w, r)
			return
		}
		code := "x"
		if status.Load() == http.StatusBadRequest { // else a refusal of the content
			code = "invalid_api_key"
		}
		w.WriteHeader(int(status.Load()))
		_, _ = io.WriteString(w, `{"error":{"message":"`+ofAccount+`","type":"x","code":"`+code+`"}}`)
	}
	f := setupFarm(t, v)
	s := f.session("the endpoint is up", healthy)
	for _, code := range []int64{400, 401, 402, 403, 404, 405, 407, 408, 429, 500, 502, 503, 529} {
		status.Store(code)
		r := f.call(f.ask(s, true)).rest()
		if r.failed == nil {
			t.Fatalf("%d: got no failure, want one", code)
		}
		if got := r.failed.String(); strings.Contains(got, ofAccount) {
			t.Errorf("%d: got %s, want nothing of the account", code, got)
		}
		if !r.failed.GetRetryable() {
			t.Errorf("%d: got a failure that is not to be retried elsewhere", code)
		}
		// A good answer in between, because failures in a row would end the session.
		status.Store(http.StatusOK)
		f.call(f.ask(s, true)).rest()
	}
}

func TestAServerThatAsksForAPauseIsLeftAlone(t *testing.T) {
	t.Parallel()
	v := newVendor(t)
	var busy atomic.Bool
	answer := v.chat
	v.chat = func(w http.ResponseWriter, r *http.Request) {
		if busy.Load() {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		answer(w, r)
	}
	f := setupFarm(t, v)
	s := f.session("the endpoint is up", healthy)
	busy.Store(true)
	if r := f.call(f.ask(s, true)).rest(); !r.failed.GetBusy() {
		t.Errorf("got the failure %v, want busy", r.failed)
	}
	f.session("its model rests", func(s *eventsv1.Session) bool {
		return len(s.GetModels()) == 1 && !s.GetModels()[0].GetHealthy()
	})
	busy.Store(false)
	s = f.session("its model is back", healthy)
	if r := f.call(f.ask(s, true)).rest(); r.failed != nil {
		t.Errorf("afterwards: got the failure %v, want none", r.failed)
	}
}
