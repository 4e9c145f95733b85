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
	"svc.internal/services/provider-agent/internal/endpoint"
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
func start(t *testing.T, models ...Model) (*Agent, *hubtest.Hub, *logBook) {
	t.Helper()
	return startWith(t, func(*Config) {}, models...)
}

// startWith is start with another configuration.
func startWith(t *testing.T, change func(*Config), models ...Model) (*Agent, *hubtest.Hub, *logBook) {
	t.Helper()
	hub, log := hubtest.New(t), &logBook{}
	cfg := DefaultConfig()
	cfg.WSURL, cfg.Key, cfg.StateDir, cfg.Models = strings.TrimSuffix(hub.URL, "/ws"), providerKey(t), t.TempDir(), models
	// What the owner declares is not asked for, so the engine gets the hub's requests only.
	cfg.Capabilities = append(endpoint.Capabilities(), endpoint.Logprobs)
	change(&cfg)
	agent, err := New(cfg, Deps{Log: slog.New(slog.NewTextHandler(log, nil))})
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

// logBook keeps the log of an agent that is running.
type logBook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logBook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logBook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
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
	switch m := s.Register.GetModels()[0]; {
	case !m.GetHealthy():
		t.Errorf("the offer: m.GetHealthy(): got false, want true, with %v", m)
	case m.GetContextLength() != 8192:
		t.Errorf("the offer: m.GetContextLength(): got %d, want 8192", m.GetContextLength())
	case m.GetCapacity() != 10:
		t.Errorf("the offer: m.GetCapacity(): got %d, want 10", m.GetCapacity())
	case m.GetEngineModel() != "local":
		t.Errorf(`the offer: m.GetEngineModel(): got %q, want "local"`, m.GetEngineModel())
	}
	const text = `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}],` +
		`"stream_options":{"include_usage":true}}`
	local := strings.Replace(text, `"m"`, `"local"`, 1)
	resp, err := http.Post(engine.URL+"/v1/chat/completions", "application/json", strings.NewReader(local))
	if err != nil {
		t.Fatal(err)
	}
	want, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("got the error %v, want none", err)
	}
	if got := resp.Body.Close(); got != nil {
		t.Fatalf("resp.Body.Close(): got the error %v, want none", got)
	}
	got, end := s.Open("m", text).Answer()
	switch {
	case !bytes.Equal(got, want):
		t.Errorf(`s.Open("m", text).Answer(): got %q, want %q`, got, want)
	case !end.GetComplete():
		t.Errorf("end.GetComplete(): got false, want true, with %v", end)
	case end.GetEngineStatus() != 200:
		t.Errorf("end.GetEngineStatus(): got %d, want 200", end.GetEngineStatus())
	}
	seen := engine.Requests()[1]
	if string(seen.Body) != local {
		t.Errorf("the engine: seen.Body: got %q, want %q", string(seen.Body), local)
	} else if seen.Header.Get("Authorization") != "Bearer engine-key" {
		t.Errorf(`seen.Header.Get("Authorization"): got %q, want "Bearer engine-key"`, seen.Header.Get("Authorization"))
	} else if wanted := hubtest.OpenOf("m", nil).GetRequestId(); seen.Header.Get("X-Request-ID") != wanted {
		t.Errorf(`seen.Header.Get("X-Request-ID"): got %q, want %q`, seen.Header.Get("X-Request-ID"), wanted)
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
		switch {
		case end.GetEngineStatus() != want.GetEngineStatus():
			t.Errorf("%s: END: end.GetEngineStatus(): got %d, want %d, with %q", model, end.GetEngineStatus(),
				want.GetEngineStatus(), body)
		case end.GetComplete() != want.GetComplete():
			t.Errorf("%s: END: end.GetComplete(): got %t, want %t, with %q", model, end.GetComplete(), want.GetComplete(), body)
		case (end.GetError() == "") != want.GetComplete():
			t.Errorf(`%s: END: end.GetError() == "": got %t, want %t, with %q`, model, end.GetError() == "", want.GetComplete(),
				body)
		case len(body) == 0:
			t.Errorf("%s: len(body): got 0, want at least 1, in %q", model, body)
		}
	}
	hanging := request("hang")
	hanging.Next()
	hanging.Cancel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if r, err := engine.WaitCancelled(ctx); err != nil {
		t.Errorf("the cancel that the engine hears of: got the error %v, want none", err)
	} else if r.Model != "hang" {
		t.Errorf(`the cancel that the engine hears of: r.Model: got %q, want "hang"`, r.Model)
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
	if err := agent.Ready(t.Context()); err == nil {
		t.Error("got no error, want one")
	} else if !strings.Contains(err.Error(), "does not answer") {
		t.Errorf(`Ready: got the error %q, want "does not answer" in it`, err)
	}
	switch _, end := s.Open("m", `{"model":"m"}`).Answer(); {
	case end.GetEngineStatus() != 0:
		t.Errorf("end.GetEngineStatus(): got %d, want 0", end.GetEngineStatus())
	case end.GetComplete():
		t.Errorf("end.GetComplete(): got true, want false, with %v", end)
	case end.GetError() == "":
		t.Error(`end.GetError(): got "", want some text`)
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
	switch err := json.Unmarshal(body, &answer); {
	case err != nil:
		t.Errorf("got the error %v, want none", err)
	case !end.GetComplete():
		t.Errorf("end.GetComplete(): got false, want true, with %v", end)
	case len(answer.Choices) != 1:
		t.Errorf("len(answer.Choices): got %d, want 1, with %s", len(answer.Choices), body)
	case answer.Choices[0].Message.Content == "":
		t.Errorf(`answer.Choices[0].Message.Content: got "", want some text, with %s`, body)
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
	if _, err := New(cfg, Deps{}); err == nil {
		t.Error("a second agent beside it is told: got no error, want one")
	} else if !strings.Contains(err.Error(), "another agent is running") {
		t.Errorf(`a second agent beside it is told: got the error %q, want "another agent is running" in it`, err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := first.Run(ended); err != nil {
		t.Fatal(err)
	}
	again, err := New(cfg, Deps{})
	if err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if want := first.NodeID(); again.NodeID() != want {
		t.Errorf("the second: got %q, want %q", again.NodeID(), want)
	}
	cfg.StateDir = ""
	if passing, err := New(cfg, Deps{}); err != nil {
		t.Errorf("without a folder: got the error %v, want none", err)
	} else if got, want := passing.NodeID(), first.NodeID(); got == want {
		t.Errorf("without a folder: passing.NodeID(): got %q, want any but %q", got, want)
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
		if _, err := targetsOf([]Model{{ModelID: "m", APIKeyFile: file}}); err == nil {
			t.Errorf("%q: got no error, want one", text)
		} else if strings.Contains(err.Error(), "two") {
			t.Errorf(`%q: got the error %q, want it without "two"`, text, err)
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
		if got, err := hubAddress(text, true); got != want {
			t.Errorf("%q: hubAddress(text, true): got %q, want %q", text, got, want)
		} else if (err == nil) != (want != "") {
			t.Errorf("%q: err == nil: got %t, want %t", text, err == nil, want != "")
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
	if _, err := New(cfg, Deps{}); err == nil {
		t.Error("the owner is told: got no error, want one")
	} else if !strings.Contains(err.Error(), "SVC_ALLOW_PLAINTEXT") {
		t.Errorf(`the owner is told: got the error %q, want "SVC_ALLOW_PLAINTEXT" in it`, err)
	}
}

func TestCheckFindsWhatDoesNotServe(t *testing.T) {
	engine := fakeengine.New(t)
	engine.Script("here", fakeengine.Behaviour{})
	findings, err := Check(t.Context(), []Model{
		{ModelID: "here", EngineURL: engine.URL + "/v1", ContextLength: 5}, {ModelID: "there", EngineURL: engine.URL + "/v1"},
	}, Deps{})
	switch {
	case err != nil:
		t.Errorf("got the error %v, want none", err)
	case findings[0].Fault != "":
		t.Errorf(`findings[0].Fault: got %q, want ""`, findings[0].Fault)
	case findings[0].ContextLength != 5:
		t.Errorf("findings[0].ContextLength: got %d, want 5", findings[0].ContextLength)
	case !strings.Contains(findings[1].Fault, "does not list"):
		t.Errorf(`findings[1].Fault: got %q, want "does not list" in it`, findings[1].Fault)
	}
	if _, err := Check(t.Context(), nil, Deps{}); err == nil {
		t.Error("no models are accepted")
	}
}
