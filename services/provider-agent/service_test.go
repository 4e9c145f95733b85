package provideragent

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/config"
	"svc.internal/pkg/fakeengine"
	"svc.internal/pkg/tinylm"
	agentv2 "svc.internal/proto/svc/agent/v2"
	"svc.internal/services/provider-agent/internal/connection/hubtest"
)

func providerKey(t testing.TB) config.Secret {
	t.Helper()
	key, err := apikey.Generate(apikey.Provider, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return config.NewSecret(key)
}

// start runs an agent that serves models with a hub.
func start(t *testing.T, models ...Model) (*Agent, *hubtest.Hub, *bytes.Buffer) {
	t.Helper()
	return startWith(t, func(*Config) {}, models...)
}

// startWith is start with another configuration.
func startWith(t *testing.T, change func(*Config), models ...Model) (*Agent, *hubtest.Hub, *bytes.Buffer) {
	t.Helper()
	hub, log := hubtest.New(t), &bytes.Buffer{}
	cfg := DefaultConfig()
	cfg.WSURL, cfg.Key, cfg.StateDir, cfg.Models = strings.TrimSuffix(hub.URL, "/ws"), providerKey(t), t.TempDir(), models
	change(&cfg)
	agent, err := New(cfg, Deps{Log: slog.New(slog.NewTextHandler(&locked{w: log}, nil))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := agent.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return agent, hub, log
}

type locked struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

func TestRequestGoesThroughTheAgentUnchanged(t *testing.T) {
	engine := fakeengine.New(t)
	engine.Script("local", fakeengine.Behaviour{Tokens: fakeengine.Words(500)})
	keyFile := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(keyFile, []byte("engine-key\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	agent, hub, _ := start(t, Model{ModelID: "m", EngineURL: engine.URL + "/v1", LocalModel: "local", ContextLength: 8192,
		APIKeyFile: keyFile})
	s := hub.AcceptLive()
	<-agent.Registered()
	if err := agent.Ready(t.Context()); err != nil {
		t.Errorf("not ready: %v", err)
	}
	if m := s.Register.GetModels()[0]; !m.GetHealthy() || m.GetContextLength() != 8192 || m.GetCapacity() != 10 ||
		m.GetEngineModel() != "local" {
		t.Errorf("the offer is %v", m)
	}
	const text = `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}],` +
		`"stream_options":{"include_usage":true}}`
	local := strings.Replace(text, `"m"`, `"local"`, 1)
	resp, err := http.Post(engine.URL+"/v1/chat/completions", "application/json", strings.NewReader(local))
	if err != nil {
		t.Fatal(err)
	}
	want, err := io.ReadAll(resp.Body)
	if err != nil || resp.Body.Close() != nil {
		t.Fatal(err)
	}
	got, end := s.Open("m", text).Answer()
	if !bytes.Equal(got, want) || !end.GetComplete() || end.GetEngineStatus() != 200 {
		t.Errorf("END is %v behind\n%.200q\nwant\n%.200q", end, got, want)
	}
	seen := engine.Requests()[1]
	if string(seen.Body) != local || seen.Header.Get("Authorization") != "Bearer engine-key" ||
		seen.Header.Get("X-Request-ID") != hubtest.OpenOf("m", nil).GetRequestId() {
		t.Errorf("the engine got %s with %v", seen.Body, seen.Header)
	}
}

func TestEndingsOfTheEngineReachTheHub(t *testing.T) {
	engine := fakeengine.New(t)
	var models []Model
	for _, name := range []string{"status-400", "status-500", "reset", "no-done", "hang"} {
		models = append(models, Model{ModelID: name, EngineURL: engine.URL + "/v1"})
	}
	_, hub, _ := start(t, models...)
	s := hub.AcceptLive()
	request := func(model string) *hubtest.Stream { return s.Open(model, `{"model":"`+model+`","stream":true}`) }
	for model, want := range map[string]*agentv2.End{
		"status-400": {EngineStatus: 400, Complete: true},
		"status-500": {EngineStatus: 500, Complete: true},
		"reset":      {EngineStatus: 200},
		"no-done":    {EngineStatus: 200, Complete: true},
	} {
		body, end := request(model).Answer()
		if end.GetEngineStatus() != want.GetEngineStatus() || end.GetComplete() != want.GetComplete() ||
			(end.GetError() == "") != want.GetComplete() || len(body) == 0 {
			t.Errorf("%s: END is %v behind %q", model, end, body)
		}
	}
	hanging := request("hang")
	hanging.Next()
	hanging.Cancel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if r, err := engine.WaitCancelled(ctx); err != nil || r.Model != "hang" {
		t.Errorf("the engine heard of no cancel: %v %v", r.Model, err)
	}
	if _, end := hanging.Answer(); end.GetComplete() {
		t.Errorf("END of the cancelled request is %v", end)
	}
}

func TestUnhealthyModelIsOfferedAsSuch(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	agent, hub, log := start(t, Model{ModelID: "m", EngineURL: gone.URL})
	s := hub.AcceptLive()
	<-agent.Registered()
	if s.Register.GetModels()[0].GetHealthy() {
		t.Error("the offer is healthy")
	}
	if err := agent.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("Ready says %v", err)
	}
	if _, end := s.Open("m", `{"model":"m"}`).Answer(); end.GetEngineStatus() != 0 || end.GetComplete() ||
		end.GetError() == "" {
		t.Errorf("END is %v", end)
	}
	_ = log
}

func TestTinyLanguageModelAnswersThroughTheAgent(t *testing.T) {
	model, err := tinylm.Load()
	if err != nil {
		t.Fatal(err)
	}
	engine := httptest.NewServer(tinylm.NewServer(model, tinylm.Options{}))
	t.Cleanup(engine.Close)
	_, hub, _ := start(t, Model{ModelID: "demo/tiny", EngineURL: engine.URL + "/v1", LocalModel: tinylm.ModelName})
	s := hub.AcceptLive()
	if !s.Register.GetModels()[0].GetHealthy() {
		t.Error("the engine does not list its model")
	}
	body, end := s.Open("demo/tiny", `{"model":"demo/tiny","messages":[{"role":"user","content":"Hello!"}]}`).Answer()
	var answer struct {
		Choices []struct{ Message struct{ Content string } }
	}
	if err := json.Unmarshal(body, &answer); err != nil || !end.GetComplete() || len(answer.Choices) != 1 ||
		answer.Choices[0].Message.Content == "" {
		t.Errorf("END is %v behind %s (%v)", end, body, err)
	}
}

func TestNodeKeepsItsNameOverRestarts(t *testing.T) {
	cfg := DefaultConfig()
	cfg.WSURL, cfg.Key, cfg.StateDir, cfg.Models = "wss://hub.invalid", providerKey(t), t.TempDir(),
		[]Model{{ModelID: "m", EngineURL: "http://h"}}
	first, err := New(cfg, Deps{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(cfg, Deps{}); err == nil || !strings.Contains(err.Error(), "another agent is running") {
		t.Errorf("a second agent beside it is told %v", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := first.Run(ended); err != nil {
		t.Fatal(err)
	}
	again, err := New(cfg, Deps{})
	if err != nil || again.NodeID() != first.NodeID() {
		t.Errorf("the second is %q, %v", again.NodeID(), err)
	}
	cfg.StateDir = ""
	if passing, err := New(cfg, Deps{}); err != nil || passing.NodeID() == first.NodeID() {
		t.Errorf("without a folder: %v", err)
	}
}

func TestAllFaultsOfTheConfigurationAreTold(t *testing.T) {
	_, err := New(Config{Models: []Model{{ModelID: "m", EngineURL: "x", APIKeyFile: "/nowhere"}}, NodeName: "a\nb",
		MaxRequestBytes: -1, Capabilities: []string{"telepathy"}}, Deps{})
	for _, want := range []string{"hub's address", "provider key", "node name", "largest request", "telepathy",
		"probe interval", "engine_url", "engine key of m"} {
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%q is missing in\n%v", want, err)
		}
	}
}

func TestEngineKeyHasToBeOneLine(t *testing.T) {
	for _, text := range []string{"", "\n", "one\ntwo"} {
		file := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := targetsOf([]Model{{ModelID: "m", APIKeyFile: file}}); err == nil ||
			strings.Contains(err.Error(), "two") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestAddressOfTheUpgrade(t *testing.T) {
	for text, want := range map[string]string{
		"ws://h:1":         "ws://h:1/ws",
		"ws://h:1/":        "ws://h:1/ws",
		"ws://h/ws":        "ws://h/ws",
		"wss://h/prefix":   "wss://h/prefix/ws",
		"wss://h/a/ws":     "wss://h/a/ws",
		"wss://h/a/ws/":    "wss://h/a/ws/",
		"wss://h/news":     "wss://h/news/ws",
		"":                 "",
		"http://h":         "",
		"ws://":            "",
		"ws://u:p@h":       "",
		"ws://h?key=value": "",
		"ws://h:port":      "",
	} {
		if got, err := hubAddress(text, true); got != want || (err == nil) != (want != "") {
			t.Errorf("%q becomes %q, %v; want %q", text, got, err, want)
		}
	}
}

func TestAHubOffThisMachineIsNotDialledInTheClear(t *testing.T) {
	for text, want := range map[string]bool{
		"wss://hub.example": true, "ws://127.0.0.1:1": true, "ws://127.9.9.9:1": true, "ws://[::1]:1": true,
		"ws://localhost:1":          true,
		"ws://[::ffff:127.0.0.1]:1": true,
		"ws://hub.example":          false, "ws://10.0.0.1:1": false, "ws://localhost.example": false,
		"ws://[2001:db8::1]:1": false,
		"ws://0x7f.1":          false, "ws://127.0.0.1.example": false, "ws://[::]:1": false, "ws://0.0.0.0:1": false,
	} {
		if _, err := hubAddress(text, false); (err == nil) != want {
			t.Errorf("%s: %v, want it taken: %v", text, err, want)
		}
		if _, err := hubAddress(text, true); err != nil {
			t.Errorf("%s, allowed: %v", text, err)
		}
	}
	cfg := DefaultConfig()
	cfg.WSURL, cfg.Key, cfg.Models = "ws://hub.example", providerKey(t), []Model{{ModelID: "m", EngineURL: "http://h"}}
	if _, err := New(cfg, Deps{}); err == nil || !strings.Contains(err.Error(), "SVC_ALLOW_PLAINTEXT") {
		t.Errorf("the owner is told %v", err)
	}
}

func TestCheckFindsWhatDoesNotServe(t *testing.T) {
	engine := fakeengine.New(t)
	engine.Script("here", fakeengine.Behaviour{})
	findings, err := Check(t.Context(), []Model{
		{ModelID: "here", EngineURL: engine.URL + "/v1", ContextLength: 5}, {ModelID: "there", EngineURL: engine.URL + "/v1"},
	}, Deps{})
	if err != nil || findings[0].Fault != "" || findings[0].ContextLength != 5 ||
		!strings.Contains(findings[1].Fault, "does not list") {
		t.Errorf("%+v %v", findings, err)
	}
	if _, err := Check(t.Context(), nil, Deps{}); err == nil {
		t.Error("no models are accepted")
	}
}
