package provideragent

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/pkg/fakeengine"
	agentv2 "svc.internal/proto/svc/agent/v2"
	"svc.internal/services/provider-agent/internal/connection/hubtest"
)

// withGPUs puts an nvidia-smi before all other programs.
func withGPUs(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the program is a shell script")
	}
	dir := t.TempDir()
	script := "#!/bin/sh\n[ \"$1\" = --query-gpu=name,memory.total,driver_version,compute_cap ] || exit 1\n" +
		"echo NVIDIA GeForce RTX 4090, 24564, 550.54.14, 8.9\necho NVIDIA GeForce RTX 3060, 12288, 550.54.14, 8.6\n"
	if err := os.WriteFile(filepath.Join(dir, "nvidia-smi"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

func TestHubHearsOfTheMachineUnlessItsOwnerDeclines(t *testing.T) {
	withGPUs(t)
	engine := fakeengine.New(t)
	model := Model{ModelID: "ok", EngineURL: engine.URL + "/v1"}
	_, hub, _ := start(t, model)
	h := hub.AcceptLive().Register.GetHardware()
	switch {
	case h.GetGpuType() != "RTX 4090":
		t.Errorf(`it hears: h.GetGpuType(): got %q, want "RTX 4090"`, h.GetGpuType())
	case h.GetGpuCount() != 2:
		t.Errorf("it hears: h.GetGpuCount(): got %d, want 2", h.GetGpuCount())
	case h.GetMemoryTotalMb() != 12288:
		t.Errorf("it hears: h.GetMemoryTotalMb(): got %d, want 12288", h.GetMemoryTotalMb())
	case h.GetComputeCapability() != "8.6":
		t.Errorf(`it hears: h.GetComputeCapability(): got %q, want "8.6"`, h.GetComputeCapability())
	case h.GetDriverVersion() != "550.54.14":
		t.Errorf(`it hears: h.GetDriverVersion(): got %q, want "550.54.14"`, h.GetDriverVersion())
	case h.GetServingEngine() != "unknown":
		t.Errorf(`it hears: h.GetServingEngine(): got %q, want "unknown"`, h.GetServingEngine())
	}
	_, hub, _ = startWith(t, func(c *Config) { c.ReportHardware = false }, model)
	if h := hub.AcceptLive().Register.GetHardware(); h != nil {
		t.Errorf("of an owner who declines it hears: got %v, want nil", h)
	}
}

// noEngine is an engine that cannot be reached.
type noEngine struct{}

func (noEngine) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("connection refused")
}

func TestGPUsThatTheDriverTellsOfLaterAreRegisteredLater(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the program is a shell script")
	}
	dir := t.TempDir()
	script := "#!/bin/sh\n[ -e " + dir + "/loaded ] || { : >" + dir +
		"/loaded; exit 9; }\necho NVIDIA GeForce RTX 4090, 24564, 550.54.14, 8.9\n"
	if err := os.WriteFile(filepath.Join(dir, "nvidia-smi"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	key := providerKey(t)
	synctest.Test(t, func(t *testing.T) {
		hub := hubtest.NewPiped(t)
		cfg := DefaultConfig()
		cfg.AllowPlaintext = true // pipes
		cfg.WSURL, cfg.Key, cfg.Models = strings.TrimSuffix(hub.URL, "/ws"), key,
			[]Model{{ModelID: "m", EngineURL: "http://engine.invalid"}}
		agent, err := New(cfg, Deps{Dial: hub.Dial, HTTPClient: &http.Client{Transport: noEngine{}}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- agent.Run(ctx) }()
		if h := hub.AcceptLive().Register.GetHardware(); h != nil {
			t.Errorf("at first the hub hears: got %v, want nil", h)
		}
		for n := 0; hub.Dials() < 2 && n < 300; n++ {
			<-time.After(time.Second)
		}
		if h := hub.AcceptLive().Register.GetHardware(); h.GetGpuType() != "RTX 4090" {
			t.Errorf(`then the hub hears: got %q, want "RTX 4090"`, h.GetGpuType())
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestMachineWithoutGPUsIsNotReported(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, hub, _ := start(t, Model{ModelID: "ok", EngineURL: fakeengine.New(t).URL + "/v1"})
	if h := hub.AcceptLive().Register.GetHardware(); h != nil {
		t.Errorf("the hub hears: got %v, want nil", h)
	}
}

// vLLM names itself as the owner of its models.
func TestHubHearsOfEngineAndRevisionOfAModel(t *testing.T) {
	vllm := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"data":[{"id":"m","owned_by":"vllm"}]}`)
	}))
	t.Cleanup(vllm.Close)
	model := Model{ModelID: "m", EngineURL: vllm.URL + "/v1", Revision: "0f1e2d"}
	for name, c := range map[string]struct {
		reports bool
		engine  string
	}{"an owner who lets the machine be known": {true, "vllm"}, "an owner who does not": {false, ""}} {
		_, hub, _ := startWith(t, func(cfg *Config) { cfg.ReportHardware = c.reports }, model)
		offer := hub.AcceptLive().Register.GetModels()[0]
		if got := offer.GetEngine(); got != c.engine {
			t.Errorf("%s: engine: got %q, want %q", name, got, c.engine)
		}
		if got := offer.GetRevision(); got != "0f1e2d" {
			t.Errorf("%s: revision: got %q, want %q", name, got, "0f1e2d")
		}
	}
}

func TestWarmUpReachesTheEngine(t *testing.T) {
	engine := fakeengine.New(t)
	engine.Script("local", fakeengine.Behaviour{Tokens: []string{"Hi"}})
	_, hub, _ := start(t, Model{ModelID: "m", EngineURL: engine.URL + "/v1", LocalModel: "local"})
	s := hub.AcceptLive()
	if !slices.Contains(s.Register.GetCapabilities(), "warmup") {
		t.Errorf(`the capabilities: got %q, want "warmup" in it`, s.Register.GetCapabilities())
	}
	warm := func() *agentv2.WarmupResult {
		s.Send(&agentv2.Frame{Body: &agentv2.Frame_Warmup{Warmup: &agentv2.Warmup{ModelId: "m"}}})
		return s.ControlOf(func(f *agentv2.Frame) bool { return f.GetWarmupResult() != nil }).GetWarmupResult()
	}
	if r := warm(); !r.GetSuccess() {
		t.Errorf("the result: r.GetSuccess(): got false, want true, with %v", r)
	} else if r.GetModelId() != "m" {
		t.Errorf(`the result: r.GetModelId(): got %q, want "m"`, r.GetModelId())
	}
	switch all := engine.Requests(); {
	case len(all) != 1:
		t.Errorf("the engine was asked: len(all): got %d, want 1, in %+v", len(all), all)
	case all[0].Model != "local":
		t.Errorf(`the engine was asked: all[0].Model: got %q, want "local"`, all[0].Model)
	case all[0].Stream:
		t.Error("the engine was asked: all[0].Stream: got true, want false")
	}
	_, hub, _ = startWith(t, func(c *Config) { c.Capabilities = []string{"chat"} },
		Model{ModelID: "m", EngineURL: engine.URL + "/v1", LocalModel: "local"})
	s = hub.AcceptLive()
	if r := warm(); r.GetSuccess() {
		t.Errorf("of an owner who declines the result is %v", r)
	}
}
