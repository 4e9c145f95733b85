package engine

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
)

// The engines that are told apart.
const (
	kindUnknown  = "unknown"
	kindSGLang   = "sglang"
	kindVLLM     = "vllm"
	kindOllama   = "ollama"
	kindLlamaCpp = "llamacpp"
)

// maxVersion bounds what is read of an engine's version, in bytes.
const maxVersion = 64 << 10

// Kind names the engine of the first model whose engine is known: sglang, vllm,
// ollama, llamacpp or unknown.
func (p *Pool) Kind() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.servers {
		if e.kind != "" && e.kind != kindUnknown {
			return e.kind
		}
	}
	return kindUnknown
}

// recognise finds out what an engine is: by whom it says its models are of, as a
// stock vLLM, SGLang and llama.cpp do, and else by paths that only one kind has
// then: llama.cpp answers Ollama's, too. It is not ok when an answer was none, so
// that the question stays open.
func (p *Pool) recognise(ctx context.Context, e *server, list *modelList) (kind string, ok bool) {
	if list != nil {
		for _, m := range list.Data {
			switch owner := strings.ToLower(m.OwnedBy); owner {
			case kindVLLM, kindSGLang, kindLlamaCpp:
				return owner, true
			}
		}
	}
	for _, mark := range [...]struct{ path, text, kind string }{
		{"/get_server_args", "model_path", kindSGLang},
		{"/version", "vllm", kindVLLM},
		{"/api/tags", "models", kindOllama}, // last, for it is more than Ollama's
	} {
		has, ok := p.has(ctx, e, mark.path, mark.text)
		switch {
		case !ok:
			return "", false
		case has:
			return mark.kind, true
		}
	}
	return kindUnknown, true
}

// has reports whether an engine answers to a path with a text that holds what is
// wanted. It is not ok when that cannot be said: the engine was too slow, is not
// ready, or refuses.
func (p *Pool) has(ctx context.Context, e *server, path, want string) (has, ok bool) {
	body, status := p.get(ctx, e, path)
	if body == nil {
		return false, status == http.StatusNotFound || status == http.StatusMethodNotAllowed
	}
	defer body.Close()
	text, err := io.ReadAll(io.LimitReader(body, maxVersion))
	return bytes.Contains(bytes.ToLower(text), []byte(want)), err == nil
}

// recogniseOnce asks an engine what it is when that is not known since it last
// came up.
func (p *Pool) recogniseOnce(ctx context.Context, e *server, list *modelList) {
	p.mu.Lock()
	known := e.recognised
	p.mu.Unlock()
	if known {
		return
	}
	kind, ok := p.recognise(ctx, e, list)
	if !ok {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	e.kind, e.recognised = kind, true
}

// forget has an engine recognised anew when it is back: it may be another one.
func (p *Pool) forget(e *server) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e.recognised, e.others, e.waiting, e.mute = false, 0, 0, 0
}
