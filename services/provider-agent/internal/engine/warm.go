package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"svc.internal/services/provider-agent/internal/endpoint"
)

// keepLoaded is how long Ollama is asked to keep a model that was warmed up. By itself it
// unloads a model after five minutes.
const keepLoaded = "30m"

// maxOwnAnswer bounds what is read of the answer to a request of the agent's own, in bytes.
const maxOwnAnswer = 64 << 10

// oneToken is a chat of one token, which loads or tries a model.
type oneToken struct {
	Model     string       `json:"model"`
	Messages  []oneMessage `json:"messages"`
	MaxTokens int          `json:"max_tokens"`
	Stream    bool         `json:"stream"`
}

type oneMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

func oneTokenOf(local string) oneToken {
	return oneToken{Model: local, Messages: []oneMessage{{"user", "Hi"}}, MaxTokens: 1}
}

// Warm makes an engine load a model, by a chat of one token.
func (p *Pool) Warm(ctx context.Context, modelID string) error {
	target, ok := p.target(modelID)
	if !ok {
		return errNoModel
	}
	err := p.post(ctx, target, target.URL+endpoint.Chat.Path(), oneTokenOf(target.LocalModel))
	if err != nil {
		return err
	}
	if p.kindOf(target) == kindOllama {
		// The model is loaded. That it may not stay loaded is no failure.
		_ = p.post(ctx, target, besideRoot(target.URL)+"/api/generate", struct {
			Model     string `json:"model"`
			KeepAlive string `json:"keep_alive"`
			Stream    bool   `json:"stream"`
		}{target.LocalModel, keepLoaded, false})
	}
	return nil
}

func (p *Pool) kindOf(t Target) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.servers {
		if e.serves(t) {
			return e.kind
		}
	}
	return kindUnknown
}

// post sends a request to an engine whose answer is not needed.
func (p *Pool) post(ctx context.Context, target Target, url string, ask any) error {
	status, _, err := p.ask(ctx, target, url, ask)
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return fmt.Errorf("the engine answers %d", status)
	}
	return nil
}

// ask sends a request of the agent's own to an engine, and returns at most maxOwnAnswer of
// its answer.
func (p *Pool) ask(ctx context.Context, target Target, url string, ask any) (status int, answer []byte, err error) {
	return p.askUpTo(ctx, target, url, ask, maxOwnAnswer)
}

// askUpTo is ask with another bound of the answer.
func (p *Pool) askUpTo(
	ctx context.Context, target Target, url string, ask any, limit int64,
) (status int, answer []byte, err error) {
	body, err := json.Marshal(ask)
	if err != nil {
		return 0, nil, fmt.Errorf("encode the engine's request: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0, nil, fmt.Errorf("make the engine's request: %w", err)
	}
	req.Header.Set("Content-Type", jsonType)
	authorize(req, target.APIKey)
	resp, err := p.client.Do(req)
	if err != nil {
		return 0, nil, fmt.Errorf("the engine does not answer: %w", cause(err))
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(resp.Body, limit))
	if err != nil {
		return 0, nil, fmt.Errorf("the engine's answer was cut off: %w", cause(err))
	}
	return resp.StatusCode, answer, nil
}
