// Package cheat has engines of providers that serve something else than they state. Each is
// an HTTP handler that speaks OpenAI's API, and stands behind an ordinary provider agent.
//
// A cheat passes what it knows to be a test. So an Engine serves honestly until it is told
// to turn, which a test does once the provider is admitted.
package cheat

import (
	"io"
	"net/http"
	"sync/atomic"

	"svc.internal/pkg/tinylm"
	"svc.internal/pkg/tinylm/lab"
)

// Model is the name by which the engines of this package know their model.
const Model = "lab"

// maxConcurrent is how many answers an engine writes at once: more than any test asks.
const maxConcurrent = 256

// Serve returns the engine of a model. Its list of models states no window, because an agent
// offers no more than its engine states, and an engine of Recalling holds more than the
// laboratory's model.
func Serve(m *tinylm.Model) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", tinylm.NewServer(m, tinylm.Options{ModelName: Model, MaxConcurrent: maxConcurrent}))
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"`+Model+`","object":"model","owned_by":"laboratory"}]}`)
	})
	return mux
}

// Honest returns the engine of an honest host of the laboratory's model. Hosts of other
// seeds differ as other GPUs do.
func Honest(seed uint64) http.Handler { return Serve(lab.Honest(lab.Base(), seed)) }

// Engine serves honestly until it turns.
type Engine struct {
	honest, cheating http.Handler
	turned           atomic.Bool
}

// NewEngine returns an engine that serves as honest does until it turns, and then as
// cheating does.
func NewEngine(honest, cheating http.Handler) *Engine {
	return &Engine{honest: honest, cheating: cheating}
}

// Turn makes the engine cheat, or be honest again.
func (e *Engine) Turn(cheat bool) { e.turned.Store(cheat) }

// ServeHTTP implements http.Handler.
func (e *Engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if e.turned.Load() {
		e.cheating.ServeHTTP(w, r)
		return
	}
	e.honest.ServeHTTP(w, r)
}
