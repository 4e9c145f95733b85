package engine

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"svc.internal/services/proving/internal/chaos/record"
)

type bench struct {
	*Engine
	path string
	out  *record.File[record.Engine]
}

func begin(t *testing.T) *bench {
	t.Helper()
	b := &bench{path: filepath.Join(t.TempDir(), record.EnginesFile)}
	var err error
	if b.out, err = record.Create[record.Engine](b.path); err != nil {
		t.Fatal(err)
	}
	if b.Engine, err = Start("e", "p", []string{"m"}, b.out); err != nil {
		t.Fatal(err)
	}
	return b
}

// lines ends the engine and returns what it has recorded, by nonce.
func (b *bench) lines(t *testing.T) map[string]record.Engine {
	t.Helper()
	if err := b.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	if err := b.out.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(b.path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := map[string]record.Engine{}
	for s := bufio.NewScanner(file); s.Scan(); {
		var line record.Engine
		if err := json.Unmarshal(s.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		lines[line.Nonce] = line
	}
	return lines
}

func (b *bench) ask(ctx context.Context, t *testing.T, nonce, end string, stream bool, pause int) (int, string) {
	t.Helper()
	body := fmt.Sprintf(
		`{"model":"m","stream":%v,"stream_options":{"include_usage":true},"metadata":{"nonce":%q,"tokens":"4",`+
			`"pause_us":"%d","end":%q}}`,
		stream, nonce, pause, end)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.URL+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Request-ID", "id-"+nonce)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, ""
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body) // what came before it broke
	return resp.StatusCode, string(text)
}

func TestTheRequestDecidesTheAnswerAndTheRecordSaysWhatWasSent(t *testing.T) {
	b := begin(t)
	for _, c := range []struct {
		end          string
		stream       bool
		status       int
		tokens       int64
		complete     bool
		has, hasNone string
	}{
		{EndNormal, true, 200, 4, true, `"completion_tokens":4`, "error"},
		{EndNormal, false, 200, 4, true, `"word word word word"`, "error"},
		{EndSilent, true, 200, 4, true, "[DONE]", "usage"},
		{EndSilent, false, 200, 4, true, "word", "usage"},
		{EndReset, true, 200, 2, false, "word", "[DONE]"},
		{EndError, true, 200, 2, false, "server_error", "[DONE]"},
		{EndError, false, 200, 0, false, "server_error", "word"},
		{EndRefuse, true, 400, 0, true, "refused", "word"},
		{EndFailing, false, 500, 0, true, "fails", "word"},
	} {
		nonce := fmt.Sprint(c.end, c.stream)
		status, text := b.ask(t.Context(), t, nonce, c.end, c.stream, 0)
		switch {
		case status != c.status:
			t.Errorf("%s: status: got %d, want %d", nonce, status, c.status)
		case !strings.Contains(text, c.has):
			t.Errorf("%s: text: got %q, want %q in it", nonce, text, c.has)
		case strings.Contains(text, c.hasNone):
			t.Errorf("%s: text: got %q, want it without %q", nonce, text, c.hasNone)
		}
	}
	lines := b.lines(t)
	for nonce, want := range map[string]record.Engine{
		"true":         {CompletionTokens: 4, Status: 200, Complete: true},
		"resettrue":    {CompletionTokens: 2, Status: 200},
		"errorfalse":   {Status: 200},
		"refusetrue":   {Status: 400, Complete: true},
		"failingfalse": {Status: 500, Complete: true},
	} {
		got := lines[nonce]
		switch {
		case got.CompletionTokens != want.CompletionTokens:
			t.Errorf("%s is recorded: CompletionTokens: got %d, want %d", nonce, got.CompletionTokens, want.CompletionTokens)
		case got.Status != want.Status:
			t.Errorf("%s is recorded: Status: got %d, want %d", nonce, got.Status, want.Status)
		case got.Complete != want.Complete:
			t.Errorf("%s is recorded: Complete: got %t, want %t", nonce, got.Complete, want.Complete)
		case got.Cut:
			t.Errorf("%s is recorded: Cut: got true, want false", nonce)
		case got.RequestID != "id-"+nonce:
			t.Errorf("%s is recorded: RequestID: got %q, want %q", nonce, got.RequestID, "id-"+nonce)
		case got.ProviderID != "p":
			t.Errorf(`%s is recorded: ProviderID: got %q, want "p"`, nonce, got.ProviderID)
		case got.Engine != "e":
			t.Errorf(`%s is recorded: Engine: got %q, want "e"`, nonce, got.Engine)
		case got.PromptTokens != PromptTokens:
			t.Errorf("%s is recorded: PromptTokens: got %d, want %d", nonce, got.PromptTokens, PromptTokens)
		}
	}
}

func TestAHangUpIsRecordedWithWhatWasSentBefore(t *testing.T) {
	b := begin(t)
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.URL+"/v1/chat/completions",
		strings.NewReader(`{"model":"m","stream":true,"metadata":{"nonce":"n","tokens":"1000","pause_us":"50000"}}`))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() && !strings.Contains(lines.Text(), "word") {
	}
	cancel()
	resp.Body.Close()
	switch got := b.lines(t)["n"]; {
	case !got.Cut:
		t.Error("recorded: Cut: got false, want true")
	case got.Complete:
		t.Error("recorded: Complete: got true, want false")
	case got.CompletionTokens < 1 || got.CompletionTokens > 900:
		t.Errorf("recorded: CompletionTokens: got %d, want 1 to 900", got.CompletionTokens)
	}
}

func TestWhatCannotBeReadIsRefused(t *testing.T) {
	b := begin(t)
	for _, body := range []string{"", "{", `{"metadata":{"tokens":"x","pause_us":"0"}}`,
		`{"metadata":{"tokens":"9999","pause_us":"0"}}`, `{"metadata":{"tokens":"1","pause_us":"-1"}}`} {
		url := b.URL + "/v1/chat/completions"
		resp, err := http.Post(url, "application/json", strings.NewReader(body)) //nolint:noctx // it is refused at once
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%q: resp.StatusCode: got %d, want 400", body, resp.StatusCode)
		}
	}
	if lines := b.lines(t); len(lines) != 0 {
		t.Errorf("recorded: got %d, want 0, in %v", len(lines), lines)
	}
}
