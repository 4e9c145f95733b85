// Package fakeengine is a scripted OpenAI-compatible engine for tests: a real
// HTTP server on the loopback interface that answers requests as the test says for each
// model, well or badly, and records the requests.
//
//	engine := fakeengine.New(t)
//	engine.Script("m", fakeengine.Behaviour{Status: 503}, fakeengine.Behaviour{Tokens: []string{"a", "b"}})
//	… point the agent or hub at engine.URL + "/v1" …
//	engine.Requests()          // the requests that reached it
//	engine.WaitCancelled(ctx)  // a hang-up reached it
//
// A scripted model answers the n-th request by the n-th behaviour of its script, and
// all later requests by the last behaviour. A model without a script answers by its
// name, as Named lists. Any other model gets 404, as on vLLM. Nothing sleeps: an
// answer that has to wait waits for a channel of the test, for the client to hang up
// or for the end of the test.
//
// It serves POST /v1/chat/completions, /v1/completions, /v1/embeddings,
// /v1/images/generations and /v1/audio/transcriptions, any other path for behaviours
// with a Raw body or an error status, and GET /v1/models. A vector follows from its
// input, so that the same text has the same vector in either encoding. A model with
// Recall finds needles in chat prompts, as far as its window reaches.
//
// Limits: MaxRecorded requests are recorded, each with at most MaxBody bytes of its
// body. Of hang-ups that WaitCancelled has not returned, MaxRecorded are kept.
package fakeengine

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"

	"svc.internal/pkg/openai"
)

// MaxRecorded bounds the requests that are recorded. Later requests are not recorded.
const MaxRecorded = 4096

// MaxBody bounds the recorded part of a request's body, in bytes.
const MaxBody = 1 << 20

// maxRead bounds the body of a request, in bytes.
const maxRead = 64 << 20

// Request is one request that reached the engine.
type Request struct {
	Method, Path string
	Header       http.Header
	// Body holds at most MaxBody bytes; Size is the length of the whole body.
	Body []byte
	Size int
	// Model and Stream are read from the body, if it is JSON or multipart.
	Model  string
	Stream bool
}

// Engine is a running engine. Its methods are safe for concurrent use.
type Engine struct {
	// URL is the server's root, without "/v1".
	URL string

	stop      chan struct{} // closed when the test ends
	cancelled chan Request

	mu       sync.Mutex
	arrived  chan struct{} // closed and replaced at each request
	scripts  map[string][]Behaviour
	requests []Request
	seen     int
}

// New starts an engine that is stopped with the test.
func New(t testing.TB) *Engine {
	t.Helper()
	e := &Engine{
		stop:      make(chan struct{}),
		cancelled: make(chan Request, MaxRecorded),
		arrived:   make(chan struct{}),
		scripts:   map[string][]Behaviour{},
	}
	server := httptest.NewServer(e)
	e.URL = server.URL
	t.Cleanup(func() {
		close(e.stop)
		server.CloseClientConnections()
		server.Close()
	})
	return e
}

// Script sets how the model answers: the n-th request from now on by the n-th
// behaviour, and all later requests by the last. Without behaviours the model gets
// 404.
func (e *Engine) Script(model string, behaviours ...Behaviour) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.scripts[model] = slices.Clone(behaviours)
}

// Requests are the recorded POST requests, in their order of arrival.
func (e *Engine) Requests() []Request {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.requests)
}

// WaitRequests waits until n requests have arrived in all.
func (e *Engine) WaitRequests(ctx context.Context, n int) error {
	for {
		e.mu.Lock()
		seen, arrived := e.seen, e.arrived
		e.mu.Unlock()
		if seen >= n {
			return nil
		}
		select {
		case <-arrived:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// WaitCancelled waits until a client has hung up before its answer was complete, and
// returns the client's request. Each hang-up is returned once.
func (e *Engine) WaitCancelled(ctx context.Context) (Request, error) {
	select {
	case r := <-e.cancelled:
		return r, nil
	case <-ctx.Done():
		return Request{}, ctx.Err()
	}
}

// ServeHTTP answers as scripted.
func (e *Engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/v1/models" && r.Method == http.MethodGet {
		e.serveModels(w)
		return
	}
	if r.Method != http.MethodPost {
		writeError(w, http.StatusNotFound, "Not Found", "")
		return
	}
	// The server notices a hang-up only after the whole body was read.
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRead))
	if err != nil {
		writeError(w, http.StatusRequestEntityTooLarge, "body cannot be read", "")
		return
	}
	request, asked := describe(r, body)
	behaviour, ok := e.take(request)
	// A hang-up counts until the answer is complete. When the client does not hang up,
	// the server cancels the context only after this function has returned.
	hungUp := func() {
		select {
		case e.cancelled <- request:
		default:
		}
	}
	stop := context.AfterFunc(r.Context(), hungUp)
	defer func() {
		// A context is done a moment before its functions are called.
		if stop() && r.Context().Err() != nil {
			hungUp()
		}
	}()
	if !ok {
		writeError(w, http.StatusNotFound, "The model `"+request.Model+"` does not exist.", "model_not_found")
		return
	}
	a := answer{Behaviour: behaviour, w: w, ctx: r.Context(), stop: e.stop, path: r.URL.Path, request: asked,
		complete: func() { stop() }}
	a.serve()
}

