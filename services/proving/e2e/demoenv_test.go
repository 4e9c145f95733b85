package e2e

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"svc.internal/pkg/pgtest"
	"svc.internal/services/proving/internal/trial"
	"svc.internal/services/standalone/demo"
)

// A reader of demo.env can call everything in it at once, because the file is written
// last.
func TestTheDemosFileIsThereOnlyWhenItsModelIsCallable(t *testing.T) {
	t.Parallel() // it has a marketplace of its own
	dir := trial.Dir(t)
	path := filepath.Join(dir, "demo.env")
	// An earlier start, which was killed, has left its own.
	if err := os.WriteFile(path, []byte("SVC_BASE_URL=http://127.0.0.1:1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out := trial.StartPart(t, "", "DATABASE_URL="+pgtest.URL(t), "SVC_HTTP_ADDR=127.0.0.1:0",
		"SVC_OPERATOR_ADDR=127.0.0.1:0",
		"SVC_WS_ADDR=127.0.0.1:0", "SVC_DATA_DIR="+dir, "OLLAMA_HOST=127.0.0.1:1")
	var m *trial.Market
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for deadline := time.After(trial.Patience); m == nil; {
		// The earlier file is removed at some time, so it is not read twice.
		if text, err := os.ReadFile(path); err == nil && !bytes.Contains(text, []byte("http://127.0.0.1:1\n")) {
			m = trial.Attach(trial.ReadEnv(t, path))
			continue
		}
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("got no demo.env:\n%s", out.Text())
		}
	}
	if status, _, body := m.Call(t, http.MethodPost, trial.ChatPath, m.Key(),
		trial.Chat(m.Model(), `,"max_tokens":8`)); status != http.StatusOK {
		t.Errorf("got %d %s at once, want an answer", status, body)
	}
	if status, _, _ := m.Call(t, http.MethodGet, "/api/v1/admin/providers", m.Env["SVC_ADMIN_TOKEN"],
		""); status != http.StatusNotFound {
		t.Errorf("got %d for an operator's route of the public listener, want 404", status)
	}
	m.Admin(t, http.MethodGet, "/api/v1/admin/providers", "")
	everybodySignsIn(t, m)
}

// everybodySignsIn has the people of the demo sign in by what its file says.
func everybodySignsIn(t *testing.T, m *trial.Market) {
	t.Helper()
	login := func(fields map[string]string) string {
		text, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for _, who := range []string{"CONSUMER", "OWNER"} {
		body := login(map[string]string{"email": m.Env["SVC_"+who+"_EMAIL"], "password": m.Env["SVC_"+who+"_PASSWORD"]})
		if status, _, answer := m.Call(t, http.MethodPost, "/api/v1/user/login", "", body); status != http.StatusOK {
			t.Errorf("%s signs in: got %d %s, want 200", who, status, answer)
		}
	}
	code, _, err := demo.Code(m.Env["SVC_OPERATOR_SECRET"], time.Now())
	if err != nil {
		t.Fatal(err)
	}
	status, _, answer := trial.CallAt(t, m.AdminURL(), http.MethodPost, "/api/v1/admin/session", "",
		login(map[string]string{"name": m.Env["SVC_OPERATOR_NAME"], "password": m.Env["SVC_OPERATOR_PASSWORD"],
			"code": code}), "Content-Type", "application/json")
	if status != http.StatusOK {
		t.Fatalf("the operator signs in: got %d %s, want 200", status, answer)
	}
	if role := trial.Text(t, trial.Decode(t, answer), "operator", "role"); role != "admin" {
		t.Errorf("the operator's role: got %q, want admin", role)
	}
}
