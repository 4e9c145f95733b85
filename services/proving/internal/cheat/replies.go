package cheat

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"sync"
)

// maxBody bounds the body of a request that is looked at.
const maxBody = 1 << 20

// Cached answers from a small cache instead of computing: requests that want the same form
// of answer (streamed or not, with log-probabilities or not) get the first such answer
// again.
type Cached struct {
	engine http.Handler

	mu   sync.Mutex
	kept map[form]*answer
}

// form is what a cached answer must have in common with the request.
type form struct {
	path             string
	stream, logprobs bool
}

// NewCached returns a cache before an engine.
func NewCached(engine http.Handler) *Cached {
	return &Cached{engine: engine, kept: map[form]*answer{}}
}

// answer is an answer that was written.
type answer struct {
	status int
	header http.Header
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) { a.status = status }

// Write implements http.ResponseWriter.
func (a *answer) Write(b []byte) (int, error) { return a.body.Write(b) }

// ServeHTTP implements http.Handler.
func (c *Cached) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		c.engine.ServeHTTP(w, r)
		return
	}
	body, f, err := read(r)
	if err != nil {
		http.Error(w, "the body could not be read", http.StatusBadRequest)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	a := c.answer(f, r)
	for name, values := range a.header {
		w.Header()[name] = values
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body.Bytes()) // the client may have left
}

// answer returns the cached answer of a form, or the engine's, which is cached.
func (c *Cached) answer(f form, r *http.Request) *answer {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a := c.kept[f]; a != nil {
		return a
	}
	a := &answer{status: http.StatusOK, header: http.Header{}}
	c.engine.ServeHTTP(a, r)
	if a.status == http.StatusOK {
		c.kept[f] = a
	}
	return a
}

// read reads a request and its form.
func read(r *http.Request) ([]byte, form, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		return nil, form{}, err
	}
	var asked struct {
		Stream   bool `json:"stream"`
		Logprobs bool `json:"logprobs"`
	}
	_ = json.Unmarshal(body, &asked) // the engine refuses what is no JSON
	return body, form{r.URL.Path, asked.Stream, asked.Logprobs}, nil
}
