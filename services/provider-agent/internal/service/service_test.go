package service

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"svc.internal/pkg/config"
)

// scripted answers every call alike and keeps the last one.
type scripted struct {
	status           int
	body             string
	path, key, asked string
}

func (s *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, _ := io.ReadAll(r.Body) // a test sees what is missing
	s.path, s.key, s.asked = r.Method+" "+r.URL.Path, r.Header.Get("Authorization"), string(text)
	if s.status >= 300 && s.status < 400 {
		w.Header().Set("Location", s.body)
	}
	w.WriteHeader(s.status)
	_, _ = io.WriteString(w, s.body) // the client may have had enough
}

func start(t *testing.T, s *scripted) *Client {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	c, err := New(server.URL + "/prefix/")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestServiceOfAHubIsWhereAgentsLookForIt(t *testing.T) {
	for hub, want := range map[string]string{
		"wss://market-ws.example":      "https://market.example",
		"wss://market-ws.example/ws":   "https://market.example",
		"ws://127.0.0.1:8081/ws/":      "http://127.0.0.1:8081",
		"wss://a-ws.b-ws.example/p/ws": "https://a.b-ws.example/p",
		"wss://plain.example/news":     "https://plain.example/news",
		"wss://a-ws:8443/ws":           "https://a:8443",
		"wss://my-wss.example":         "https://my-wss.example",
		"wss://a-wsb.example":          "https://a-wsb.example",
		"wss://a.b-ws.example":         "https://a.b-ws.example",
		"wss://a.example/x-ws/ws":      "https://a.example/x-ws",
		"wss://a.b:81/x-ws":            "https://a.b:81/x-ws",
		"wss://-ws.example":            "https://-ws.example",
		"ws://[::1]:8081/ws":           "http://[::1]:8081",
		"wss://key-ws@evil.example":    "",
		"wss://h/?x-ws":                "",
		"wss://":                       "",
		"wss://:80":                    "",
		"https://market.example":       "",
		"market.example":               "",
		"":                             "",
	} {
		if got := BaseOf(hub); got != want {
			t.Errorf("of %q: got %q, want %q", hub, got, want)
		}
	}
	for _, base := range []string{"", "ws://h", "http://", "http://u:p@h", "http://h?x=y", "http://h#x", "http://h:port"} {
		if _, err := New(base); err == nil {
			t.Errorf("%q is taken", base)
		}
	}
}

func TestChallengeIsAskedForAnAddress(t *testing.T) {
	s := &scripted{status: 200,
		body: `{"nonce":"abcdefgh","message":"x wants","expires_at":"2026-11-21T20:00:00Z","more":1}`}
	c := start(t, s)
	got, err := c.Challenge(t.Context(), "0xabc")
	switch {
	case err != nil:
		t.Errorf("got the error %v, want none", err)
	case got.Nonce != "abcdefgh":
		t.Errorf(`Nonce: got %q, want "abcdefgh"`, got.Nonce)
	case got.Message != "x wants":
		t.Errorf(`Message: got %q, want "x wants"`, got.Message)
	}
	switch {
	case s.path != "POST /prefix/api/v1/provider/ws-challenge":
		t.Errorf(`asked: s.path: got %q, want "POST /prefix/api/v1/provider/ws-challenge"`, s.path)
	case s.asked != `{"address":"0xabc"}`:
		t.Errorf("s.asked: got %q, want %q", s.asked, `{"address":"0xabc"}`)
	case s.key != "":
		t.Errorf(`asked: s.key: got %q, want ""`, s.key)
	}
	for _, body := range []string{"", "{}", "null", `{"nonce":"a"}`, "<html>", `{"nonce":5,"message":"x"}`} {
		s.body = body
		if got, err := c.Challenge(t.Context(), "0xabc"); err == nil {
			t.Errorf("%q: got no error, want one", body)
		} else if got != (Challenge{}) {
			t.Errorf(`%q: c.Challenge(t.Context(), "0xabc"): got %+v, want %+v`, body, got, Challenge{})
		}
	}
}

func TestStatusIsAskedWithTheKey(t *testing.T) {
	s := &scripted{status: 200, body: `{"status":"active","step":5}`}
	c := start(t, s)
	answer, err := c.Status(t.Context(), config.NewSecret("sk-prov-x"))
	switch {
	case err != nil:
		t.Errorf("got the error %v, want none", err)
	case string(answer) != s.body:
		t.Errorf("answer: got %q, want %q", string(answer), s.body)
	case s.path != "GET /prefix/api/v1/provider/status":
		t.Errorf(`s.path: got %q, want "GET /prefix/api/v1/provider/status"`, s.path)
	case s.key != "Bearer sk-prov-x":
		t.Errorf(`s.key: got %q, want "Bearer sk-prov-x"`, s.key)
	}
}

func TestRefusalsAreToldInOneCleanLine(t *testing.T) {
	s := &scripted{}
	c := start(t, s)
	for _, step := range []struct {
		status     int
		body, want string
		isKey      bool
	}{
		{401, `{"api_key_valid":false,"error":{"message":"no such key"}}`, "no such key", true},
		{401, `{"api_key_valid":false,"message":"revoked"}`, "revoked", true},
		{503, "a part of the service\x1b[31m does not answer\n", "a part of the service[31m does not answer", false},
		{429, `{"error":"flat","message":"slow down"}`, "slow down", false},
		{500, strings.Repeat("x", 5000), "answers 500", false},
		{302, "http://127.0.0.1:1/elsewhere", "answers 302", false},
		{200, strings.Repeat(" ", maxAnswer+1), "too large", false},
	} {
		s.status, s.body = step.status, step.body
		_, err := c.Status(t.Context(), config.NewSecret("sk-prov-x"))
		switch {
		case err == nil:
			t.Errorf("%d %.50q: got no error, want one", step.status, step.body)
		case !strings.Contains(err.Error(), step.want):
			t.Errorf("%d %.50q: got the error %q, want %q in it", step.status, step.body, err, step.want)
		case errors.Is(err, ErrKey) != step.isKey:
			t.Errorf("%d %.50q: errors.Is(err, ErrKey): got %t, want %t", step.status, step.body, errors.Is(err, ErrKey),
				step.isKey)
		case len(err.Error()) > 500:
			t.Errorf("%d %.50q: len(err.Error()): got %d, want at most 500", step.status, step.body, len(err.Error()))
		case strings.ContainsAny(err.Error(), "\x1b\n"):
			t.Errorf("%d %.50q: strings.ContainsAny(…): got true, want false", step.status, step.body)
		}
		if err != nil && strings.Contains(err.Error(), "sk-prov-x") {
			t.Errorf("the key is told: %v", err)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := c.Status(ended, config.Secret{}); err == nil {
		t.Error("behind its time: got no error, want one")
	} else if !strings.Contains(err.Error(), "does not answer") {
		t.Errorf(`behind its time: got the error %q, want "does not answer" in it`, err)
	}
}

func FuzzParseStatus(f *testing.F) {
	f.Add([]byte(
		`{"status":"active","nodes":[{"vram_gb":23,"last_seen_at":null}],"traffic":{"rejects":[{"reason":"full",` +
			`"count":3}],"models":[]}}`))
	f.Add([]byte(`{"status":"pending","next_steps":null,"later":{}}`))
	f.Fuzz(func(t *testing.T, answer []byte) {
		if s, err := ParseStatus(answer); err == nil && s.Status == "" {
			t.Fatal("a status without one")
		}
	})
}
