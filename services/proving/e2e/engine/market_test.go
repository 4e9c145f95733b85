//go:build engine

package engine

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"svc.internal/pkg/money"
	"svc.internal/services/proving/internal/trial"
)

// market is a marketplace with a provider whose engine is Ollama, and a
// consumer with a dollar.
type market struct {
	*trial.Market
	engine       *ollama
	provider     *trial.Provider
	account, key string
}

// open runs a marketplace in front of an Ollama that serves models.
func open(t *testing.T, models ...string) *market {
	t.Helper()
	m := &market{engine: serve(t, models...)}
	m.Market = trial.Start(t, "SVC_DEMO_AGENT=off", "SVC_LOG_LEVEL=error")
	for _, model := range models {
		m.list(t, model)
	}
	m.provider = m.Join(t, "owner", m.engine.url(), models...)
	m.account, m.key = m.Consumer(t, "1")
	return m
}

// listedWindow is the window of models in the catalog, and of the engine's but the narrow one.
const listedWindow = 8192

// list puts a model into the catalog that may answer at length. An input token
// costs 1,000 and an output token 3,000 nano-USD.
func (m *market) list(t *testing.T, model string) {
	t.Helper()
	category := "llm"
	if model == vectors {
		category = "embedding"
	}
	m.Admin(t, http.MethodPut, "/api/v1/admin/models/"+model, `{"name":"Test model","category":"`+category+
		`","input_price":"1","output_price":"3",
		"payout_input_price":"0.9","payout_output_price":"2.7","context_length":8192,"max_output_tokens":8000}`)
}

// chat asks for a whole answer and fails the test unless it comes.
func (m *market) chat(t *testing.T, body string) (answer map[string]any, requestID string) {
	t.Helper()
	status, header, text := m.Call(t, http.MethodPost, trial.ChatPath, m.key, body)
	if status != http.StatusOK {
		t.Fatalf("status: got %d, want 200, with %s", status, text)
	}
	return trial.Decode(t, text), header.Get(trial.RequestIDHeader)
}

// reply is an answer as it came, or why none came.
type reply struct {
	status int
	header http.Header
	text   string
	err    error
}

// post makes a chat completion, for goroutines beside that of the test.
func (m *market) post(ctx context.Context, body string, headers ...string) reply {
	ctx, cancel := context.WithTimeout(ctx, trial.Patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.Base()+trial.ChatPath, strings.NewReader(body))
	if err != nil {
		return reply{err: err}
	}
	req.Header.Set("Authorization", "Bearer "+m.key)
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return reply{err: err}
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return reply{status: resp.StatusCode, header: resp.Header, text: string(text), err: err}
}

// streamed is a stream that was read to its end.
type streamed struct {
	chunks []map[string]any
	// text is all content, usage the chunks with usage, finish the last finish_reason,
	// failed the error event.
	text   string
	usage  []any
	finish any
	failed any
	done   bool
}

// stream asks for a streamed answer and reads it.
func (m *market) stream(t *testing.T, body string) (s streamed, requestID string) {
	t.Helper()
	status, header, text := m.Call(t, http.MethodPost, trial.ChatPath, m.key, body)
	if status != http.StatusOK {
		t.Fatalf("status: got %d, want 200, with %s", status, text)
	}
	return read(t, strings.NewReader(string(text))), header.Get(trial.RequestIDHeader)
}

// read takes a stream's events apart.
func read(t *testing.T, body io.Reader) streamed {
	t.Helper()
	var s streamed
	for lines := bufio.NewScanner(body); lines.Scan(); {
		data, isData := strings.CutPrefix(lines.Text(), "data: ")
		switch {
		case !isData:
		case s.done || s.failed != nil:
			t.Errorf("after the end comes %s", data)
		case data == "[DONE]":
			s.done = true
		default:
			s.add(trial.Decode(t, []byte(data)))
		}
	}
	return s
}

func (s *streamed) add(chunk map[string]any) {
	if s.failed = chunk["error"]; s.failed != nil {
		return
	}
	s.chunks = append(s.chunks, chunk)
	if usage := chunk["usage"]; usage != nil {
		s.usage = append(s.usage, usage)
	}
	if content, ok := trial.At(chunk, "choices", 0, "delta", "content").(string); ok {
		s.text += content
	}
	if finish := trial.At(chunk, "choices", 0, "finish_reason"); finish != nil {
		s.finish = finish
	}
}

// content is the text of a whole answer.
func content(t *testing.T, answer map[string]any) string {
	t.Helper()
	return trial.Text(t, answer, "choices", 0, "message", "content")
}

// tokens are a usage's counts.
func tokens(usage any) (prompt, completion float64) {
	prompt, _ = trial.At(usage, "prompt_tokens").(float64)
	completion, _ = trial.At(usage, "completion_tokens").(float64)
	return prompt, completion
}

// settled reads a request's receipt. It fails the test unless the request is settled with
// that ending, and its cost is that of its tokens to the nano-dollar.
func (m *market) settled(t *testing.T, requestID, ending string) (prompt, completion float64) {
	t.Helper()
	receipt := m.Receipt(t, m.key, requestID)
	prompt, completion = tokens(receipt)
	switch {
	case receipt["status"] != "settled":
		t.Errorf(`receipt["status"]: got %v, want "settled"`, receipt["status"])
	case receipt["ending"] != ending:
		t.Errorf(`receipt["ending"]: got %v, want %v`, receipt["ending"], ending)
	case receipt["cost_usd_str"] != cost(prompt, completion):
		t.Errorf(`receipt["cost_usd_str"]: got %v, want %v`, receipt["cost_usd_str"], cost(prompt, completion))
	}
	return prompt, completion
}

// free fails the test unless a request was released and has cost nothing.
func (m *market) free(t *testing.T, requestID string) {
	t.Helper()
	if receipt := m.Receipt(t, m.key, requestID); receipt["status"] != "released" {
		t.Errorf(`receipt["status"]: got %v, want "released"`, receipt["status"])
	} else if receipt["cost_usd_str"] != "0.00" {
		t.Errorf(`receipt["cost_usd_str"]: got %v, want "0.00"`, receipt["cost_usd_str"])
	}
}

// spent fails the test unless the account has paid exactly for so many tokens.
func (m *market) spent(t *testing.T, prompt, completion float64) {
	t.Helper()
	m.NothingHeld(t, m.account)
	left := money.USD - nano(prompt, completion)
	if balance, _ := m.Balance(t, m.account); balance != left.String() {
		t.Errorf("the balance: got %s, want %s", balance, left)
	}
}

func cost(prompt, completion float64) string { return nano(prompt, completion).String() }

func nano(prompt, completion float64) money.NanoUSD {
	return money.NanoUSD(1_000*prompt + 3_000*completion)
}

// schema is a response_format that allows two members only.
const schema = `,"response_format":{"type":"json_schema","json_schema":{"name":"verdict","strict":true,` +
	`"schema":{"type":"object",
	"properties":{"ok":{"type":"boolean"},"kind":{"enum":["a","b"]}},"required":["ok","kind"],` +
	`"additionalProperties":false}}}`

// always is a response_format that allows one text only.
func always(text string) string {
	return fmt.Sprintf(`,"response_format":{"type":"json_schema","json_schema":{"name":"text","schema":{"const":%q}}}`,
		text)
}
