package provideragent

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/pkg/fakeengine"
	"svc.internal/pkg/fingerprint"
	agentv2 "svc.internal/proto/svc/agent/v2"
	"svc.internal/services/provider-agent/internal/connection/hubtest"
)

// challenge asks a session for the first byte of a file.
func challenge(s *hubtest.Session, model, file string) *agentv2.ChallengeResult {
	s.Send(&agentv2.Frame{Body: &agentv2.Frame_Challenge{Challenge: &agentv2.Challenge{
		ChallengeId: "c", ModelId: model, Nonce: make([]byte, fingerprint.NonceSize),
		Ranges: []*agentv2.FileRange{{File: file, Length: 1}},
	}}})
	return s.ControlOf(func(f *agentv2.Frame) bool { return f.GetChallengeResult() != nil }).GetChallengeResult()
}

func TestFilesOfAModelAreProven(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "model.safetensors"), []byte("weights"), 0o600); err != nil {
		t.Fatal(err)
	}
	engine := fakeengine.New(t)
	_, hub, _ := start(t, Model{ModelID: "with", EngineURL: engine.URL + "/v1", WeightsDir: folder},
		Model{ModelID: "without", EngineURL: engine.URL + "/v1"})
	s := hub.AcceptLive()
	if got := s.Register.GetCapabilities(); !slices.Contains(got, "fingerprint") {
		t.Errorf(`the capabilities: got %q, want "fingerprint" in it`, got)
	}
	r := challenge(s, "with", "model.safetensors")
	want := fingerprint.RangeDigest(make([]byte, fingerprint.NonceSize), "model.safetensors", 0, []byte("w"))
	if got := bytes.Join(r.GetDigests(), nil); !bytes.Equal(got, want) {
		t.Errorf("the digests: got %x, want %x, with %q", got, want, r.GetError())
	}
	r = challenge(s, "with", "absent")
	if want := `"absent": there is no such file`; r.GetError() != want {
		t.Errorf("the error for a missing file: got %q, want %q", r.GetError(), want)
	}
	if r = challenge(s, "without", "model.safetensors"); !strings.Contains(r.GetError(), "no folder") {
		t.Errorf(`the error for a model without a folder: got %q, want "no folder" in it`, r.GetError())
	}
}

// An engine's store holds the file that the catalog lists, and the owner has named no folder.
func TestFilesInAnEnginesStoreAreProvenWithoutAFolder(t *testing.T) {
	store, digest := t.TempDir(), fmt.Sprintf("%x", sha256.Sum256([]byte("weights")))
	if err := os.Mkdir(filepath.Join(store, "blobs"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(store, "blobs", "sha256-"+digest), []byte("weights"), 0o600); err != nil {
		t.Fatal(err)
	}
	catalog := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("the catalog is sent the key, want that it is not")
		}
		if r.URL.Path != "/api/v1/models/own/found/files" {
			t.Errorf("asked: got %s, want the files of own/found alone", r.URL.Path)
		}
		_, _ = io.WriteString(w, `{"code":0,"data":{"files":[{"filename":"m.gguf","hash":"`+digest+`","size_bytes":7}]}}`)
	}))
	t.Cleanup(catalog.Close)
	engine := fakeengine.New(t)
	at := func(c *Config) { c.ServiceURL, c.Stores = catalog.URL, Stores{Ollama: []string{store}} }
	_, hub, _ := startWith(t, at, Model{ModelID: "own/found", EngineURL: engine.URL + "/v1"},
		Model{ModelID: "own/unwanted", EngineURL: engine.URL + "/v1", WithoutFiles: true})
	s := hub.AcceptLive()
	if got := s.Register.GetCapabilities(); !slices.Contains(got, "fingerprint") {
		t.Errorf(`the capabilities: got %q, want "fingerprint" in it`, got)
	}
	r := challenge(s, "own/found", "m.gguf")
	want := fingerprint.RangeDigest(make([]byte, fingerprint.NonceSize), "m.gguf", 0, []byte("w"))
	if got := bytes.Join(r.GetDigests(), nil); !bytes.Equal(got, want) {
		t.Errorf("the digests: got %x, want %x, with %q", got, want, r.GetError())
	}
	if r := challenge(s, "own/unwanted", "m.gguf"); !strings.Contains(r.GetError(), "no folder") {
		t.Errorf(`a model whose files are not wanted: got %q, want "no folder" in it`, r.GetError())
	}
}

