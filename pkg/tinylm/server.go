package tinylm

import (
	"math/rand/v2"
	"net/http"
	"time"

	"svc.internal/pkg/clock"
)

// Options adjust the server. The zero value is ready to use.
type Options struct {
	// Clock dates the answers. If it is nil, clock.System dates them.
	Clock clock.Clock
	// Random makes ids, and seeds for requests without a seed. It must be safe for
	// concurrent use. If it is nil, rand.Uint64 is used.
	Random func() uint64
	// TokenDelay is the wait before each token (byte) of an answer. It makes
	// streams visible. At zero there is no wait.
	TokenDelay time.Duration
	// MaxConcurrent bounds the answers being written at once. Further requests
	// get 429. Zero or less means DefaultMaxConcurrent.
	MaxConcurrent int
	// ModelName is the only model that the server knows. If it is empty, the constant
	// ModelName is.
	ModelName string
}

// DefaultMaxConcurrent is the bound on answers written at once.
const DefaultMaxConcurrent = 8

// modelCreated is the date that /v1/models gives: 2026-01-01.
const modelCreated = 1767225600

type server struct {
	model *Model
	opts  Options
	slots chan struct{} // one element for each answer being written
	// scoring has one element for each answer with prompt_logprobs.
	scoring chan struct{}
}

// maxScoring bounds the answers with prompt_logprobs at once, each of which holds
// up to 2 MiB until it is written.
const maxScoring = 8

// NewServer returns the OpenAI-compatible API of the model:
//
//	POST /v1/chat/completions   whole and streamed (server-sent events)
//	GET  /v1/models             and /v1/models/{id}
//	GET  /health
//
// It asks for no key, so put it on the loopback interface, or behind a server that
// asks for a key. When the context of a request ends, the work on the request ends
// within one token.
func NewServer(m *Model, opts Options) http.Handler {
	if opts.Clock == nil {
		opts.Clock = clock.System
	}
	if opts.Random == nil {
		opts.Random = rand.Uint64
	}
	if opts.MaxConcurrent <= 0 {
		opts.MaxConcurrent = DefaultMaxConcurrent
	}
	if opts.ModelName == "" {
		opts.ModelName = ModelName
	}
	s := &server{model: m, opts: opts, slots: make(chan struct{}, opts.MaxConcurrent),
		scoring: make(chan struct{}, maxScoring)}
	mux := http.NewServeMux()
	route := func(method, path string, handler http.HandlerFunc) {
		mux.HandleFunc(method+" "+path, handler)
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Allow", method)
			(&apiError{http.StatusMethodNotAllowed, "this path takes only " + method, invalidRequest, "",
				"method_not_allowed"}).write(w)
		})
	}
	route(http.MethodPost, "/v1/chat/completions", s.chatCompletions)
	route(http.MethodGet, "/v1/models", s.listModels)
	route(http.MethodGet, "/v1/models/{id...}", s.getModel)
	route(http.MethodGet, "/health", s.health)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		(&apiError{http.StatusNotFound, "there is nothing at this path", invalidRequest, "", "not_found"}).write(w)
	})
	return mux
}

func (s *server) object() modelObject {
	return modelObject{s.opts.ModelName, "model", modelCreated, "tinylm", ContextTokens}
}

func (s *server) listModels(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, struct {
		Object string        `json:"object"`
		Data   []modelObject `json:"data"`
	}{"list", []modelObject{s.object()}})
}

func (s *server) getModel(w http.ResponseWriter, r *http.Request) {
	if id := r.PathValue("id"); id != s.opts.ModelName {
		unknownModel(id, s.opts.ModelName).write(w)
		return
	}
	writeJSON(w, http.StatusOK, s.object())
}

func (s *server) health(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]string{"status": "ok", "model": s.opts.ModelName})
}

// acquire takes one of the slots, or reports that there is none.
func acquire(slots chan struct{}) (release func(), ok bool) {
	select {
	case slots <- struct{}{}:
		return func() { <-slots }, true
	default:
		return nil, false
	}
}
