//go:build engine

package engine

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/openai"
	"svc.internal/services/proving/internal/trial"
)

// lengthy is an answer that keeps the slow model busy for most of a minute.
// Nothing below waits for its end.
const lengthy = `,"stream":true,"temperature":1,"seed":9,"max_tokens":6000`

// promptly is how soon the engine must stop after its answer is not wanted any more.
const promptly = 15 * time.Second

// begin opens a stream and reads its first content.
func (m *market) begin(ctx context.Context, t *testing.T, body string) (rest *bufio.Reader, first, requestID string) {
	t.Helper()
	resp := m.Open(ctx, t, m.key, body)
	t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("status: got %d, want 200", resp.StatusCode)
	}
	rest = bufio.NewReader(resp.Body)
	for {
		line, err := rest.ReadString('\n')
		if err != nil {
			t.Fatalf("the stream ends at once: %v", err)
		}
		if strings.HasPrefix(line, "data: ") {
			return rest, line, resp.Header.Get(trial.RequestIDHeader)
		}
	}
}

// brokenOff reads what follows the first content of a stream that must end in an error.
// It returns the number of tokens that are charged for the delivery: no engine has
// counted them, so it is the marketplace's estimate.
func brokenOff(t *testing.T, first string, rest io.Reader) (delivered float64) {
	t.Helper()
	s := read(t, io.MultiReader(strings.NewReader(first), rest))
	if s.failed == nil {
		t.Error("the client was told: error: got nil, want a value")
	} else if s.done {
		t.Error("the client was told: s.done: got true, want false")
	} else if got := trial.At(s.failed, "code"); got != "upstream_error" {
		t.Errorf(`the client was told: error: trial.At(s.failed, "code"): got %v, want "upstream_error"`, got)
	}
	if s.text == "" {
		t.Error("nothing was delivered")
	}
	quoted, err := json.Marshal(s.text) // the estimate reads text as JSON spells it
	if err != nil {
		t.Fatal(err)
	}
	return float64(openai.EstimateTokens(quoted[1 : len(quoted)-1]))
}

func TestAHangUpStopsTheEngineAndIsChargedAsDelivered(t *testing.T) {
	m := open(t, slow)
	ctx, hangUp := context.WithCancel(t.Context())
	_, _, id := m.begin(ctx, t, trial.Chat(slow, lengthy))
	hangUp()
	began := time.Now()
	// The engine answers one request at a time, so it has stopped when it takes another.
	m.chat(t, trial.Chat(slow, `,"max_tokens":1`))
	if took := time.Since(began); took > promptly {
		t.Errorf("the engine was busy for: got %v, want at most %v", took, promptly)
	}
	prompt, completion := m.settled(t, id, "client_gone")
	// What it said before it noticed the hang-up may count.
	if prompt < 1 {
		t.Errorf("prompt: got %v, want at least 1", prompt)
	} else if completion < 1 || completion > 1000 {
		t.Errorf("completion: got %v, want 1 to 1000", completion)
	}
	m.NothingHeld(t, m.account)
	m.Balanced(t)
}

func TestAHangUpBeforeAWholeAnswerStopsTheEngineAndIsFree(t *testing.T) {
	m := open(t, slow)
	ctx, hangUp := context.WithCancel(t.Context())
	left := make(chan reply, 1)
	go func() { left <- m.post(ctx, trial.Chat(slow, strings.Replace(lengthy, "true", "false", 1))) }()
	m.engine.answering(t, 1)
	hangUp()
	if r := <-left; !errors.Is(r.err, context.Canceled) {
		t.Fatalf("the answer, at the hang-up: got the error %v, want %v", r.err, context.Canceled)
	}
	began := time.Now()
	_, id := m.chat(t, trial.Chat(slow, `,"max_tokens":1`))
	if took := time.Since(began); took > promptly {
		t.Errorf("the engine was busy for: got %v, want at most %v", took, promptly)
	}
	prompt, completion := m.settled(t, id, "completed")
	m.spent(t, prompt, completion)
}

func TestAnEngineKilledBeforeAWholeAnswerIsReplacedAndOnlyTheAnswerCharged(t *testing.T) {
	m := open(t, slow)
	spare := serve(t, slow)
	second := m.Join(t, "spare", spare.url(), slow)
	answered := make(chan reply, 1)
	go func() {
		answered <- m.post(t.Context(), trial.Chat(slow, `,"temperature":1,"seed":9,"max_tokens":200`), "X-Svc-Provider",
			m.provider.ID)
	}()
	m.engine.answering(t, 1)
	m.engine.kill()
	got := <-answered
	switch {
	case got.status != http.StatusOK:
		t.Fatalf("status: got %d, want 200", got.status)
	case got.header.Get("X-Svc-Provider-Id") != second.ID:
		t.Fatalf(`got.header.Get("X-Svc-Provider-Id"): got %q, want %q`, got.header.Get("X-Svc-Provider-Id"), second.ID)
	case got.header.Get("X-Svc-Attempts") != "2":
		t.Fatalf(`got.header.Get("X-Svc-Attempts"): got %q, want "2"`, got.header.Get("X-Svc-Attempts"))
	}
	prompt, completion := m.settled(t, got.header.Get(trial.RequestIDHeader), "completed")
	m.spent(t, prompt, completion)
	m.Balanced(t)
}

