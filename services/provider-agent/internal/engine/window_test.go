package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"svc.internal/pkg/config"
)

// frontEnd answers paths as an engine does, and notes what it was asked.
type frontEnd struct {
	answers map[string]string
	asked   []string
}

func (f *frontEnd) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
	}
	f.asked = append(f.asked, r.URL.Path)
	answer, ok := f.answers[r.URL.Path]
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"detail":"Not Found"}`)
		return
	}
	if strings.HasPrefix(answer, "header ") {
		w.Header().Set("X-Svc-Request-Id", "0190")
		answer = strings.TrimPrefix(answer, "header ")
	}
	if r.URL.Path == "/api/show" {
		var ask struct {
			Model string `json:"model"`
		}
		_ = json.Unmarshal(body, &ask)
		answer = f.answers["show "+ask.Model]
	}
	_, _ = io.WriteString(w, answer)
}

// The front ends of engines, as stock versions answer.
func vllm(window int) map[string]string {
	return map[string]string{
		"/v1/models": fmt.Sprintf(`{"object":"list","data":[{"id":"local","object":"model","owned_by":"vllm","root":"local",`+
			`"max_model_len":%d}]}`, window),
		"/version": `{"version":"0.11.0"}`, "/health": "",
	}
}

func sglang(window string) map[string]string {
	return map[string]string{
		"/v1/models": `{"object":"list","data":[{"id":"local","object":"model","owned_by":"sglang","root":"local",` +
			`"max_model_len":40960}]}`,
		"/get_server_info": `{"model_path":"local","context_length":` + window + `,"version":"0.5.4"}`,
	}
}

func llamaCpp() map[string]string {
	return map[string]string{
		"/v1/models": `{"object":"list","data":[{"id":"local","owned_by":"llamacpp","meta":{"n_ctx_train":131072}}]}`,
		"/props":     `{"default_generation_settings":{"n_ctx":2048},"total_slots":4}`,
	}
}

func ollamaLike(ps, show string) map[string]string {
	return map[string]string{
		"/v1/models": `{"object":"list","data":[{"id":"local:latest","object":"model","owned_by":"library"}]}`,
		"/api/tags":  `{"models":[{"name":"local:latest"}]}`,
		"/api/ps":    ps, "/api/show": "", "show local": show, "show local:latest": show,
	}
}

const (
	nothingLoaded  = `{"models":[]}`
	loaded1024     = `{"models":[{"name":"local:latest","context_length":1024}]}`
	withParameters = `{"parameters":"stop \"x\"\nnum_ctx   6000\n",` + madeFor + `}`
	madeFor        = `"model_info":{"general.architecture":"llama","llama.context_length":8192}`
)

func TestAnEnginesWindowIsWhatItHolds(t *testing.T) {
	for name, c := range map[string]struct {
		engine map[string]string
		owner  int64
		want   int64
	}{
		"vLLM":                            {vllm(16384), 0, 16384},
		"vLLM, less by its owner":         {vllm(16384), 8192, 8192},
		"vLLM, more by its owner":         {vllm(16384), 131072, 16384},
		"SGLang":                          {sglang("null"), 0, 40960},
		"SGLang that was cut":             {sglang("32768"), 0, 32768},
		"llama.cpp":                       {llamaCpp(), 0, 2048},
		"Ollama that says nothing":        {ollamaLike(nothingLoaded, `{}`), 0, ollamaWindow},
		"Ollama with num_ctx":             {ollamaLike(nothingLoaded, withParameters), 0, 6000},
		"Ollama with too much":            {ollamaLike(nothingLoaded, `{"parameters":"num_ctx 99999",`+madeFor+`}`), 0, 8192},
		"Ollama that has loaded it":       {ollamaLike(loaded1024, `{"parameters":"num_ctx 6000",`+madeFor+`}`), 0, 1024},
		"Ollama, the window of a catalog": {ollamaLike(loaded1024, `{}`), 131072, 1024},
		"Ollama that hides its models":    {ollamaLike("", "no"), 4000, 4000},
	} {
		p := watched(&frontEnd{answers: c.engine}, &bytes.Buffer{}, Target{ModelID: "m", LocalModel: "local",
			ContextLength: c.owner})
		p.Probe(t.Context())
		state := p.States()[0]
		if !state.Healthy {
			t.Errorf("%s: got %s, want a healthy model", name, state.Reason)
		}
		if state.ContextLength != c.want {
			t.Errorf("%s: the window: got %d, want %d", name, state.ContextLength, c.want)
		}
	}
}

func TestAWindowThatShrinksIsToldAndDeclared(t *testing.T) {
	engine := &frontEnd{answers: ollamaLike(nothingLoaded, `{"parameters":"num_ctx 6000"}`)}
	var log bytes.Buffer
	p := watched(engine, &log, Target{ModelID: "m", LocalModel: "local", ContextLength: 6000})
	p.Probe(t.Context())
	<-p.Changed()
	if strings.Contains(log.String(), "holds fewer") {
		t.Errorf("got %s, want no warning yet", &log)
	}
	engine.answers["/api/ps"] = loaded1024
	p.Probe(t.Context())
	select {
	case <-p.Changed():
	default:
		t.Error("the smaller window is no change")
	}
	p.Probe(t.Context())
	if n := strings.Count(log.String(), "holds fewer"); n != 1 {
		t.Errorf("warnings: got %d, want 1, in %s", n, &log)
	}
	shows := 0
	for _, path := range engine.asked {
		if path == "/api/show" {
			shows++
		}
	}
	if shows != 1 {
		t.Errorf("questions about the model: got %d, want 1", shows)
	}
}

func TestAnAddressWithoutAnyEndpointIsUnfit(t *testing.T) {
	for name, c := range map[string]struct {
		answers map[string]string
		healthy bool
	}{
		"nothing":     {nil, false},
		"chats":       {map[string]string{"/v1/chat/completions": "{}"}, true},
		"embeddings":  {map[string]string{"/v1/embeddings": "{}"}, true},
		"another API": {map[string]string{"/chat/completions": "{}"}, false},
	} {
		p := watched(&frontEnd{answers: c.answers}, &bytes.Buffer{}, Target{ModelID: "m", LocalModel: "local"})
		p.Probe(t.Context())
		if state := p.States()[0]; state.Healthy != c.healthy {
			t.Errorf("%s: healthy: got %t, want %t (%s)", name, state.Healthy, c.healthy, state.Reason)
		}
	}
}

// listening serves a front end on a port of this machine.
func listening(t *testing.T, answers map[string]string) int {
	t.Helper()
	server := httptest.NewServer(&frontEnd{answers: answers})
	t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestEnginesAreFoundAndToldApart(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ports := []int{
		listening(t, sglang("32768")), listening(t, vllm(16384)),
		listening(t, ollamaLike(nothingLoaded, `{"parameters":"num_ctx 2048",`+madeFor+`}`)), listening(t, llamaCpp()),
		listening(t, map[string]string{"/v1/models": `{"data":[{"id":"other"}]}`}),
		listening(t, map[string]string{"/v1/models": `header {"data":[{"id":"ours"}]}`}),
		listening(t, map[string]string{"/": "a web page"}), closed.Addr().(*net.TCPAddr).Port,
	}
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range Find(t.Context(), ports) {
		for _, m := range f.Models {
			got = append(got, fmt.Sprintf("%s %s %d %d", f.Kind, m.Name, m.Window, m.Trained))
		}
	}
	want := []string{"sglang local 32768 0", "vllm local 16384 0", "ollama local:latest 2048 8192",
		"llamacpp local 2048 0", "unknown other 0 0"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if n := len(Ports()); n != 6 {
		t.Errorf("ports: got %d, want 6", n)
	}
}

func TestAnEngineThatWantsAKeyIsFoundLocked(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer k" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, vllm(512)["/v1/models"])
	}))
	t.Cleanup(server.Close)
	if found, err := Look(t.Context(), server.URL+"/v1", config.Secret{}); err != nil {
		t.Errorf("without the key: got the error %v, want none", err)
	} else if !found.Locked {
		t.Errorf("without the key: got %+v, want it locked", found)
	}
	if found, err := Look(t.Context(), server.URL+"/v1", config.NewSecret("k")); err != nil {
		t.Errorf("with the key: got the error %v, want none", err)
	} else if len(found.Models) != 1 {
		t.Errorf("with the key: got %+v, want one model", found)
	}
}

func TestADownloadTellsItsProgressAndItsEnd(t *testing.T) {
	for name, c := range map[string]struct{ lines, want string }{
		"whole": {`{"status":"pulling manifest"}` + "\n" + `{"status":"pulling a","total":10,"completed":5}` + "\n" +
			`{"status":"success"}`, ""},
		"unknown":  {`{"error":"pull model manifest: file does not exist"}`, "file does not exist"},
		"cut off":  {`{"status":"pulling a","total":10,"completed":5}` + "\n", "unexpected EOF"},
		"no JSON":  {"<html>", "not of Ollama's form"},
		"too long": {strings.Repeat(" ", maxStep+1), "cut off"},
	} {
		server := httptest.NewServer(&frontEnd{answers: map[string]string{"/api/pull": c.lines}})
		var told []string
		err := Pull(t.Context(), server.URL+"/v1", "x", func(step string, done, total int64) {
			told = append(told, fmt.Sprintf("%s %d/%d", step, done, total))
		})
		server.Close()
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: got the error %v, want none", name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: got the error %v, want %q in it", name, err, c.want)
		}
		if c.want == "" && fmt.Sprint(told) != "[pulling manifest 0/0 pulling a 5/10 success 0/0]" {
			t.Errorf("%s: told: got %q", name, told)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Pull(ctx, "http://127.0.0.1:1/v1", "x", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("after its end: got %v, want %v", err, context.Canceled)
	}
}
