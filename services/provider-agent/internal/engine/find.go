package engine

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"svc.internal/pkg/config"
)

// Ports are the ports on which engines listen by custom: SGLang, vLLM, Ollama, llama.cpp
// and others.
func Ports() []int { return []int{30000, 8000, 11434, 8080, 5000, 8001} }

// maxFound bounds the models of one engine that are looked at.
const maxFound = 256

// Found is an engine on this machine.
type Found struct {
	// URL is its root, ending in /v1.
	URL string
	// Kind is sglang, vllm, ollama, llamacpp or unknown: another OpenAI-compatible server.
	Kind string
	// Locked reports that the engine asks for a key, without which it lists no models.
	Locked bool
	Models []FoundModel
}

// FoundModel is a model of an engine.
type FoundModel struct {
	Name string
	// Window is how many tokens the engine holds; 0 when it does not say.
	Window int64
	// Trained is the window that the model was trained for, in tokens; 0 where the engine does
	// not say. Only Ollama says it.
	Trained int64
}

// Find looks for engines on ports of this machine. A server that is not an engine, or that is
// the marketplace itself, is left out. The engines come in the order of the ports.
func Find(ctx context.Context, ports []int) []Found {
	found := make([]*Found, len(ports))
	var all sync.WaitGroup
	for i, port := range ports {
		all.Go(func() {
			if engine, err := Look(ctx, "http://127.0.0.1:"+strconv.Itoa(port)+"/v1", config.Secret{}); err == nil {
				found[i] = &engine
			}
		})
	}
	all.Wait()
	var engines []Found
	for _, engine := range found {
		if engine != nil {
			engines = append(engines, *engine)
		}
	}
	return engines
}

// Look asks the engine at a root for its kind, its models and their windows.
func Look(ctx context.Context, root string, key config.Secret) (Found, error) {
	p := New(Config{}, nil, slog.New(slog.DiscardHandler))
	defer p.client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, p.cfg.ProbeTimeout)
	defer cancel()
	found := Found{URL: root, Kind: kindUnknown}
	list, err := listModels(ctx, p.client, root, key)
	if errors.Is(err, errLocked) {
		found.Locked = true
		return found, nil
	}
	if err != nil {
		return found, err
	}
	if !list.told() {
		return found, fmt.Errorf("%s lists no models", root)
	}
	e := &server{url: root, key: key}
	for _, m := range list.Data[:min(len(list.Data), maxFound)] {
		e.targets = append(e.targets, Target{LocalModel: m.ID, APIKey: key})
	}
	p.recogniseOnce(ctx, e, list)
	windows := p.windows(ctx, e, list)
	if e.kind != "" {
		found.Kind = e.kind
	}
	for _, t := range e.targets {
		m := FoundModel{Name: t.LocalModel, Window: windows[t.LocalModel]}
		if e.kind == kindOllama {
			if shown, ok := p.show(ctx, e, t.LocalModel); ok {
				m.Trained = shown.trained()
			}
		}
		found.Models = append(found.Models, m)
	}
	return found, nil
}

// IsOllama reports whether the engine can make models of its models.
func (f Found) IsOllama() bool { return f.Kind == kindOllama }

// Has reports whether the engine lists a model, as Ollama looks names up.
func (f Found) Has(name string) bool {
	return slices.ContainsFunc(f.Models, func(m FoundModel) bool { return plainName(m.Name) == plainName(name) })
}

// Widen has Ollama make a model that differs from another in its window alone, because no
// request can set the window at /v1, and Ollama cuts a longer prompt in silence. It copies no
// weights.
func Widen(ctx context.Context, root, from, name string, window int64) error {
	return instruct(ctx, besideRoot(root)+"/api/create", map[string]any{
		"model": name, "from": from, "parameters": map[string]any{"num_ctx": window},
	}, func(string, int64, int64) {})
}

// Pull has Ollama download a model. tell is called for each step of the download, with the bytes
// that are there and the bytes of the whole step; both are 0 for a step without bytes.
func Pull(ctx context.Context, root, name string, tell func(step string, done, total int64)) error {
	return instruct(ctx, besideRoot(root)+"/api/pull", map[string]any{"model": name}, tell)
}

// maxStep bounds one line of Ollama's progress, in bytes, and maxSteps its lines.
const (
	maxStep  = 64 << 10
	maxSteps = 1 << 20
)

// instruct has Ollama do something and reads its progress, which comes in lines of JSON. The
// caller bounds its time.
func instruct(ctx context.Context, url string, what map[string]any, tell func(step string, done, total int64)) error {
	body, err := json.Marshal(what)
	if err != nil {
		return fmt.Errorf("encode the request: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("make the request: %w", err)
	}
	req.Header.Set("Content-Type", jsonType)
	client := newClient(nil, nil)
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("the engine does not answer: %w", cause(err))
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxStep)
	done := false
	for n := 0; n < maxSteps && lines.Scan(); n++ {
		var step struct {
			Status    string `json:"status"`
			Error     string `json:"error"`
			Completed int64  `json:"completed"`
			Total     int64  `json:"total"`
		}
		if err := json.Unmarshal(lines.Bytes(), &step); err != nil {
			return errors.New("the engine's answer is not of Ollama's form")
		}
		if step.Error != "" {
			return fmt.Errorf("the engine says: %s", strings.ToValidUTF8(step.Error, ""))
		}
		done = step.Status == "success"
		tell(step.Status, step.Completed, step.Total)
	}
	switch {
	case lines.Err() != nil:
		return fmt.Errorf("the engine's answer was cut off: %w", cause(lines.Err()))
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("the engine answers %d", resp.StatusCode)
	case !done:
		return io.ErrUnexpectedEOF
	}
	return nil
}
