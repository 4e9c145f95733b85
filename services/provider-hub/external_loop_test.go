package providerhub_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"svc.internal/pkg/fault"
	eventsv1 "svc.internal/proto/svc/events/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
)

// An endpoint that is the marketplace's own API would have its requests sent to itself.
func TestAnEndpointThatIsTheMarketplaceIsNotServed(t *testing.T) {
	t.Parallel()
	v := newVendor(t)
	v.models = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Svc-Request-Id", "1")
		serveModels("tiny-local")(w, r)
	}
	f := setupFarm(t, v)
	f.eventually("the owner sees it", func() error {
		got, err := f.endpoints.GetExternalEndpoint(t.Context(), &hubv1.GetExternalEndpointRequest{
			ProviderId: f.member.id, EndpointId: f.id})
		if err != nil {
			return err
		}
		if e := got.GetEndpoint(); e.GetState() != "unhealthy" || e.GetLastError() != "unexpected_answer" {
			return errors.New(e.GetState() + " " + e.GetLastError())
		}
		return nil
	})
}

func TestAnAnswerOfTheMarketplaceIsNoAnswerOfAServer(t *testing.T) {
	t.Parallel()
	v := newVendor(t)
	answer := v.chat
	v.chat = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Svc-Request-Id", "1")
		answer(w, r)
	}
	f := setupFarm(t, v)
	r := f.call(f.ask(f.session("the endpoint is up", healthy), true)).rest()
	if r.failed == nil {
		t.Error("got no failure, want one")
	}
}

// A server that has nothing but a list of models, which is a file, must not be counted as up.
func TestAServerWithAGoodListThatFailsItsRequestsIsNotUp(t *testing.T) {
	t.Parallel()
	v := newVendor(t)
	v.chat = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }
	f := setupFarm(t, v)
	s := f.session("the endpoint is up", healthy)
	for range 8 {
		if r := f.call(f.ask(s, true)).rest(); r.failed == nil {
			t.Fatal("a request: got no failure, want one")
		}
	}
	f.eventually("the session is gone", func() error {
		if err := f.call(f.ask(s, true)).err(); !fault.Is(err, fault.SessionGone) {
			return fmt.Errorf("got the error %w, want the reason %v", err, fault.SessionGone)
		}
		return nil
	})
	seen := func() error {
		got, err := f.endpoints.GetExternalEndpoint(t.Context(), &hubv1.GetExternalEndpointRequest{
			ProviderId: f.member.id, EndpointId: f.id})
		if err != nil {
			return err
		}
		if e := got.GetEndpoint(); e.GetState() != "unhealthy" || e.GetLastError() != "requests_failing" {
			return errors.New(e.GetState() + " " + e.GetLastError())
		}
		return nil
	}
	f.eventually("the owner sees it", seen)
	name := "Other"
	_, err := f.endpoints.UpdateExternalEndpoint(t.Context(), &hubv1.UpdateExternalEndpointRequest{
		ProviderId: f.member.id, EndpointId: f.id, Name: &name})
	must(t, err)
	f.eventually("the owner sees it under another name, too", seen)
}

// Consumers choose what is in a call, and some content makes an engine fail. That must not take a
// rival's server out of service.
func TestACallThatOneConsumerMakesFailTakesNoServerOutOfService(t *testing.T) {
	t.Parallel()
	v := newVendor(t)
	answer, asked := v.chat, make(chan struct{}, 16)
	v.chat = func(w http.ResponseWriter, r *http.Request) {
		sent, _ := io.ReadAll(r.Body)
		switch {
		case strings.Contains(string(sent), "poison"):
			w.WriteHeader(http.StatusInternalServerError)
		case strings.Contains(string(sent), `"max_tokens":1}`):
			if !strings.Contains(string(sent), `"tiny-local"`) {
				t.Errorf("the hub's own call: got %s, want the server's name of the model", sent)
			}
			asked <- struct{}{}
			_, _ = io.WriteString(w, "{}")
		default:
			answer(w, r)
		}
	}
	f := setupFarm(t, v)
	s := f.session("the endpoint is up", healthy)
	poison := func() {
		open := f.ask(s, true)
		open.Body = []byte(strings.Replace(string(open.GetBody()), "hi", "poison", 1))
		if r := f.call(open).rest(); r.failed == nil {
			t.Fatal("poison: got no failure, want one")
		}
	}
	for range 8 {
		poison()
	}
	wait(t, "the hub's own call", asked)
	for range 32 { // and the session outlives all further ones
		poison()
	}
	if r := f.call(f.ask(s, true)).rest(); r.failed != nil {
		t.Errorf("afterwards: got the failure %v, want none", r.failed)
	}
	if got := len(asked); got > 32/8 {
		t.Errorf("further calls of the hub's own: got %d, want one for 8 failures", got)
	}
}

// A proxy may hide every sign of the marketplace, so that a request comes back as a consumer's, over and
// over. Each round holds a slot of the endpoint.
func TestALoopIsNoDeeperThanTheCapacityOfItsEndpoint(t *testing.T) {
	t.Parallel()
	v := newVendor(t)
	answer := v.chat
	var f *farm
	var up *eventsv1.Session
	var deep, deepest atomic.Int64
	v.chat = func(w http.ResponseWriter, r *http.Request) {
		deepest.Store(max(deepest.Load(), deep.Add(1)))
		defer deep.Add(-1)
		if again := f.call(f.ask(up, true)); again.err() != nil {
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		answer(w, r)
	}
	f = setupFarm(t, v)
	up = f.session("the endpoint is up", healthy)
	f.call(f.ask(up, true)).rest()
	if got := deepest.Load(); got != 4 {
		t.Errorf("rounds: got %d, want the endpoint's capacity, 4", got)
	}
}
