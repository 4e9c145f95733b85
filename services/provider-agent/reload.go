package provideragent

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"svc.internal/services/provider-agent/internal/offer"
)

// offering has the models that are offered now.
type offering struct {
	// turn lets one reload happen at a time.
	turn sync.Mutex

	mu     sync.Mutex
	models []Model
	fault  string
}

func (o *offering) now() []Model {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.models
}

func (o *offering) set(models []Model, fault string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.models, o.fault = models, fault
}

// ModelsFault says why the agent does not offer models.json as it is now; empty where it does.
func (a *Agent) ModelsFault() string {
	a.offer.mu.Lock()
	defer a.offer.mu.Unlock()
	return a.offer.fault
}

// Reload offers other models. No request is dropped: the agent registers over another
// connection, and the earlier connection serves the open requests. Models with a fault change
// nothing.
func (a *Agent) Reload(ctx context.Context, models []Model) error {
	a.offer.turn.Lock()
	defer a.offer.turn.Unlock()
	if err := offer.Validate(models); err != nil {
		return err
	}
	targets, err := targetsOf(models)
	if err != nil {
		return err
	}
	if err := a.link.Fits(a.offersOf(models)); err != nil {
		return err
	}
	before := a.offer.now()
	earlier := a.offersOf(before)
	a.pool.Replace(ctx, targets)
	a.folders.Set(filesOf(models))
	a.offer.set(models, "")
	a.link.Reoffer(earlier)
	return nil
}

// modelsInterval is the pause between two looks at models.json.
const modelsInterval = 2 * time.Second

// Follow offers what models.json at path says, whenever the file changes, until ctx ends. load
// reads the file. While the file has a fault, the models of its last good text stay.
func (a *Agent) Follow(ctx context.Context, path string, load func(context.Context) ([]Model, error)) {
	ticker := time.NewTicker(modelsInterval)
	defer ticker.Stop()
	seen := stampOf(path)
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		seen = a.follow(ctx, path, seen, load)
	}
}

// follow looks once, and returns what it has seen.
func (a *Agent) follow(ctx context.Context, path, seen string, load func(context.Context) ([]Model, error)) string {
	stamp := stampOf(path)
	if stamp == seen {
		return seen
	}
	models, err := load(ctx)
	if err == nil {
		err = a.Reload(ctx, models)
	}
	switch {
	case ctx.Err() != nil:
	case err != nil:
		a.offer.set(a.offer.now(), err.Error())
		a.log.Error("models.json has a fault; the models stay as they were", "file", path, "reason", err)
	default:
		a.log.Info("models.json has changed, and its models are offered now", "file", path, "models", len(models))
	}
	return stamp
}

// stampOf changes whenever a file does.
func stampOf(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(info.ModTime().UnixNano(), info.Size())
}
