//go:build watch

package watch

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"testing"
	"time"

	"svc.internal/pkg/fakeengine"
	"svc.internal/services/proving/internal/fleet"
	"svc.internal/services/proving/internal/trial"
)

// rarely has users, owners and engines do what seldom happens. Each shows a panel that is empty else.
func rarely(t *testing.T, town *trial.Town, s *server, o *trial.Owner, engine *fakeengine.Engine) {
	t.Helper()
	asksItself(t, town, o, engine)
	s.shows(t, "svc_billing_earnings_held_total")
	answersTooMuch(t, town, engine)
	s.shows(t, "svc_provider_hub_answers_excess_total")
	isWarmed(t, town, s, o)
	s.shows(t, "svc_provider_hub_warmups_total")
	hearsNothing(t, town)
	s.shows(t, "svc_billing_webhook_events_dropped_total")
	isMoved(t, town)
	s.shows(t, "svc_provider_hub_providers_swept_total")
	opensTooMany(t, town)
	s.shows(t, "svc_edge_gateway_connections_refused_total")
}

// asksItself has an owner ask its own provider, and pay with credit that an operator granted. So the provider's
// earnings of the request are held.
func asksItself(t *testing.T, town *trial.Town, o *trial.Owner, engine *fakeengine.Engine) {
	t.Helper()
	engine.Script(trial.Dear, fakeengine.Behaviour{})
	me := town.Wants(t, http.StatusOK, http.MethodGet, "/api/v1/user/me", o.Token, "")
	account := "/api/v1/admin/accounts/" + trial.Text(t, me, "user", "account_id")
	town.Admin(t, http.MethodPost, account+"/credit", `{"amount_usd":"100","idempotency_key":"granted","memo":"test"}`)
	key := trial.Text(t, town.Admin(t, http.MethodPost, account+"/keys", `{"name":"own"}`), "api_key")
	town.Wants(t, http.StatusOK, http.MethodPost, trial.ChatPath, key, trial.Chat(trial.Dear, ""))
}

// answersTooMuch has an engine go on after the tokens that it was asked for.
func answersTooMuch(t *testing.T, town *trial.Town, engine *fakeengine.Engine) {
	t.Helper()
	engine.Script(trial.Dear, fakeengine.Behaviour{Tokens: fakeengine.Words(500)})
	_, key := town.Consumer(t, "1000")
	status, _, body := town.Call(t, http.MethodPost, trial.ChatPath, key, trial.Chat(trial.Dear, `,"max_tokens":2`))
	if status < http.StatusInternalServerError {
		t.Errorf("an answer that is longer than was asked for: got %d %s, want 500 or more", status, body)
	}
}

// isWarmed has an operator ask for a cold model, which another agent of the owner's loads. The operator asks again
// until the hub knows that agent.
func isWarmed(t *testing.T, town *trial.Town, s *server, o *trial.Owner) {
	t.Helper()
	const cold = "test/cold"
	town.PutModel(t, cold)
	engine := fakeengine.New(t)
	engine.Script(cold, fakeengine.Behaviour{})
	town.ConnectWarm(t, o.Provider, engine.URL, cold)
	trial.Until(t, "the model is loaded", func() bool {
		town.Admin(t, http.MethodPost, "/api/v1/admin/warmups", `{"model_id":"`+cold+`"}`)
		return len(s.query(t, `svc_provider_hub_warmups_total{outcome="loaded"} > 0`)) > 0
	})
}

// hearsNothing gives an owner as many endpoints for events as it may have, of which none answers. Meanwhile operators
// suspend its provider again and again, until more events wait than may.
func hearsNothing(t *testing.T, town *trial.Town) {
	t.Helper()
	const endpoints, mayWait = 10, 1000
	o := town.NewOwner(t, "eve", 0xe1)
	away := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(away.Close)
	for range endpoints {
		does(t, town, "/api/v1/user/me/webhooks", o.Token, `{"url":"`+away.URL+`"}`)
	}
	for i := range mayWait/endpoints + 1 {
		to := "SUSPENDED"
		if i%2 == 1 {
			to = "PENDING"
		}
		town.Admin(t, http.MethodPost, "/api/v1/admin/providers/"+o.ID+"/status", `{"status":"PROVIDER_STATUS_`+to+`"}`)
	}
}

// isMoved has a provider without a user propose where its earnings go. Two days pass, after which they go there without
// a further word of anybody.
func isMoved(t *testing.T, town *trial.Town) {
	t.Helper()
	p := town.Provider(t, "moves")
	town.Wants(t, http.StatusOK, http.MethodPut, "/api/v1/provider/me", p.Key,
		`{"beneficiary_address":"0x8617E340B3D01FA5F11F306F4090FD50E238070D"}`)
	town.Pass(t, 48*time.Hour)
}

// maxConnections is how many connections a gateway of this fleet takes from one network.
const maxConnections = 100

// fewConnections has gateways take maxConnections from one network.
func fewConnections(c *fleet.Config) {
	own(c, fleet.Gateway, "gateway", object{"max_connections_of_network": maxConnections})
}

// opensTooMany opens one connection more to a gateway than it takes, and waits until the gateway has closed it. The
// others stay open until then, because a gateway that is busy takes them late.
func opensTooMany(t *testing.T, town *trial.Town) {
	t.Helper()
	base, err := url.Parse(town.Base())
	if err != nil {
		t.Fatal(err)
	}
	var last net.Conn
	for range maxConnections + 1 {
		if last, err = net.Dial("tcp", base.Host); err != nil { //nolint:noctx // it is on loopback
			t.Fatal(err)
		}
		defer last.Close()
	}
	if err := last.SetReadDeadline(time.Now().Add(trial.Patience)); err != nil {
		t.Fatal(err)
	}
	switch _, err := last.Read(make([]byte, 1)); {
	case err == nil:
		t.Error("one connection too many: got bytes of it, want it closed")
	case errors.Is(err, os.ErrDeadlineExceeded):
		t.Error("one connection too many: got it open, want it closed")
	}
}
