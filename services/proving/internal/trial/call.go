package trial

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// ChatPath is the path of chat completions, RequestIDHeader the header that
// names a request for its receipt.
const (
	ChatPath        = "/v1/chat/completions"
	RequestIDHeader = "X-Svc-Request-ID"
)

// Chat is a body of one message for a model; extra members begin with a comma.
func Chat(model, extra string) string {
	return fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"Say something."}]%s}`, model, extra)
}

// Call makes a request with a key (empty for none), and pairs of header names
// and values, and returns the status, headers and body.
func (m *Market) Call(t testing.TB, method, path, key, body string, headers ...string) (int, http.Header, []byte) {
	t.Helper()
	return CallAt(t, m.Base(), method, path, key, body, headers...)
}

// CallAt is Call to a certain gateway.
func CallAt(t testing.TB, base, method, path, key, body string, headers ...string) (int, http.Header, []byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, base+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s %s: %v after %q", method, path, err, Tail(string(answer), 200))
	}
	return resp.StatusCode, resp.Header, answer
}

// Open begins a chat completion, for tests that read or leave it themselves.
func (m *Market) Open(ctx context.Context, t testing.TB, key, body string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.Base()+ChatPath, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// Admin makes an operator's call, at the operators' listener, and decodes the response.
func (m *Market) Admin(t testing.TB, method, path, body string) map[string]any {
	t.Helper()
	status, _, answer := CallAt(t, m.AdminURL(), method, path, m.Env["SVC_ADMIN_TOKEN"], body)
	if status != http.StatusOK {
		t.Fatalf("%s %s: %d %s", method, path, status, answer)
	}
	return Decode(t, answer)
}

// Decode reads a JSON object.
func Decode(t testing.TB, body []byte) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatalf("not JSON: %v: %.300s", err, body)
	}
	return v
}

// ErrorCode is the code of an API error; empty for another body.
func ErrorCode(body []byte) string {
	var v struct {
		Error struct {
			Code string `json:"code"`
		} `json:"error"`
	}
	if err := json.Unmarshal(body, &v); err != nil {
		return ""
	}
	return v.Error.Code
}

// At walks nested objects (by name) and lists (by number) of a decoded answer;
// nil where there is nothing.
func At(v any, path ...any) any {
	for _, step := range path {
		switch s := step.(type) {
		case string:
			m, ok := v.(map[string]any)
			if !ok {
				return nil
			}
			v = m[s]
		case int:
			l, ok := v.([]any)
			if !ok || s >= len(l) {
				return nil
			}
			v = l[s]
		}
	}
	return v
}

// Text is At for a string; it fails the test where there is none.
func Text(t testing.TB, v any, path ...any) string {
	t.Helper()
	s, ok := At(v, path...).(string)
	if !ok {
		t.Fatalf("no text at %v of %v", path, v)
	}
	return s
}
