// Package engine is the engine of a chaos run. It speaks OpenAI's API, answers as the
// request's metadata asks, and records what it sent.
//
// The client decides how it is answered, so that one seed decides everything: metadata
// holds, as strings, the nonce, the number of tokens, the pause before each in
// microseconds, and how the answer ends. An answer that is not streamed comes after all
// the pauses.
//
// Limits: a body of 1 MiB, MaxTokens tokens.
package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"svc.internal/services/proving/internal/chaos/record"
)

const (
	// MaxTokens bounds an answer.
	MaxTokens = 1024
	// PromptTokens is the reported prompt of every answer.
	PromptTokens = 7
	maxBody      = 1 << 20
	// token is the text of every token but the first, which has no space.
	token = " word"
)

// The ways in which an answer may end.
const (
	EndNormal  = ""        // as it should
	EndSilent  = "silent"  // without usage
	EndReset   = "reset"   // the connection is reset half-way
	EndError   = "error"   // an error object in the stream half-way, or 200 with one
	EndRefuse  = "refuse"  // 400: the content is refused
	EndFailing = "failing" // 500 at once
)

// Metadata names of a request's instructions to the engine.
const (
	MetaNonce  = "nonce"
	MetaTokens = "tokens"
	MetaPause  = "pause_us"
	MetaEnd    = "end"
)

// Engine is a running engine.
type Engine struct {
	// Name is the engine's name in its records, and URL its root without /v1.
	Name, URL string

	provider string
	models   []string
	out      *record.File[record.Engine]
	server   *http.Server
	served   chan error
	// wg are the answers under way. The server does not know those whose connections were
	// reset on purpose.
	wg sync.WaitGroup
}

// Start starts an engine for a provider on a free port of the loopback.
func Start(name, provider string, models []string, out *record.File[record.Engine]) (*Engine, error) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start engine %s: %w", name, err)
	}
	e := &Engine{Name: name, URL: "http://" + lis.Addr().String(), provider: provider, models: models, out: out,
		served: make(chan error, 1)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", e.list)
	mux.HandleFunc("POST /v1/chat/completions", e.chat)
	e.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { e.served <- e.server.Serve(lis) }()
	return e, nil
}

// Stop ends the answers under way and returns when all of them are recorded.
func (e *Engine) Stop(ctx context.Context) error {
	err := e.server.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, e.server.Close())
	}
	e.wg.Wait()
	if served := <-e.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

func (e *Engine) list(w http.ResponseWriter, _ *http.Request) {
	type model struct {
		ID     string `json:"id"`
		Object string `json:"object"`
	}
	var list []model
	for _, id := range e.models {
		list = append(list, model{id, "model"})
	}
	answer(w, http.StatusOK, map[string]any{"object": "list", "data": list})
}

// order is what a request asks for.
type order struct {
	Model         string            `json:"model"`
	Stream        bool              `json:"stream"`
	StreamOptions *streamOptions    `json:"stream_options"`
	Metadata      map[string]string `json:"metadata"`

	tokens int
	pause  time.Duration
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

func readOrder(r *http.Request) (order, error) {
	var o order
	if err := json.NewDecoder(io.LimitReader(r.Body, maxBody)).Decode(&o); err != nil {
		return o, err
	}
	var err error
	if o.tokens, err = strconv.Atoi(o.Metadata[MetaTokens]); err != nil || o.tokens < 0 || o.tokens > MaxTokens {
		return o, fmt.Errorf("%q tokens", o.Metadata[MetaTokens])
	}
	pause, err := strconv.Atoi(o.Metadata[MetaPause])
	if err != nil || pause < 0 {
		return o, fmt.Errorf("a pause of %q µs", o.Metadata[MetaPause])
	}
	o.pause = time.Duration(pause) * time.Microsecond
	return o, nil
}

func (e *Engine) chat(w http.ResponseWriter, r *http.Request) {
	e.wg.Add(1)
	defer e.wg.Done()
	o, err := readOrder(r)
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	line := record.Engine{
		Nonce: o.Metadata[MetaNonce], RequestID: r.Header.Get("X-Request-ID"), Engine: e.Name, ProviderID: e.provider,
		Model:        o.Model,
		PromptTokens: PromptTokens, Status: http.StatusOK, NoUsage: true,
	}
	defer func() {
		line.At = time.Now().UTC()
		e.out.Add(line)
	}()
	s := sender{w: w, ctx: r.Context(), order: o, line: &line}
	switch {
	case o.Metadata[MetaEnd] == EndRefuse:
		line.Status, line.Complete = http.StatusBadRequest, true
		refuse(w, line.Status, "the content is refused")
	case o.Metadata[MetaEnd] == EndFailing:
		line.Status, line.Complete = http.StatusInternalServerError, true
		refuse(w, line.Status, "the engine fails")
	case o.Stream:
		s.stream()
	default:
		s.whole()
	}
}

// sender sends one answer and counts what it has sent.
type sender struct {
	w     http.ResponseWriter
	ctx   context.Context //nolint:containedctx // it is the request's, and lives as long
	order order
	line  *record.Engine
}

// rest waits and reports whether somebody still reads.
func (s *sender) rest(d time.Duration) bool {
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-s.ctx.Done():
		}
	}
	s.line.Cut = s.ctx.Err() != nil
	return !s.line.Cut
}

