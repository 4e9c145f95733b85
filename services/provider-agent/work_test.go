package provideragent

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"svc.internal/pkg/fakeengine"
	agentv2 "svc.internal/proto/svc/agent/v2"
	"svc.internal/services/provider-agent/internal/connection/hubtest"
	"svc.internal/services/provider-agent/internal/endpoint"
	"svc.internal/services/provider-agent/internal/worklog"
)

// The agent counts what the platform pays: chats of which content was sent, by their receipts, and
// answers of other endpoints. Challenges have no proof, and are not paid.
func TestWhatIsServedIsCountedForItsOwner(t *testing.T) {
	engine := fakeengine.New(t)
	engine.Script("m", fakeengine.Behaviour{})
	engine.Script("full", fakeengine.Behaviour{Status: 503})
	hub, dir := hubtest.New(t), t.TempDir()
	cfg := DefaultConfig()
	cfg.WSURL, cfg.Key, cfg.StateDir, cfg.Capabilities = hub.URL, providerKey(t), dir, endpoint.Capabilities()
	cfg.Models = []Model{{ModelID: "m", EngineURL: engine.URL}, {ModelID: "full", EngineURL: engine.URL}}
	agent, err := New(cfg, Deps{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- agent.Run(ctx) }()
	s := hub.AcceptLive()
	ask := func(model, id string, change func(*agentv2.Open)) {
		t.Helper()
		body := []byte(strings.TrimSuffix(chatOf(model), "}") + `,"input":"hi"}`)
		open := hubtest.OpenOf(model, body)
		open.RequestId = "0190a000-0000-7000-8000-00000000000" + id
		change(open)
		st := s.OpenOnly(open)
		st.SendBody(body)
		st.Answer()
	}
	proven := func(o *agentv2.Open) { o.Proof = []byte("proof") }
	ask("m", "1", proven)
	ask("m", "2", func(*agentv2.Open) {}) // a challenge
	ask("full", "3", proven)
	ask("m", "4", func(o *agentv2.Open) { o.Endpoint = agentv2.Endpoint_ENDPOINT_EMBEDDINGS })
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	days, err := worklog.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(days) != 1 {
		t.Fatalf("days: got %v, want one", days)
	}
	days[0].Day, days[0].Late = "", 0 // whatever the time is
	const want = "{ 2 0 0 map[m:{2 7 5}]}"
	if got := fmt.Sprint(days[0]); got != want {
		t.Errorf("the day: got %s, want %s", got, want)
	}
}
