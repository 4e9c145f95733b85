package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"inference-bench/internal/admin"
	"inference-bench/internal/wide"
)

// What the agents offer: the crowd twenty models, two each, and the few that
// are measured others.
const (
	crowdModels = 20
	steadyModel = "bench-steady"
)

func crowdModel(i int) string { return fmt.Sprintf("bench-crowd-%02d", i) }

// credit is what the consumer has, in US dollars, and context what the models
// take, in tokens: bodies of 10 MiB are millions of them.
const (
	credit        = "1000000"
	contextTokens = 50_000_000
)

// prepare makes models, the consumer, and a provider for each agent.
func (b *bench) prepare(ctx context.Context) error {
	began := time.Now()
	b.say("Making %d providers ...", b.agents)
	models := []string{steadyModel, wide.Paced, wide.Burst, wide.Answer, wide.Elsewhere}
	for i := range crowdModels {
		models = append(models, crowdModel(i))
	}
	for i := range silentAgents() {
		models = append(models, silentModel(i))
	}
	for _, id := range models {
		if err := b.operator.PutModel(ctx, admin.Model{ID: id, ContextLength: contextTokens}); err != nil {
			return fmt.Errorf("put a model into the catalog: %w", err)
		}
	}
	key, err := b.operator.Consumer(ctx, "hub", credit)
	if err != nil {
		return fmt.Errorf("make a consumer: %w", err)
	}
	b.client = wide.Client{Base: b.base + "/v1", Key: key}
	own := b.steadyProviders + wideAgents + silentAgents()
	keys, err := b.operator.Providers(ctx, "hub", 0, b.agents+own, b.sayCount)
	if err != nil {
		return err
	}
	b.own, b.keys = keys[:own], keys[own:]
	b.say("  %.0f s", time.Since(began).Seconds())
	return os.WriteFile(b.keysFile(), []byte(strings.Join(b.keys, "\n")+"\n"), 0o600)
}

func (b *bench) keysFile() string { return filepath.Join(b.dir, "keys") }
