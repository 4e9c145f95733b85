package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/fakeengine"
	"svc.internal/services/provider-agent/internal/connection/hubtest"
)

// catalog is a service whose catalog has the model good, and two that providers do not
// serve.
func catalog(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/models" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = io.WriteString(w, `{"data":{"list":[{"id":"good","active":true,"kind":"open"},`+
			`{"id":"vendor","active":true,"kind":"gateway"},{"id":"old","active":false,"kind":"open"}]}}`)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// offering writes a models.json that offers models of one engine.
func offering(t *testing.T, models ...string) string {
	t.Helper()
	engine := fakeengine.New(t)
	var entries []string
	for _, m := range models {
		engine.Script(m, fakeengine.Behaviour{})
		entries = append(entries, `"`+m+`":{"endpoint":"`+engine.URL+`"}`)
	}
	return write(t, "models.json", "{"+strings.Join(entries, ",")+"}")
}

func TestCheckRefusesModelsThatProvidersDoNotServe(t *testing.T) {
	path := offering(t, "good", "nonsense", "vendor", "old")
	var out, diagnostics bytes.Buffer
	err := command(t.Context(), []string{"check", "-models", path}, []string{"SVC_SERVICE_URL=" + catalog(t)}, &out,
		&diagnostics)
	if !errors.Is(err, errUnfit) {
		t.Errorf("got the error %v, want %v", err, errUnfit)
	}
	for model, want := range map[string]string{"good": "ok", "nonsense": "the catalog has no model of this id",
		"vendor": "a vendor serves this model", "old": "not in service"} {
		found := false
		for line := range strings.Lines(out.String()) {
			found = found || strings.HasPrefix(line, model+" ") && strings.Contains(line, want)
		}
		if !found {
			t.Errorf("%s: %q is missing in\n%s", model, want, &out)
		}
	}
	diagnostics.Reset()
	err = command(t.Context(), []string{"check", "-models", offering(t, "good")},
		[]string{"SVC_SERVICE_URL=http://127.0.0.1:1"}, io.Discard, &diagnostics)
	if err != nil {
		t.Errorf("without a catalog: got the error %v, want none", err)
	}
	if !strings.Contains(diagnostics.String(), "The catalog was not asked") {
		t.Errorf("without a catalog: got %q, want it said", &diagnostics)
	}
}

func TestRunRefusesModelsThatProvidersDoNotServe(t *testing.T) {
	key, err := apikey.Generate(apikey.Provider, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	hub := hubtest.New(t)
	environ := []string{"SVC_SERVICE_URL=" + catalog(t), "SVC_PROVIDER_KEY=" + key, "SVC_WS_URL=" + hub.URL}
	err = command(t.Context(), []string{"run", "-state", t.TempDir(), "-models", offering(t, "nonsense")}, environ,
		io.Discard, io.Discard)
	if err == nil {
		t.Error("without a model of the catalog: got no error, want one")
	} else if !strings.Contains(err.Error(), "no model is one of the catalog") {
		t.Errorf("without a model of the catalog: got the error %v, want one that says so", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var log bytes.Buffer
	done := make(chan error, 1)
	go func() {
		done <- command(ctx, []string{"run", "-state", t.TempDir(), "-models", offering(t, "good", "nonsense")}, environ,
			io.Discard, &log)
	}()
	s := hub.AcceptLive()
	cancel()
	if err := <-done; err != nil {
		t.Errorf("run: got the error %v, want none", err)
	}
	if n := len(s.Register.GetModels()); n != 1 {
		t.Errorf("models: got %d, want 1", n)
	}
	if !strings.Contains(log.String(), "nonsense") {
		t.Errorf("the log: got %s, want the refused model in it", &log)
	}
}

// An engine may list a model that it cannot load.
func TestCheckAsksEachModelForAChat(t *testing.T) {
	engine := fakeengine.New(t)
	engine.Script("good", fakeengine.Behaviour{})
	engine.Script("heavy", fakeengine.Behaviour{Status: 500, Body: `{"error":{"message":"out of memory\u001b[31m"}}`})
	engine.Script("vectors", fakeengine.Behaviour{Status: 400})
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"data":{"list":[{"id":"good","active":true,"category":"llm"},`+
			`{"id":"heavy","active":true,"category":"llm"},{"id":"vectors","active":true,"category":"embedding"}]}}`)
	}))
	t.Cleanup(service.Close)
	at := `{"endpoint":"` + engine.URL + `"}`
	path := write(t, "models.json", `{"good":`+at+`,"heavy":`+at+`,"vectors":`+at+`}`)
	environ := []string{"SVC_SERVICE_URL=" + service.URL}
	var out bytes.Buffer
	err := command(t.Context(), []string{"check", "-models", path}, environ, &out, io.Discard)
	if !errors.Is(err, errUnfit) {
		t.Errorf("got the error %v, want %v", err, errUnfit)
	}
	for model, want := range map[string]string{"good": " in ", "heavy": "answers 500 to a chat: out of memory",
		"vectors": "not asked"} {
		for line := range strings.Lines(out.String()) {
			if strings.HasPrefix(line, model+" ") && !strings.Contains(line, want) {
				t.Errorf("%s: got %q, want %q in it", model, line, want)
			}
		}
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Errorf("got %q, want the engine's words without what drives a terminal", &out)
	}
	asked := len(engine.Requests())
	if err := command(t.Context(), []string{"check", "-quick", "-models", path}, environ, &out, io.Discard); err != nil {
		t.Errorf("-quick: got the error %v, want none", err)
	}
	for _, r := range engine.Requests()[asked:] {
		if r.Model != "" {
			t.Errorf("-quick: a chat was asked for: %s", r.Body)
		}
	}
}

// served is a service whose catalog has models.
func served(t *testing.T, models ...string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"data":{"list":[{"id":"`+strings.Join(models, `","active":true},{"id":"`)+
			`","active":true}]}}`)
	}))
	t.Cleanup(server.Close)
	return server.URL
}
