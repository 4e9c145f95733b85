package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"svc.internal/pkg/serve"
	"svc.internal/pkg/tinylm"
)

// The default address of an Ollama on this machine.
const (
	ollamaHost = "127.0.0.1"
	ollamaPort = "11434"
)

// Requests that a demo's provider takes at once for each model. The tiny model shares
// this machine's cores with everything else. Another engine is assumed to queue by
// itself.
const (
	builtinCapacity = 256
	engineCapacity  = 1024
)

// Engine is the engine that answers the demo's requests.
type Engine struct {
	// URL is its OpenAI-compatible root, ending in /v1.
	URL string
	// Name says which engine it is, for people.
	Name string
	// Models are the names it serves.
	Models []string
	// Builtin is true for the tiny model of this process.
	Builtin bool
	// Capacity is how many requests it takes at once for a model.
	Capacity int
	// Run serves the built-in engine until ctx ends; nil for others.
	Run func(ctx context.Context) error
}

// ChooseEngine takes the first of: the engine at url, if one is given; a running Ollama
// with a model, at the address of its own variable OLLAMA_HOST or else at its default;
// the built-in tiny model.
func ChooseEngine(ctx context.Context, url, ollama string, log *slog.Logger) (Engine, error) {
	if url != "" {
		url = strings.TrimRight(url, "/")
		models, err := ListModels(ctx, url, 10*time.Second)
		if err != nil {
			return Engine{}, fmt.Errorf("ENGINE_URL %s: %w", url, err)
		}
		return Engine{URL: url, Name: "the engine at " + url, Models: models, Capacity: engineCapacity}, nil
	}
	local := ollamaURL(ollama)
	if models, err := ListModels(ctx, local, time.Second); err == nil && len(models) > 0 {
		return Engine{URL: local, Name: "Ollama at " + strings.TrimSuffix(local, "/v1"), Models: models,
			Capacity: engineCapacity}, nil
	}
	return tiny(log)
}

// ollamaURL reads OLLAMA_HOST as Ollama itself does: a host, a port, both, or a URL. A
// server that listens on all addresses is asked on this machine.
func ollamaURL(text string) string {
	scheme, rest, ok := strings.Cut(strings.Trim(strings.TrimSpace(text), `"'`), "://")
	if !ok {
		scheme, rest = "http", scheme
	}
	rest, path, _ := strings.Cut(strings.TrimRight(rest, "/"), "/")
	host, port, err := net.SplitHostPort(rest)
	if err != nil {
		host, port = strings.Trim(rest, "[]"), ollamaPort
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = ollamaHost
	}
	if path != "" {
		path = "/" + path
	}
	return scheme + "://" + net.JoinHostPort(host, port) + path + "/v1"
}

func tiny(log *slog.Logger) (Engine, error) {
	model, err := tinylm.Load()
	if err != nil {
		return Engine{}, fmt.Errorf("load the built-in model: %w", err)
	}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return Engine{}, fmt.Errorf("listen for the built-in engine: %w", err)
	}
	handler := tinylm.NewServer(model, tinylm.Options{MaxConcurrent: builtinCapacity})
	return Engine{
		URL: "http://" + lis.Addr().String() + "/v1", Builtin: true, Capacity: builtinCapacity,
		Name:   "the built-in " + tinylm.ModelName + ", a tiny model trained for this demo",
		Models: []string{tinylm.ModelName},
		Run: func(ctx context.Context) error {
			return serve.HTTP(ctx, lis, handler, serve.HTTPConfig{Log: log})
		},
	}, nil
}

// ListModels asks an OpenAI-compatible API, url ending in /v1, for the ids of
// its models.
func ListModels(ctx context.Context, url string, timeout time.Duration) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/models", nil)
	if err != nil {
		return nil, fmt.Errorf("list models: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("list models: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("list models: it answers %s", resp.Status)
	}
	var body struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&body); err != nil {
		return nil, errors.New("list models: the answer is not an OpenAI model list")
	}
	models := make([]string, 0, len(body.Data))
	for _, m := range body.Data {
		models = append(models, m.ID)
	}
	return models, nil
}