func TestAFolderThatAppearsLaterIsDeclaredLater(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "later")
	key := providerKey(t)
	synctest.Test(t, func(t *testing.T) {
		hub := hubtest.NewPiped(t)
		cfg := DefaultConfig()
		cfg.AllowPlaintext = true // pipes
		cfg.WSURL, cfg.Key, cfg.Models = strings.TrimSuffix(hub.URL, "/ws"), key,
			[]Model{{ModelID: "m", EngineURL: "http://engine.invalid", WeightsDir: folder}}
		agent, err := New(cfg, Deps{Dial: hub.Dial, HTTPClient: &http.Client{Transport: noEngine{}}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- agent.Run(ctx) }()
		if got := hub.AcceptLive().Register.GetCapabilities(); slices.Contains(got, "fingerprint") {
			t.Errorf(`at first: got %q, want no "fingerprint" in it`, got)
		}
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		for n := 0; hub.Dials() < 2 && n < 300; n++ {
			<-time.After(time.Second)
		}
		if got := hub.AcceptLive().Register.GetCapabilities(); !slices.Contains(got, "fingerprint") {
			t.Errorf(`then: got %q, want "fingerprint" in it`, got)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestFolderThatIsNoneCostsNothingElse(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	engine := fakeengine.New(t)
	engine.Script("m", fakeengine.Behaviour{Tokens: []string{"Hi"}})
	agent, hub, log := start(t, Model{ModelID: "m", EngineURL: engine.URL + "/v1", WeightsDir: file})
	s := hub.AcceptLive()
	<-agent.Registered()
	if got := s.Register.GetCapabilities(); slices.Contains(got, "fingerprint") {
		t.Errorf(`the capabilities: got %q, want no "fingerprint" in it`, got)
	}
	if _, end := s.Open("m", `{"model":"m","messages":[]}`).Answer(); !end.GetComplete() {
		t.Errorf("a request: got %v, want a complete answer", end)
	}
	const want = "the folder of the model cannot be opened"
	if r := challenge(s, "m", "file"); r.GetError() != want {
		t.Errorf("the error: got %q, want %q", r.GetError(), want)
	}
	for _, want := range []string{"it is not a folder", file} {
		if text := log.String(); !strings.Contains(text, want) {
			t.Errorf("the log: got %q, want %q in it", text, want)
		}
	}
}

func TestLogprobsAreDeclaredAsTheEngineShows(t *testing.T) {
	// The form of an answer with log-probabilities, without an engine's time for it.
	tiny := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"choices":[{"message":{"role":"assistant","content":"a"},"logprobs":{"content":`+
			`[{"token":"a","logprob":-0.5,"bytes":[97],"top_logprobs":[{"token":"a","logprob":-0.5,"bytes":[97]}]}]}}]}`)
	}))
	t.Cleanup(tiny.Close)
	empty := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(empty.Close)
	unasked := func(*Config) {}
	asked := func(c *Config) { c.Capabilities = nil }
	for what, c := range map[string]struct {
		url    string
		change func(*Config)
		want   bool
	}{
		"an engine that returns them":   {tiny.URL, asked, true},
		"an engine that does not":       {fakeengine.New(t).URL, asked, false},
		"the owner says that they come": {fakeengine.New(t).URL, unasked, true},
		"the owner leaves them out":     {tiny.URL, func(c *Config) { c.Capabilities = []string{"chat"} }, false},
		"an engine without chats":       {empty.URL, asked, false},
	} {
		_, hub, _ := startWith(t, c.change, Model{ModelID: "m", EngineURL: c.url + "/v1", LocalModel: "local"})
		got := hub.AcceptLive().Register.GetCapabilities()
		if slices.Contains(got, "logprobs") != c.want {
			t.Errorf(`%s: the capabilities: got %q, want "logprobs" in it: %t`, what, got, c.want)
		}
	}
}

func TestExampleOfTheReadmeIsValid(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "```json\n")
	example, _, _ := strings.Cut(rest, "```")
	path := filepath.Join(t.TempDir(), "models.json")
	if err := os.WriteFile(path, []byte(example), 0o600); err != nil {
		t.Fatal(err)
	}
	models, err := LoadModels(path)
	switch {
	case err != nil:
		t.Errorf("the example: got the error %v, want none", err)
	case models[0].WeightsDir == "":
		t.Error("the example: got no weights_dir, want one")
	}
}
