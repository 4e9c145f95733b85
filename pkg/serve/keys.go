package serve

import (
	"context"

	"go.opentelemetry.io/otel/trace"

	"svc.internal/pkg/telemetry"
)

// keys are the keys of a context's values that pass from a caller to a handler of the same
// process. Their packages keep them to themselves, so each is learnt from the key that its
// package asks for.
var keys = struct{ span, request, cancel any }{
	span:    asked(func(ctx context.Context) { trace.SpanFromContext(ctx) }),
	request: asked(func(ctx context.Context) { telemetry.RequestID(ctx) }),
	// Package context finds by it the nearest context that can be cancelled. Without the key
	// it would start a goroutine for each context that a handler derives.
	cancel: asked(func(ctx context.Context) {
		_, cancel := context.WithCancel(ctx)
		cancel()
	}),
}

// asked returns the key of the value that look asks a context for.
func asked(look func(context.Context)) any {
	ctx := &asking{Context: context.Background(), done: make(chan struct{})}
	look(ctx)
	return ctx.key
}

type asking struct {
	context.Context
	done chan struct{}
	key  any
}

// Done returns a channel that is never closed, because a context that never ends is not asked.
func (c *asking) Done() <-chan struct{} { return c.done }

// Value notes the key.
func (c *asking) Value(key any) any {
	c.key = key
	return nil
}