func TestAnEngineKilledInAStreamIsPaidForWhatItDeliveredAndComesBack(t *testing.T) {
	m := open(t, slow)
	rest, first, id := m.begin(t.Context(), t, trial.Chat(slow, lengthy))
	m.engine.kill()
	delivered := brokenOff(t, first, rest)
	prompt, completion := m.settled(t, id, "truncated")
	if prompt != 0 {
		t.Errorf("%v and %v tokens are charged; the delivered text has %v: prompt: got %v, want 0", prompt, completion,
			delivered, prompt)
	} else if completion != delivered {
		t.Errorf("%v and %v tokens are charged; the delivered text has %v: completion: got %v, want %v", prompt, completion,
			delivered, completion, delivered)
	}
	m.spent(t, 0, completion)
	trial.Until(t, "the dead engine's model is not offered any more",
		func() bool { return !m.Offers(t, slow, m.provider.ID) })
	status, header, body := m.Call(t, http.MethodPost, trial.ChatPath, m.key, trial.Chat(slow, ""))
	if status != http.StatusServiceUnavailable {
		t.Errorf("with no engine: status: got %d, want 503 (body is %s)", status, body)
	} else if header.Get("Retry-After") == "" {
		t.Errorf(`with no engine: header.Get("Retry-After"): got "", want some text (body is %s)`, body)
	}
	m.engine.start(t)
	m.WaitOffered(t, slow, m.provider.ID)
	if answer, _ := m.chat(t, trial.Chat(slow, `,"max_tokens":3`)); content(t, answer) == "" {
		t.Error(`after its return: got "", want some text`)
	}
	m.Balanced(t)
}

// When the process that runs the model dies, Ollama itself lives. It ends the stream as
// if all were well, except for the finish_reason.
func TestAModelThatCrashesInAStreamIsNotTakenForAnAnswer(t *testing.T) {
	m := open(t, slow)
	rest, first, id := m.begin(t.Context(), t, trial.Chat(slow, lengthy))
	m.engine.killRunner(t)
	delivered := brokenOff(t, first, rest)
	if prompt, completion := m.settled(t, id, "truncated"); prompt != 0 {
		t.Errorf("%v and %v tokens are charged; the delivered text has %v: prompt: got %v, want 0", prompt, completion,
			delivered, prompt)
	} else if completion != delivered {
		t.Errorf("%v and %v tokens are charged; the delivered text has %v: completion: got %v, want %v", prompt, completion,
			delivered, completion, delivered)
	}
	if answer, _ := m.chat(t, trial.Chat(slow, `,"max_tokens":3`)); content(t, answer) == "" {
		t.Error(`after the crash: got "", want some text`)
	}
}

// Ollama breaks off when a token is repeated thirty times: without a finish_reason and,
// in a whole answer, with a usage of zeros.
func TestAnAnswerThatTheEngineBreaksOffIsNotTakenForAWholeOne(t *testing.T) {
	m := open(t, tiny)
	body := trial.Chat(tiny, `,"temperature":0,"max_tokens":300`+always(strings.Repeat("#", 200)))
	status, header, text := m.Call(t, http.MethodPost, trial.ChatPath, m.key, body)
	if status != http.StatusBadGateway {
		t.Errorf("whole: status: got %d, want 502, with %s", status, text)
	} else if got := trial.At(trial.Decode(t, text), "error", "code"); got != "upstream_error" {
		t.Errorf(`whole: trial.At(…): got %v, want "upstream_error", with %s`, got, text)
	}
	m.free(t, header.Get(trial.RequestIDHeader))
	status, header, text = m.Call(t, http.MethodPost, trial.ChatPath, m.key,
		strings.TrimSuffix(body, "}")+`,"stream":true}`)
	if status != http.StatusOK {
		t.Fatalf("status: got %d, want 200, with %s", status, text)
	}
	delivered := brokenOff(t, "", strings.NewReader(string(text)))
	prompt, completion := m.settled(t, header.Get(trial.RequestIDHeader), "truncated")
	if prompt != 0 {
		t.Errorf("%v and %v tokens are charged; the delivered text has %v: prompt: got %v, want 0", prompt, completion,
			delivered, prompt)
	} else if completion != delivered {
		t.Errorf("%v and %v tokens are charged; the delivered text has %v: completion: got %v, want %v", prompt, completion,
			delivered, completion, delivered)
	}
}

func TestAModelThatTheEngineLostIsAFailureThatMovesOnAndCostsNothing(t *testing.T) {
	m := open(t, tiny)
	spare := serve(t, tiny)
	second := m.Join(t, "spare", spare.url(), tiny)
	m.engine.remove(t, tiny)
	pin := []string{"X-Svc-Provider", m.provider.ID}
	status, header, body := m.Call(t, http.MethodPost, trial.ChatPath, m.key, trial.Chat(tiny, greedy), pin...)
	switch {
	case status != http.StatusOK:
		t.Errorf("with a spare: status: got %d, want 200, with %s", status, body)
	case header.Get("X-Svc-Provider-Id") != second.ID:
		t.Errorf(`with a spare: header.Get("X-Svc-Provider-Id"): got %q, want %q, with %s`, header.Get("X-Svc-Provider-Id"),
			second.ID, body)
	case header.Get("X-Svc-Fallback-Reason") == "":
		t.Errorf(`with a spare: header.Get("X-Svc-Fallback-Reason"): got "", want some text, with %s`, body)
	}
	prompt, completion := m.settled(t, header.Get(trial.RequestIDHeader), "completed")
	status, header, body = m.Call(t, http.MethodPost, trial.ChatPath, m.key, trial.Chat(tiny, greedy),
		append(pin, "X-Svc-Allow-Fallbacks", "false")...)
	if status < 500 {
		t.Errorf("with no other: got %d, want at least 500, with %s", status, body)
	}
	if id := header.Get(trial.RequestIDHeader); id != "" {
		m.free(t, id)
	}
	m.spent(t, prompt, completion)
	trial.Until(t, "the lost model is not offered any more", func() bool { return !m.Offers(t, tiny, m.provider.ID) })
	m.engine.create(t, tiny)
	m.WaitOffered(t, tiny, m.provider.ID)
}