// asked holds the members of a request that the engine reads.
type asked struct {
	Model         string                `json:"model"`
	Stream        bool                  `json:"stream"`
	StreamOptions *openai.StreamOptions `json:"stream_options"`
	Messages      json.RawMessage       `json:"messages"`
	media         mediaOptions
}

// mediaOptions are the options of requests for embeddings, images and transcriptions.
type mediaOptions struct {
	Input          json.RawMessage `json:"input"`
	EncodingFormat string          `json:"encoding_format"`
	Dimensions     int             `json:"dimensions"`
	N              int             `json:"n"`
	ResponseFormat string          `json:"response_format"`
	PartialImages  *int            `json:"partial_images"`
	fileSize       int
}

// describe makes the record of a request and reads its options. Options that cannot be
// read from the body are empty.
func describe(r *http.Request, body []byte) (Request, asked) {
	request := Request{
		Method: r.Method, Path: r.URL.Path, Header: r.Header.Clone(),
		Body: slices.Clone(body[:min(len(body), MaxBody)]), Size: len(body),
	}
	var head asked
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err == nil && kind == "multipart/form-data" {
		head = readForm(body, params["boundary"])
	} else if err := json.Unmarshal(body, &head); err != nil {
		head = asked{}
	} else if r.URL.Path == embeddingsPath || r.URL.Path == imagesPath {
		if err := json.Unmarshal(body, &head.media); err != nil {
			head.media = mediaOptions{}
		}
	}
	request.Model, request.Stream = head.Model, head.Stream
	return request, head
}

// readForm reads the fields of a multipart form and measures its file.
func readForm(body []byte, boundary string) asked {
	form, err := multipart.NewReader(bytes.NewReader(body), boundary).ReadForm(maxRead)
	if err != nil {
		return asked{}
	}
	field := func(name string) string {
		if len(form.Value[name]) == 0 {
			return ""
		}
		return form.Value[name][0]
	}
	head := asked{Model: field("model"), Stream: field("stream") == "true"}
	head.media.ResponseFormat = field("response_format")
	for _, file := range form.File["file"] {
		head.media.fileSize += int(file.Size)
	}
	return head
}

// take records the request and takes the behaviour that answers it. It returns false if
// the model has none.
func (e *Engine) take(request Request) (Behaviour, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seen++
	if len(e.requests) < MaxRecorded {
		e.requests = append(e.requests, request)
	}
	close(e.arrived)
	e.arrived = make(chan struct{})

	script, scripted := e.scripts[request.Model]
	if !scripted {
		b, ok := Named()[request.Model]
		return b, ok
	}
	if len(script) == 0 {
		return Behaviour{}, false
	}
	if len(script) > 1 {
		e.scripts[request.Model] = script[1:]
	}
	return script[0], true
}

// serveModels lists the scripted models, or the models of Named if none is scripted.
func (e *Engine) serveModels(w http.ResponseWriter) {
	e.mu.Lock()
	var names []string
	for name, script := range e.scripts {
		if len(script) > 0 {
			names = append(names, name)
		}
	}
	e.mu.Unlock()
	if len(names) == 0 {
		for name := range Named() {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	list := openai.ModelList{Object: openai.ObjectList, Data: []openai.Model{}}
	for _, name := range names {
		list.Data = append(list.Data, openai.Model{ID: name, Object: openai.ObjectModel, Created: created,
			OwnedBy: "fakeengine"})
	}
	writeJSON(w, http.StatusOK, mustMarshal(list))
}

func writeError(w http.ResponseWriter, status int, message, code string) {
	kind := openai.TypeInvalidRequest
	switch {
	case status == http.StatusNotFound:
		kind = openai.TypeNotFound
	case status == http.StatusTooManyRequests:
		kind = openai.TypeRateLimit
	case status >= 500:
		kind = openai.TypeServer
	}
	writeJSON(w, status, openai.AppendError(nil, openai.Error{Message: message, Type: kind, Code: code}, ""))
}

func writeJSON(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	// The request's context is done when the client has hung up.
	_, _ = w.Write(body)
}

// mustMarshal marshals the structs of this package, for which marshalling cannot fail.
func mustMarshal(v any) []byte {
	body, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return body
}
