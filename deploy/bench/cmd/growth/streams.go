package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"inference-bench/internal/growth"
	"inference-bench/internal/loadgen"
)

// What a stream is: so many events, one each gap.
const (
	streamModel  = "mock-t256-f0-d20-c1"
	streamEvents = 256
	streamGap    = 20 * time.Millisecond
	// More than manyStreams streams begin within half of manyWarm, because a thousand at once would be another load.
	manyStreams = 100
	manyWarm    = 6 * time.Second
)

// streams is the axis of open streams.
type streams struct{ *bench }

func (s *streams) axis() growth.Axis {
	return growth.Axis{Title: fmt.Sprintf("open streams with an event each %d ms, over %d connections of agents",
		streamGap.Milliseconds(), s.serving), Judged: 1, Figures: []growth.Figure{{Name: "CPU an event", Unit: "µs"},
		{Name: "events", Unit: "1/s"}, {Name: "of the pace"}, {Name: "idle CPU", Unit: "ms/s"}}}
}

func (s *streams) step(ctx context.Context, size int) (out growth.Step, err error) {
	idle, err := s.resting(ctx)
	if err != nil {
		return out, err
	}
	warm := s.times.warm
	if size > manyStreams {
		warm = max(warm, manyWarm)
	}
	res, err := loadgen.Run(ctx, loadgen.Spec{Base: s.base, Keys: s.keys, Mode: "stream", Model: streamModel,
		PromptBytes: 64, Conns: size, Warm: warm, Dur: s.times.dur, Events: streamEvents, Gap: streamGap, Procs: s.group})
	if err != nil {
		return out, err
	}
	if res.Chunks == 0 {
		return out, errors.New(join("no event came", failures(res)))
	}
	note := failures(res)
	if res.NominalRatio < keepsUp {
		note = join(note, "the streams fell behind their pace")
	}
	return growth.Step{Values: []float64{growth.Beyond(res.CPU, idle, res.Seconds, res.Chunks), res.ChunkPerSec,
		res.NominalRatio, idle * 1e3}, Note: note}, nil
}

func (s *streams) close() error { return nil }
