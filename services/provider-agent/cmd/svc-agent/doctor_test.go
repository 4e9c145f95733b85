package main

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/apikey"
	"svc.internal/services/provider-agent/internal/connection/hubtest"
	"svc.internal/services/provider-agent/internal/doctor"
)

// smi puts a program named nvidia-smi first in the path.
func smi(t *testing.T, text string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "nvidia-smi"), []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// marketplace is a scripted API and hub.
type marketplace struct {
	status int
	body   string
	// skew is how far its clock is behind.
	skew time.Duration
}

func (m marketplace) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Date", time.Now().Add(-m.skew).UTC().Format(http.TimeFormat))
	switch r.URL.Path {
	case "/api/v1/provider/status":
		w.WriteHeader(m.status)
		_, _ = io.WriteString(w, m.body) // the command may have left
	case "/api/v1/models":
		_, _ = io.WriteString(w, `{"data":{"list":[{"id":"known","active":true},{"id":"dead","active":true},`+
			`{"id":"absent","active":true},{"id":"wide","active":true},{"id":"retired"}],"total":5}}`)
	case "/ws":
		http.Error(w, "no upgrade by this proxy", http.StatusForbidden)
	default:
		w.WriteHeader(http.StatusOK)
	}
}

func providerKeyText(t *testing.T) string {
	t.Helper()
	key, err := apikey.Generate(apikey.Provider, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// diagnosis runs doctor and returns what it found.
func diagnosis(t *testing.T, args ...string) ([]doctor.Finding, error) {
	t.Helper()
	var out bytes.Buffer
	err := command(t.Context(), append([]string{"doctor", "-json"}, args...), nil, &out, io.Discard)
	var told struct {
		Blocked  bool             `json:"blocked"`
		Findings []doctor.Finding `json:"findings"`
	}
	if err := json.Unmarshal(out.Bytes(), &told); err != nil {
		t.Fatalf("got %q: %v", out.String(), err)
	}
	if told.Blocked != errors.Is(err, errUnfit) {
		t.Errorf("blocked: got %t, want it to go with the error %v", told.Blocked, err)
	}
	return told.Findings, err
}

// has looks for a finding with texts and a fix.
func has(t *testing.T, found []doctor.Finding, check string, level doctor.Level, text, fix string) {
	t.Helper()
	for _, f := range found {
		if f.Check == check && f.Level == level && strings.Contains(f.Text, text) && strings.Contains(f.Fix, fix) {
			return
		}
	}
	t.Errorf("no finding %s, %s with %q and the fix %q in %+v", check, level, text, fix, found)
}

func TestDoctorNamesEachPlantedFaultAndItsFix(t *testing.T) {
	smi(t, "echo 'Tesla K80, 4096, 470.1, 3.7'")
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"known","max_model_len":8192},`+
			`{"id":"wide","max_model_len":4096},{"id":"stranger","max_model_len":4096}]}`)
	}))
	t.Cleanup(engine.Close)
	market := httptest.NewServer(marketplace{status: 401, skew: time.Hour,
		body: `{"api_key_valid":false,"error":{"message":"revoked"}}`})
	t.Cleanup(market.Close)
	entry := func(id, url string, window int) string {
		return fmt.Sprintf(`{"model_id":%q,"engine_url":%q,"context_length":%d}`, id, url, window)
	}
	models := write(t, "models.json", `{"models":[`+strings.Join([]string{
		entry("known", engine.URL+"/v1", 8192), entry("dead", "http://127.0.0.1:1/v1", 4096),
		entry("absent", engine.URL+"/v1", 4096), entry("stranger", engine.URL+"/v1", 4096),
		entry("wide", engine.URL+"/v1", 32768), entry("retired", engine.URL+"/v1", 4096),
	}, ",")+`]}`)
	found, err := diagnosis(t, "-models", models, "-service", market.URL,
		"-ws", strings.Replace(market.URL, "http", "ws", 1), "-state", write(t, "state", "no folder"),
		"-key-file", write(t, "key", providerKeyText(t)))
	if !errors.Is(err, errUnfit) {
		t.Errorf("got the error %v, want %v", err, errUnfit)
	}
	has(t, found, "vram", doctor.Blocks, "4096 MiB", "another GPU")
	has(t, found, "compute capability", doctor.Blocks, "3.7", "8.0")
	has(t, found, "disk", doctor.Blocks, "not a directory", "SVC_STATE_DIR")
	has(t, found, "engine", doctor.Fails, "dead at", "start the engine")
	has(t, found, "engine", doctor.Fails, "absent at", "local_model")
	has(t, found, "catalog", doctor.Fails, "stranger", "svc-agent models")
	has(t, found, "catalog", doctor.Fails, "retired is no model", "svc-agent models")
	has(t, found, "context", doctor.Warns, "says 32768 tokens, and the engine holds 4096", "context_length to 4096")
	has(t, found, "clock", doctor.Blocks, "1h0m", "NTP")
	has(t, found, "websocket", doctor.Blocks, "403", "ask the marketplace's operators")
	has(t, found, "key", doctor.Blocks, "revoked", "another key")
	has(t, found, "engine", doctor.OK, "known is served", "")
	has(t, found, "settings", doctor.OK, "", "")
}

func TestDoctorNamesADriverThatFailsAndAKeyThatIsUsedElsewhere(t *testing.T) {
	smi(t, "echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18")
	market := httptest.NewServer(marketplace{status: 200, body: `{"status":"under_review","label":"Under Review",` +
		`"can_connect":true,"name":"Rig","message":"It is reviewed.","next_steps":["Wait for the operators."],` +
		`"nodes":[{"node_id":"node-other","node_name":"stolen","online":true},{"node_id":"node-off","online":false}]}`})
	t.Cleanup(market.Close)
	hub := hubtest.New(t)
	found, err := diagnosis(t, "-models", "/nowhere.json", "-service", market.URL, "-ws", hub.URL, "-state", t.TempDir(),
		"-key-file", write(t, "key", providerKeyText(t)))
	if !errors.Is(err, errUnfit) {
		t.Errorf("got the error %v, want %v", err, errUnfit)
	}
	has(t, found, "driver", doctor.Blocks, "exit status 18", "restart the machine")
	has(t, found, "key used elsewhere", doctor.Warns, "stolen (node-other)", "replace it")
	has(t, found, "account", doctor.Warns, "Under Review", "Wait for the operators.")
	has(t, found, "settings", doctor.Blocks, "nowhere.json", "correct")
	has(t, found, "websocket", doctor.OK, "the hub answers", "")
	has(t, found, "clock", doctor.OK, "", "")
	has(t, found, "disk", doctor.OK, "", "")
}

// A fault of a model costs what that model would earn. Only where no other model is left does it leave
// nothing to earn.
func TestAFaultOfAModelBlocksNothingWhileAnotherModelEarns(t *testing.T) {
	smi(t, "echo 'NVIDIA GeForce RTX 4090, 24564, 550.1, 8.9'")
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"known","max_model_len":8192},`+
			`{"id":"stranger","max_model_len":4096}]}`)
	}))
	t.Cleanup(engine.Close)
	market := httptest.NewServer(marketplace{status: 200, body: `{"status":"active","label":"Active","can_connect":true}`})
	t.Cleanup(market.Close)
	hub, key := hubtest.New(t), write(t, "key", providerKeyText(t))
	examined := func(models string) ([]doctor.Finding, error) {
		return diagnosis(t, "-models", write(t, "models.json", models), "-service", market.URL, "-ws", hub.URL,
			"-state", t.TempDir(), "-key-file", key)
	}
	dead, stranger := `"dead":{"endpoint":"http://127.0.0.1:1"}`, `"stranger":{"endpoint":"`+engine.URL+`"}`
	found, err := examined(`{"known":{"endpoint":"` + engine.URL + `"},` + dead + `,` + stranger + `}`)
	if err != nil {
		t.Errorf("with a model that earns: got the error %v, want none, with %+v", err, found)
	}
	has(t, found, "engine", doctor.Fails, "dead at", "start the engine")
	has(t, found, "catalog", doctor.Fails, "stranger is no model", "svc-agent models")
	found, err = examined(`{` + dead + `,` + stranger + `}`)
	if !errors.Is(err, errUnfit) {
		t.Errorf("without one: got the error %v, want %v", err, errUnfit)
	}
	has(t, found, "engine", doctor.Blocks, "dead at", "start the engine")
	has(t, found, "catalog", doctor.Blocks, "stranger is no model", "svc-agent models")
}
