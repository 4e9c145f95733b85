package provideragent

import (
	"context"
	"errors"
	"net/http"
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
	if h.GetGpuType() != "RTX 4090" || h.GetGpuCount() != 2 || h.GetMemoryTotalMb() != 12288 ||
		h.GetComputeCapability() != "8.6" ||
		h.GetDriverVersion() != "550.54.14" || h.GetServingEngine() != "unknown" {
		t.Errorf("it hears of %v", h)
	}
	_, hub, _ = startWith(t, func(c *Config) { c.ReportHardware = false }, model)
	if h := hub.AcceptLive().Register.GetHardware(); h != nil {
		t.Errorf("of an owner who declines it hears of %v", h)
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
			t.Errorf("at first the hub hears of %v", h)
		}
		for n := 0; hub.Dials() < 2 && n < 300; n++ {
			<-time.After(time.Second)
		}
		if h := hub.AcceptLive().Register.GetHardware(); h.GetGpuType() != "RTX 4090" {
			t.Errorf("then the hub hears of %v", h)
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
		t.Errorf("the hub hears of %v", h)
	}
}

func TestWarmUpReachesTheEngine(t *testing.T) {
	engine := fakeengine.New(t)
	engine.Script("local", fakeengine.Behaviour{Tokens: []string{"Hi"}})
	_, hub, _ := start(t, Model{ModelID: "m", EngineURL: engine.URL + "/v1", LocalModel: "local"})
	s := hub.AcceptLive()
	if !slices.Contains(s.Register.GetCapabilities(), "warmup") {
		t.Errorf("the capabilities are %v", s.Register.GetCapabilities())
	}
	warm := func() *agentv2.WarmupResult {
		s.Send(&agentv2.Frame{Body: &agentv2.Frame_Warmup{Warmup: &agentv2.Warmup{ModelId: "m"}}})
		return s.ControlOf(func(f *agentv2.Frame) bool { return f.GetWarmupResult() != nil }).GetWarmupResult()
	}
	if r := warm(); !r.GetSuccess() || r.GetModelId() != "m" {
		t.Errorf("the result is %v", r)
	}
	if all := engine.Requests(); len(all) != 1 || all[0].Model != "local" || all[0].Stream {
		t.Errorf("the engine was asked %+v", all)
	}
	_, hub, _ = startWith(t, func(c *Config) { c.Capabilities = []string{"chat"} },
		Model{ModelID: "m", EngineURL: engine.URL + "/v1", LocalModel: "local"})
	s = hub.AcceptLive()
	if r := warm(); r.GetSuccess() {
		t.Errorf("of an owner who declines the result is %v", r)
	}
}
