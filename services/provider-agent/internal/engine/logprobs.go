package engine

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"svc.internal/services/provider-agent/internal/endpoint"
)

const (
	// logprobsTimeout bounds one question, because an engine may load the model first.
	logprobsTimeout = time.Minute
	// logprobsPause is how many good probes pass between two questions: about a minute.
	logprobsPause = 6
	// logprobsTokens bounds the answer that the question costs. The first token of some
	// engines has no text, and then no log probability either.
	logprobsTokens = 4
	// logprobsModels bounds the models of an engine that are asked until one takes chats.
	logprobsModels = 8
)

// Logprobs reports whether the engines return log probabilities: at least one has shown
// them, and none that takes chats lacks them. A hub knows of one answer for all models of
// an agent, so one engine without them decides.
func (p *Pool) Logprobs() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	one := false
	for _, e := range p.servers {
		if e.logprobs == lacking {
			return false
		}
		one = one || e.logprobs == shown
	}
	return one
}

// AskLogprobs asks each engine that is well and has not answered since it last came up
// whether it returns log probabilities. It returns when all have answered or ctx has ended.
func (p *Pool) AskLogprobs(ctx context.Context) {
	p.each(func(e *server) { p.askLogprobs(ctx, e) })
}

// learn asks an engine whenever a probe finds it well without an answer, until ctx ends.
// It runs beside the probes, because an answer takes as long as the engine's queue.
func (p *Pool) learn(ctx context.Context, e *server) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.learns:
			asking, cancel := context.WithTimeout(ctx, logprobsTimeout)
			p.askLogprobs(asking, e)
			cancel()
		}
	}
}

// learnSoon wakes learn, unless the engine has answered or was asked not long ago.
func (p *Pool) learnSoon(e *server) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e.patience = max(0, e.patience-1)
	if e.answered || e.patience > 0 || !p.cfg.AskLogprobs {
		return
	}
	e.patience = logprobsPause
	select {
	case e.learns <- struct{}{}:
	default:
	}
}

// askLogprobs asks an engine about its models that are well, one after another, until one
// takes chats: the others may be models of embeddings.
func (p *Pool) askLogprobs(ctx context.Context, e *server) {
	p.mu.Lock()
	targets := make([]Target, 0, logprobsModels)
	for i := range e.targets {
		s := p.stateLocked(e.targets[i])
		if len(targets) < logprobsModels && s != nil && s.Healthy {
			targets = append(targets, e.targets[i])
		}
	}
	skip := e.answered || len(targets) == 0
	life := e.life
	p.mu.Unlock()
	if skip {
		return
	}
	found, model := chatless, ""
	for i := 0; i < len(targets) && found == chatless; i++ {
		found, model = p.find(ctx, targets[i]), targets[i].ModelID
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if found == unknown || e.life != life { // the engine went away meanwhile
		return
	}
	if found != e.logprobs {
		p.log.Info("engine was asked for log probabilities", "engine", e.url, "model", model, "returns_them",
			found == shown, "takes_chats", found != chatless)
	}
	e.logprobs, e.answered = found, true
}

// find asks for log probabilities. An engine may refuse the question as a whole, so that
// one which refuses is asked for a chat without them.
func (p *Pool) find(ctx context.Context, target Target) finding {
	status, there := p.chat(ctx, target, true)
	switch {
	case status == http.StatusOK && there:
		return shown
	case status == http.StatusOK:
		return lacking
	case status == http.StatusNotFound, status == http.StatusMethodNotAllowed, status == http.StatusNotImplemented:
		return chatless
	case status < 400 || status >= 500 || status == http.StatusTooManyRequests || status == http.StatusUnauthorized ||
		status == http.StatusForbidden || status == http.StatusRequestTimeout:
		return unknown
	}
	switch status, _ = p.chat(ctx, target, false); {
	case status == http.StatusOK:
		return lacking
	case status >= 400 && status < 500 && status != http.StatusTooManyRequests:
		return chatless
	}
	return unknown
}

// chat has an engine answer a few tokens. It returns the status, 0 without a whole answer,
// and whether the answer holds log probabilities with alternatives.
func (p *Pool) chat(ctx context.Context, target Target, logprobs bool) (status int, there bool) {
	ask := map[string]any{
		"model": target.LocalModel, "max_tokens": logprobsTokens, "temperature": 0, "stream": false,
		"messages": []map[string]string{{"role": "user", "content": "Hi"}},
	}
	if logprobs {
		ask["logprobs"], ask["top_logprobs"] = true, 5
	}
	status, body, err := p.ask(ctx, target, target.URL+endpoint.Chat.Path(), ask)
	if err != nil {
		return 0, false
	}
	var got struct {
		Choices []struct {
			Logprobs struct {
				Content []struct {
					Logprob *float64          `json:"logprob"`
					Top     []json.RawMessage `json:"top_logprobs"`
				} `json:"content"`
			} `json:"logprobs"`
		} `json:"choices"`
	}
	if json.Unmarshal(body, &got) != nil || len(got.Choices) == 0 {
		return status, false
	}
	for _, token := range got.Choices[0].Logprobs.Content {
		if token.Logprob != nil && len(token.Top) > 0 {
			return status, true
		}
	}
	return status, false
}
