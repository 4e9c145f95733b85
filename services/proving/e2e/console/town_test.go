package console

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"testing"
	"time"

	"svc.internal/pkg/fakeengine"
	"svc.internal/pkg/node"
	"svc.internal/services/proving/internal/peers"
	"svc.internal/services/proving/internal/trial"
)

// TestProvidersArePaidAndAppealInABrowser runs the browser's tests of how providers get through, earn, are paid and
// appeal: on a marketplace with chains, whose time a test moves. CONSOLE_TESTS=town chooses it alone.
func TestProvidersArePaidAndAppealInABrowser(t *testing.T) {
	if testing.Short() || !isChosen(town) {
		t.Skip("it takes minutes, and was not chosen")
	}
	chromium := needBrowser(t)
	certified := trial.NewPeers(t)
	c := trial.StartTown(t, trial.Dir(t), slices.Concat(certified.Environ(), visited(), []string{
		"SVC_HUB_DEVELOPMENT_ENDPOINTS=true", "SVC_SETTLEMENT_PAYOUTS_ALONE_USD=12"})...)
	engine := fakeengine.New(t)
	engine.Script(trial.Dear, fakeengine.Behaviour{})
	s := &stage{town: c, peers: certified, engine: engine.URL, acts: make(chan func())}
	server := httptest.NewServer(s.handler(t))
	t.Cleanup(server.Close)
	// The flows follow each other, so the first one that fails ends them.
	browse(t, c.Market, s.acts, append(named(), "e2e/"+town+"/", "--bail", "1"),
		"CHROMIUM="+chromium, "SVC_STAGE_URL="+server.URL, "SVC_ENGINE_URL="+engine.URL+"/v1", "SVC_MODEL="+trial.Dear,
		"SVC_INVITATION_TOWN="+invitation(t, c.Market, "town.admin"))
}

// stage brings about for the browser's tests what no page does: that an agent runs, that time passes,
// and that the verifier finds something.
type stage struct {
	town  *trial.Town
	peers *trial.Peers
	// engine is where the providers' agents ask.
	engine string
	// acts are what the test itself does, because nobody else may fail it.
	acts chan func()
}

func (s *stage) handler(t *testing.T) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /pass/{hours}", s.does(t, func(r *http.Request) any {
		hours, err := strconv.Atoi(r.PathValue("hours"))
		if err != nil {
			t.Fatalf("hours: %v", err)
		}
		s.town.Pass(t, time.Duration(hours)*time.Hour)
		return nil
	}))
	mux.HandleFunc("POST /connect/{provider}/{key}", s.does(t, func(r *http.Request) any {
		p := &trial.Provider{ID: r.PathValue("provider"), Key: r.PathValue("key"), Leave: func() {}}
		models := r.URL.Query()["model"]
		if len(models) == 0 {
			models = []string{trial.Dear}
		}
		if window, err := strconv.Atoi(r.URL.Query().Get("window")); err == nil {
			s.town.ConnectWithin(t, p, s.engine, window, models...)
		} else {
			s.town.Connect(t, p, s.engine, models...)
		}
		return nil
	}))
	// An invitation of the past has expired once it is over.
	mux.HandleFunc("POST /invite/{name}", s.does(t, func(r *http.Request) any {
		return invitation(t, s.town.Market, r.PathValue("name"))
	}))
	mux.HandleFunc("POST /catch-up", s.does(t, func(*http.Request) any { s.town.CatchUp(t); return nil }))
	mux.HandleFunc("POST /next-day", s.does(t, func(*http.Request) any { return s.town.NextDay(t) }))
	mux.HandleFunc("POST /penalty/{provider}", s.does(t, func(r *http.Request) any {
		penalty, err := peers.Penalty(r.PathValue("provider"), cmp.Or(r.URL.Query().Get("model"), trial.Dear), 1_000)
		if err != nil {
			t.Fatal(err)
		}
		if err := peers.OpenPenalty(r.Context(), s.peers.Dial(t, node.Settlement, node.Verifier), penalty); err != nil {
			t.Fatal(err)
		}
		return penalty.GetPenaltyId()
	}))
	return mux
}

// does has the test act, and answers with what the act returns.
func (s *stage) does(t *testing.T, act func(*http.Request) any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var answer any
		done := make(chan struct{})
		acts := s.acts
		for acting := true; acting; {
			select {
			case acts <- func() { defer close(done); answer = act(r) }:
				acts = nil // once
			case <-done:
				acting = false
			case <-t.Context().Done():
				http.Error(w, "the test is over", http.StatusServiceUnavailable)
				return
			}
		}
		text, err := json.Marshal(answer)
		if err != nil {
			http.Error(w, fmt.Sprint(err), http.StatusInternalServerError)
			return
		}
		_, _ = w.Write(text) // the browser's test fails without it
	}
}
