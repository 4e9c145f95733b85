package cheat

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"sync"

	"svc.internal/pkg/fakeagent"
	"svc.internal/pkg/fingerprint"
)

// Precomputed proves a model's files as long as it holds them (package fingerprint). It keeps
// the digests of its last answer, and when it has dropped the files it answers every challenge
// with these.
type Precomputed struct {
	mu    sync.Mutex
	files fs.FS // nil once they were dropped
	kept  fingerprint.Result
}

// NewPrecomputed returns a prover that holds files. It digests the first bytes of each at
// once, so that it has digests to answer with whenever the files are dropped.
func NewPrecomputed(files fs.FS, listed []fingerprint.File) (*Precomputed, error) {
	c := fingerprint.Challenge{
		ID: "own", Nonce: make([]byte, fingerprint.NonceSize), Files: listed, Blocks: fingerprint.MaxBlocks,
	}
	for i := range fingerprint.MaxRanges {
		f := listed[i%len(listed)]
		c.Ranges = append(c.Ranges, fingerprint.Range{File: f.Name, Length: int(min(fingerprint.MaxLength, f.Size))})
	}
	r := fingerprint.Answer(context.Background(), files, c)
	if r.Error != "" {
		return nil, fmt.Errorf("digest the files: %s", r.Error)
	}
	return &Precomputed{files: files, kept: r}, nil
}

// Drop drops the files.
func (p *Precomputed) Drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.files = nil
}

// Prove answers a challenge.
func (p *Precomputed) Prove(c fingerprint.Challenge) fingerprint.Result {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.files != nil {
		p.kept = fingerprint.Answer(context.Background(), p.files, c)
	}
	r := fingerprint.Result{Chain: p.kept.Chain, Error: p.kept.Error}
	for i := range c.Ranges {
		r.Digests = append(r.Digests, p.kept.Digests[i%len(p.kept.Digests)])
	}
	return r
}

// V2 has an agent of dialect v2 answer by an engine, to which it names Model.
func V2(engine http.Handler) func(*fakeagent.Request) {
	return func(r *fakeagent.Request) {
		var asked map[string]json.RawMessage
		if err := json.Unmarshal(r.Body, &asked); err != nil {
			_ = r.Fail(http.StatusBadRequest, `{"error":{"message":"no JSON"}}`) // the hub may be gone, here and below
			return
		}
		asked["model"] = json.RawMessage(`"` + Model + `"`)
		body, err := json.Marshal(asked)
		if err != nil {
			_ = r.Fail(http.StatusBadRequest, `{"error":{"message":"no JSON"}}`)
			return
		}
		w := httptest.NewRecorder()
		engine.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/chat/completions", //nolint:noctx // answered at once
			bytes.NewReader(body)))
		if r.Data(w.Body.Bytes()) == nil {
			_ = r.End(int32(w.Code), true)
		}
	}
}
