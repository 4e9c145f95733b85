package engine

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
)

// The kinds of engines.
const (
	kindUnknown  = "unknown"
	kindSGLang   = "sglang"
	kindVLLM     = "vllm"
	kindOllama   = "ollama"
	kindLlamaCpp = "llamacpp"
)

// maxVersion bounds what is read of an engine's version, in bytes.
const maxVersion = 64 << 10

// Kind is the first known kind of the models' engines: sglang, vllm, ollama, llamacpp or
// unknown.
func (p *Pool) Kind() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.servers {
		if kind := e.recognisedLocked(); kind != "" {
			return kind
		}
	}
	return kindUnknown
}

// recognisedLocked is the kind of an engine; empty where none was recognised.
func (e *server) recognisedLocked() string {
	if e.kind == kindUnknown {
		return ""
	}
	return e.kind
}

// recognise finds out the kind of an engine: by the owner of its models, as stock vLLM,
// SGLang and llama.cpp name it, and else by paths that only one kind has. Ollama's path
// is tried last, because llama.cpp answers it, too. ok is false when an answer was
// missing, so that the kind stays open.
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
		{"/api/tags", "models", kindOllama}, // last, because others answer it too
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

// has reports whether an engine answers a path with a text that contains want. ok is
// false when that cannot be said, because the engine was too slow, is not ready, or
// refuses.
func (p *Pool) has(ctx context.Context, e *server, path, want string) (has, ok bool) {
	body, status := p.get(ctx, e, path)
	if body == nil {
		return false, status == http.StatusNotFound || status == http.StatusMethodNotAllowed
	}
	defer body.Close()
	text, err := io.ReadAll(io.LimitReader(body, maxVersion))
	return bytes.Contains(bytes.ToLower(text), []byte(want)), err == nil
}

// recogniseOnce recognises an engine whose kind is not known since it last came up.
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

// forget makes an engine be recognised again when it is back, because it may be another
// one.
func (p *Pool) forget(e *server) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e.recognised, e.others, e.waiting, e.mute, e.shown = false, 0, 0, 0, nil
	// What it has shown holds until it answers anew, so that an engine which is only started
	// again costs no registration.
	e.answered = false
	e.life++
}
