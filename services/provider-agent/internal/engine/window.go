package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"svc.internal/services/provider-agent/internal/endpoint"
)

const (
	// ollamaWindow counts as Ollama's window of a model without num_ctx, until Ollama has loaded
	// the model and reports the real window. More memory may give the model more, never less.
	ollamaWindow = 4096
	// maxWindow bounds what an engine may report, in tokens.
	maxWindow = 1 << 31
	// maxShow bounds what is read of an answer about one model, in bytes. Such an answer has
	// templates and licences in it.
	maxShow = 4 << 20
)

// windows are the windows with which an engine holds its targets' models, by local name, in
// tokens. Otherwise an engine that cuts a longer prompt in silence would be offered with the
// window of the catalog. A model whose window the engine does not say is missing.
func (p *Pool) windows(ctx context.Context, e *server, list *modelList) map[string]int64 {
	p.mu.Lock()
	kind := e.kind
	p.mu.Unlock()
	all := map[string]int64{}
	for _, t := range e.targets {
		if listed := list.find(t.LocalModel); listed != nil {
			narrow(all, t.LocalModel, listed.MaxModelLen)
		}
	}
	switch kind {
	case kindSGLang:
		var told struct {
			ContextLength int64 `json:"context_length"`
		}
		if p.decode(ctx, e, "/get_server_info", &told) {
			each(e, func(local string) { narrow(all, local, told.ContextLength) })
		}
	case kindLlamaCpp:
		var told struct {
			Default struct {
				Window int64 `json:"n_ctx"`
			} `json:"default_generation_settings"`
		}
		if p.decode(ctx, e, "/props", &told) {
			each(e, func(local string) { narrow(all, local, told.Default.Window) })
		}
	case kindOllama:
		loaded := p.loaded(ctx, e)
		each(e, func(local string) {
			if window := loaded[plainName(local)]; window > 0 {
				narrow(all, local, window)
				return
			}
			narrow(all, local, p.setWindow(ctx, e, local))
		})
	}
	return all
}

// each calls do with the local name of each target.
func each(e *server, do func(local string)) {
	for _, t := range e.targets {
		do(t.LocalModel)
	}
}

// narrow notes a window unless a smaller window is known.
func narrow(all map[string]int64, local string, window int64) {
	if known := all[local]; window > 0 && window <= maxWindow && (known == 0 || window < known) {
		all[local] = window
	}
}

// decode reads an engine's JSON answer to a path beside the API's root.
func (p *Pool) decode(ctx context.Context, e *server, path string, into any) bool {
	body, _ := p.get(ctx, e, path)
	if body == nil {
		return false
	}
	defer body.Close()
	return json.NewDecoder(io.LimitReader(body, maxShow)).Decode(into) == nil
}

// plainName is Ollama's name of a model without the tag that Ollama adds.
func plainName(name string) string { return strings.TrimSuffix(name, ":latest") }

// loaded are the windows of the models that Ollama has in memory, as it loaded them.
func (p *Pool) loaded(ctx context.Context, e *server) map[string]int64 {
	var told struct {
		Models []struct {
			Name          string `json:"name"`
			ContextLength int64  `json:"context_length"`
		} `json:"models"`
	}
	all := map[string]int64{}
	if p.decode(ctx, e, "/api/ps", &told) {
		for _, m := range told.Models {
			all[plainName(m.Name)] = m.ContextLength
		}
	}
	return all
}

// setWindow is the window with which Ollama will load a model: the parameter num_ctx of the
// model, else Ollama's own default, and at most the window that the model was trained for. It is
// read once for each life of the engine; 0 when Ollama does not say.
func (p *Pool) setWindow(ctx context.Context, e *server, local string) int64 {
	p.mu.Lock()
	window, known := e.shown[local]
	p.mu.Unlock()
	if known {
		return window
	}
	shown, ok := p.show(ctx, e, local)
	if !ok {
		return 0
	}
	window = shown.window()
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.shown == nil {
		e.shown = map[string]int64{}
	}
	e.shown[local] = window
	return window
}

// shownModel is what Ollama says of a model.
type shownModel struct {
	Parameters string                     `json:"parameters"`
	Info       map[string]json.RawMessage `json:"model_info"`
}

// set is the model's own parameter num_ctx; 0 without one.
func (m shownModel) set() int64 {
	for line := range strings.Lines(m.Parameters) {
		if fields := strings.Fields(line); len(fields) == 2 && fields[0] == "num_ctx" {
			if n, err := strconv.ParseInt(fields[1], 10, 64); err == nil && n > 0 {
				return n
			}
		}
	}
	return 0
}

// trained is the window that the model was trained for; 0 when that is not known.
func (m shownModel) trained() int64 {
	for key, raw := range m.Info {
		if strings.HasSuffix(key, ".context_length") {
			if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil && n > 0 {
				return n
			}
		}
	}
	return 0
}

func (m shownModel) window() int64 {
	window := m.set()
	if window == 0 {
		window = ollamaWindow
	}
	if trained := m.trained(); trained > 0 {
		window = min(window, trained)
	}
	return window
}

// show asks Ollama about a model.
func (p *Pool) show(ctx context.Context, e *server, local string) (shownModel, bool) {
	var told shownModel
	status, answer, err := p.askUpTo(ctx, Target{APIKey: e.key}, besideRoot(e.url)+"/api/show",
		map[string]string{"model": local}, maxShow)
	if err != nil || status != http.StatusOK || json.Unmarshal(answer, &told) != nil {
		return told, false
	}
	return told, true
}

// Routes asks each engine whether it has any of the endpoints, and returns the faults by
// model id. A probe asks this only of an engine that lists no models.
func (p *Pool) Routes(ctx context.Context) map[string]error {
	var mu sync.Mutex
	faults := map[string]error{}
	p.each(func(e *server) {
		asking, cancel := context.WithTimeout(ctx, p.cfg.ProbeTimeout)
		defer cancel()
		err := p.routed(asking, e)
		mu.Lock()
		defer mu.Unlock()
		for _, t := range e.targets {
			if err != nil {
				faults[t.ModelID] = err
			}
		}
	})
	return faults
}

// routed asks an engine whether it has any of the endpoints. It sends an empty object, which no
// endpoint serves, so the question costs the engine nothing. A path without an endpoint answers
// 404. An endpoint may answer 404 as well, because the object names no model, but then with an
// error of OpenAI's form.
func (p *Pool) routed(ctx context.Context, e *server) error {
	for _, path := range []string{endpoint.Chat.Path(), endpoint.Embeddings.Path(), endpoint.Images.Path(),
		endpoint.Transcriptions.Path()} {
		status, answer, err := p.ask(ctx, Target{APIKey: e.key}, e.url+path, struct{}{})
		if err != nil {
			return err
		}
		var told struct {
			Error json.RawMessage `json:"error"`
		}
		absent := status == http.StatusNotFound || status == http.StatusMethodNotAllowed ||
			status == http.StatusNotImplemented
		if !absent || json.Unmarshal(answer, &told) == nil && len(told.Error) > 0 {
			return nil
		}
	}
	return fmt.Errorf("nothing answers at %s%s: the engine's address is not the root of an OpenAI-compatible API",
		e.url, endpoint.Chat.Path())
}