// send writes and reports whether the write succeeded.
func (s *sender) send(text string) bool {
	_, err := io.WriteString(s.w, text)
	if err == nil {
		err = http.NewResponseController(s.w).Flush()
	}
	s.line.Cut = s.line.Cut || err != nil
	return err == nil
}

func (s *sender) event(text string) bool { return s.send("data: " + text + "\n\n") }

const head = `{"id":"chatcmpl-chaos","object":"chat.completion.chunk","created":1700000000,"model":`

func (s *sender) chunk(delta, finish string) bool {
	model, err := json.Marshal(s.order.Model)
	if err != nil {
		return false
	}
	return s.event(head + string(model) + `,"choices":[{"index":0,"delta":` + delta + `,"finish_reason":` + finish + `}]}`)
}

// breaks is the number of tokens after which an answer ends badly.
func (s *sender) breaks() int {
	if end := s.order.Metadata[MetaEnd]; end == EndReset || end == EndError {
		return s.order.tokens / 2
	}
	return s.order.tokens
}

func (s *sender) stream() {
	s.w.Header().Set("Content-Type", "text/event-stream")
	if !s.chunk(`{"role":"assistant","content":""}`, "null") {
		return
	}
	for i := range s.breaks() {
		if !s.rest(s.order.pause) || !s.chunk(`{"content":`+strconv.Quote(text(i))+`}`, "null") {
			return
		}
		s.line.CompletionTokens++
	}
	switch s.order.Metadata[MetaEnd] {
	case EndReset:
		s.reset()
		return
	case EndError:
		s.event(`{"error":{"message":"the engine fails","type":"server_error","code":null}}`)
		return
	}
	if !s.chunk(`{}`, `"stop"`) {
		return
	}
	if options := s.order.StreamOptions; options != nil && options.IncludeUsage && s.order.Metadata[MetaEnd] != EndSilent {
		model, err := json.Marshal(s.order.Model)
		if err != nil || !s.event(head+string(model)+`,"choices":[],"usage":`+s.usage()+`}`) {
			return
		}
		s.line.NoUsage = false
	}
	s.line.Complete = s.event("[DONE]")
}

func (s *sender) usage() string {
	n := s.line.CompletionTokens
	return fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}`, PromptTokens, n, PromptTokens+n)
}

// text is the i-th token.
func text(i int) string {
	if i == 0 {
		return token[1:]
	}
	return token
}

func (s *sender) whole() {
	if !s.rest(time.Duration(s.breaks()) * s.order.pause) {
		return
	}
	switch s.order.Metadata[MetaEnd] {
	case EndReset:
		s.reset()
		return
	case EndError:
		answer(s.w, http.StatusOK, map[string]any{"error": map[string]any{"message": "the engine fails",
			"type": "server_error"}})
		return
	}
	var content strings.Builder
	for i := range s.order.tokens {
		content.WriteString(text(i))
	}
	s.line.CompletionTokens = int64(s.order.tokens)
	object := map[string]any{
		"id": "chatcmpl-chaos", "object": "chat.completion", "created": 1700000000, "model": s.order.Model,
		"choices": []any{map[string]any{
			"index": 0, "finish_reason": "stop", "message": map[string]any{"role": "assistant", "content": content.String()},
		}},
	}
	if s.order.Metadata[MetaEnd] != EndSilent {
		object["usage"] = json.RawMessage(s.usage())
	}
	s.line.Complete = answer(s.w, http.StatusOK, object)
	s.line.Cut, s.line.NoUsage = !s.line.Complete, object["usage"] == nil
}

// reset closes the connection such that the agent sees it reset.
func (s *sender) reset() {
	conn, _, err := http.NewResponseController(s.w).Hijack()
	if err != nil {
		return // the connection is closed already
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	conn.Close()
}

func refuse(w http.ResponseWriter, status int, message string) {
	answer(w, status, map[string]any{"error": map[string]any{"message": message, "type": "invalid_request_error",
		"code": nil}})
}

// answer writes an object and reports whether all of it was written.
func answer(w http.ResponseWriter, status int, object any) bool {
	body, err := json.Marshal(object)
	if err != nil {
		return false
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, err = w.Write(body)
	return err == nil && http.NewResponseController(w).Flush() == nil
}
