package providerhub_test

import (
	"errors"
	"net/http"
	"testing"

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
