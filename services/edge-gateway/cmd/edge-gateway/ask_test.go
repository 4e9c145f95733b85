package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const askKey = "sk-svc-0123456789"

// asked runs ask against a server that gives one answer.
func asked(t *testing.T, status int, answer string) (code int, out, errs string, request *http.Request) {
	t.Helper()
	var got *http.Request
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Clone(r.Context())
		w.Header().Set("X-Svc-Provider-Id", "provider-7")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(askKey+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	args := []string{"-url", server.URL + "/v1", "-model", "tinylm-1", "-key-file", file}
	code = ask(t.Context(), args, &stdout, &stderr)
	return code, stdout.String(), stderr.String(), got
}

const askCompletion = `{"choices":[{"finish_reason":"length","message":{"content":"hello"}}],
	"usage":{"completion_tokens":8}}`

func TestAskSaysWhoAnswered(t *testing.T) {
	t.Parallel()
	code, out, errs, request := asked(t, http.StatusOK, askCompletion)
	if code != 0 {
		t.Errorf("exit code: got %d, want 0: %s", code, errs)
	}
	if want := "tinylm-1 answered with 8 tokens"; !strings.HasPrefix(out, want) {
		t.Errorf("output: got %q, want the prefix %q", out, want)
	}
	if want := "provider provider-7"; !strings.Contains(out, want) {
		t.Errorf("output: got %q, want %q in it", out, want)
	}
	if got, want := request.URL.Path, "/v1/chat/completions"; got != want {
		t.Errorf("path: got %q, want %q", got, want)
	}
	if got, want := request.Header.Get("Authorization"), "Bearer "+askKey; got != want {
		t.Errorf("authorization: got %q, want %q", got, want)
	}
}

func TestAskFailsWithoutACompletion(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status int
		answer string
	}{
		"refused":            {http.StatusPaymentRequired, `{"error":{"message":"no credit"}}`},
		"no choices":         {http.StatusOK, `{"choices":[],"usage":{"completion_tokens":8}}`},
		"unfinished":         {http.StatusOK, `{"choices":[{}],"usage":{"completion_tokens":8}}`},
		"no tokens":          {http.StatusOK, `{"choices":[{"finish_reason":"stop"}],"usage":{"completion_tokens":0}}`},
		"not JSON":           {http.StatusOK, "<html>"},
		"answer of an error": {http.StatusBadGateway, askCompletion},
	} {
		code, out, errs, _ := asked(t, c.status, c.answer)
		if code != 1 {
			t.Errorf("%s: exit code: got %d, want 1", name, code)
		}
		if out != "" {
			t.Errorf("%s: output: got %q, want none", name, out)
		}
		if strings.Contains(errs, askKey) {
			t.Errorf("%s: errors: got the key, want it hidden: %q", name, errs)
		}
	}
}

func TestAskRefusesACommandLineThatCannotWork(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		want int
	}{
		"nothing":        {nil, 2},
		"unknown flag":   {[]string{"-nonsense"}, 2},
		"too much":       {[]string{"-url", "http://127.0.0.1/v1", "-model", "m", "-key-file", empty, "more"}, 2},
		"no such file":   {[]string{"-url", "http://127.0.0.1/v1", "-model", "m", "-key-file", empty + "-none"}, 1},
		"an empty file":  {[]string{"-url", "http://127.0.0.1/v1", "-model", "m", "-key-file", empty}, 1},
		"no time at all": {[]string{"-url", "http://127.0.0.1/v1", "-model", "m", "-key-file", empty, "-timeout", "0s"}, 2},
	} {
		if got := ask(t.Context(), c.args, io.Discard, io.Discard); got != c.want {
			t.Errorf("%s: exit code: got %d, want %d", name, got, c.want)
		}
	}
}

func TestAskAsksNobodyWithoutAKey(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(empty, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var errs bytes.Buffer
	code := ask(t.Context(), []string{"-url", "http://127.0.0.1/v1", "-model", "m", "-key-file", empty}, io.Discard, &errs)
	if code != 1 {
		t.Errorf("exit code: got %d, want 1", code)
	}
	if want := empty + " is empty"; !strings.Contains(errs.String(), want) {
		t.Errorf("errors: got %q, want %q in it", errs.String(), want)
	}
}
