package work

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/services/verifier/internal/judge"
	"svc.internal/services/verifier/internal/offers"
	"svc.internal/services/verifier/internal/probe"
)

const (
	// ratioInterval is the pause between two looks for models that are not measured, and
	// ratioFor how long a measurement holds.
	ratioInterval = 5 * time.Second
	ratioFor      = 24 * time.Hour
	// maxTries is after how many failures a model counts as usual.
	maxTries = 3
	// ratioTokens is the length of the prompt that is asked for, in usual tokens.
	ratioTokens = 64
	// minRatio and maxRatio bound what is believed.
	minRatio = 1.0 / 16
	maxRatio = 16.0
)

// Ratios knows how many bytes a token of our prompts has, by model, because a prompt is
// written in bytes and must fit a window of tokens. A reference's own count says it. It is
// safe for concurrent use.
type Ratios struct {
	Runner  Runner
	Offers  *offers.View
	Clock   clock.Clock
	Log     *slog.Logger
	Haste   Haste
	Enabled func(ctx context.Context) bool

	mu    sync.Mutex
	known map[string]ratio
}

type ratio struct {
	bytes float64
	at    time.Time
	tries int
}

// Of returns the bytes of a token, 0 where they are not known.
func (r *Ratios) Of(model string) float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.known[model].bytes
}

// Settled reports whether a model is measured, or was tried often enough.
func (r *Ratios) Settled(model string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.known[model]
	return k.bytes > 0 || k.tries >= maxTries
}

// Run measures until ctx ends.
func (r *Ratios) Run(ctx context.Context) {
	for range clock.Every(ctx, r.Haste.Of(ratioInterval)) {
		if r.Enabled(ctx) {
			r.Pass(ctx)
		}
	}
}

// Pass measures the models with a reference that are not measured, or not lately.
func (r *Ratios) Pass(ctx context.Context) {
	done := map[string]bool{}
	for _, seat := range r.Offers.AllReferences() {
		model := seat.Model.ID
		if done[model] || !seat.Open() || ctx.Err() != nil {
			continue
		}
		r.mu.Lock()
		k := r.known[model]
		r.mu.Unlock()
		if k.bytes > 0 && r.Clock.Now().Sub(k.at) < ratioFor {
			continue
		}
		done[model] = true
		bytes, err := r.measure(ctx, seat)
		warn(ctx, r.Log, "the tokens of a model could not be measured, and will be", err)
		r.mu.Lock()
		if r.known == nil {
			r.known = map[string]ratio{}
		}
		if bytes > 0 {
			k = ratio{bytes: bytes, at: r.Clock.Now()}
		} else {
			k.tries++
		}
		r.known[model] = k
		r.mu.Unlock()
	}
}

// measure asks a reference to read a prompt.
func (r *Ratios) measure(ctx context.Context, seat offers.Seat) (float64, error) {
	id, err := ids.New[struct{}](r.Clock.Now(), rand.Reader)
	if err != nil {
		return 0, err
	}
	// A question of a benchmark that feeds nothing is scored by nobody.
	record, err := r.Runner.RunOn(ctx, probe.Plan{
		ID: probe.ID(id), Offer: probe.Offer{Provider: seat.Provider, Model: seat.Model.ID}, Kind: probe.Greedy,
		Flow: probe.Visible, Purpose: probe.Benchmark, Greedy: true, PromptTokens: ratioTokens, MaxTokens: 1,
		DueAt: r.Clock.Now(),
	}, seat.Host())
	if err != nil {
		return 0, err
	}
	return ratioIn(record), nil
}

// ratioIn returns the bytes of a token by an answer's own count of the prompt, 0 where it
// has none that can be.
func ratioIn(record judge.Record) float64 {
	var asked struct {
		Messages []struct {
			Content string `json:"content"`
		} `json:"messages"`
	}
	var answer struct {
		Usage struct {
			Prompt int `json:"prompt_tokens"`
		} `json:"usage"`
	}
	if json.Unmarshal(record.Request, &asked) != nil || json.Unmarshal(record.Answer.Raw, &answer) != nil ||
		answer.Usage.Prompt < 1 {
		return 0
	}
	bytes := 0
	for _, m := range asked.Messages {
		bytes += len(m.Content)
	}
	found := float64(bytes) / float64(answer.Usage.Prompt)
	if found < minRatio || found > maxRatio {
		return 0
	}
	return found
}
