package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"inference-bench/internal/admin"
	"inference-bench/internal/growth"
	"inference-bench/internal/loadgen"
	"inference-bench/internal/pause"
)

const (
	// longStreams are open at a time.
	longStreams = 16
	// longContext and longest are what the models of this axis take and answer with, in tokens. The hub ends an answer
	// that is longer by its own count, which takes the text of one event of the mock engine for some five tokens.
	longContext = 4_194_304
	longest     = 1_048_576
	// perToken is how much longer a load lasts for each token of its answers, so that some long ones end in it.
	perToken = 300 * time.Microsecond
	// longLimit bounds one answer.
	longLimit = 3 * time.Minute
	// collections is how often garbage is collected in a load, and sampling the pause between two looks at the
	// resident memory.
	collections = 5
	sampling    = 100 * time.Millisecond
)

// length is the axis of tokens in an answer.
type length struct{ *bench }

func (l *length) axis() growth.Axis {
	return growth.Axis{Judged: 2, Figures: []growth.Figure{{Name: "in use", Unit: "MiB"}, {Name: "resident", Unit: "MiB"},
		{Name: "events", Unit: "1/s"}, {Name: "whole answers"}},
		Title: fmt.Sprintf("tokens of a streamed answer, as fast as they come; memory of the Go process under %d streams",
			longStreams)}
}

// step puts the load on the product and reads its memory meanwhile. The figures are the largest that were seen: heap
// and stacks behind a collection, and resident memory.
func (l *length) step(ctx context.Context, size int) (s growth.Step, err error) {
	model := admin.Model{ID: fmt.Sprintf("mock-t%d-f0-d0-c1", size), ContextLength: longContext, MaxOutputTokens: longest}
	if err := l.operator.PutModel(ctx, model); err != nil {
		return s, fmt.Errorf("put a model into the catalog: %w", err)
	}
	if err := pause.For(ctx, l.times.rest); err != nil { // until the gateway knows its bound
		return s, err
	}
	dur := l.times.dur + time.Duration(size)*perToken
	var res loadgen.Result
	done := make(chan error, 1)
	go func() {
		var err error
		res, err = loadgen.Run(ctx, loadgen.Spec{Base: l.base, Keys: l.keys, Mode: "stream", Model: model.ID, PromptBytes: 64,
			MaxTokens: longest, Conns: longStreams, Warm: l.times.warm, Dur: dur, Limit: longLimit, Events: size})
		done <- err
	}()
	used, resident, err := l.watch(ctx, dur)
	if err := errors.Join(err, <-done); err != nil {
		return s, err
	}
	if res.Chunks == 0 {
		return s, errors.New(join("no event came", failures(res)))
	}
	whole := ""
	if res.Requests == 0 {
		whole = "no answer came to its end"
	}
	return growth.Step{Values: []float64{mebibytes(used), mebibytes(resident), res.ChunkPerSec, float64(res.Requests)},
		Note: join(whole, failures(res))}, nil
}

// watch reads memory while a load lasts, behind its warm-up.
func (l *length) watch(ctx context.Context, dur time.Duration) (used, resident int64, err error) {
	if err := pause.For(ctx, l.times.warm); err != nil {
		return 0, 0, err
	}
	began, collected := time.Now(), 0
	for time.Since(began) < dur {
		if err := pause.For(ctx, sampling); err != nil {
			return 0, 0, err
		}
		resident = max(resident, l.program.Resident())
		if time.Since(began) < time.Duration(collected+1)*dur/(collections+1) {
			continue
		}
		collected++
		live, err := l.program.Collect(ctx)
		if err != nil {
			return 0, 0, err
		}
		used = max(used, live.Heap+live.Stacks)
	}
	return used, resident, nil
}

func (l *length) close() error { return nil }

func mebibytes(bytes int64) float64 { return float64(bytes) / (1 << 20) }
