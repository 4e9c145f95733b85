package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"inference-bench/internal/child"
	"inference-bench/internal/sheet"
	"inference-bench/internal/wide"
)

const (
	// rounds times of each kind, each so long.
	rounds = 8
	round  = 3 * time.Second
	// wideAgents are the one with the streams and the other.
	wideAgents = 2
	// bodyBytes is what one request of a large body has: the most that is taken, less
	// what the gateway writes into it, at least the bound of its answer.
	bodyBytes = 10<<20 - 512
)

// serveWide is the role of this program as an agent of many streams.
func serveWide(ctx context.Context, ws, models string) error {
	return wide.Serve(ctx, ws+"/ws", os.Getenv("BENCH_PROVIDER_KEY"), strings.Split(models, ","), os.Stdin, os.Stdout)
}

// wideAgent is such an agent in a process of its own.
type wideAgent struct{ *child.Child }

// startWide starts such an agent.
func (b *bench) startWide(ctx context.Context, key string, models ...string) (wideAgent, error) {
	program, err := os.Executable()
	if err != nil {
		return wideAgent{}, err
	}
	//nolint:gosec // this program
	cmd := exec.CommandContext(ctx, program, "-agent", strings.Join(models, ","), "-ws", b.ws)
	cmd.Env = append(os.Environ(), "BENCH_PROVIDER_KEY="+key)
	process, err := child.Start(cmd)
	return wideAgent{process}, err
}

// sent is how many bytes the last burst of such an agent has sent.
func (w wideAgent) sent() (int64, error) {
	answer, err := w.Ask("")
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(string(answer), 10, 64)
}

// streamFigures are what was measured of the streams.
type streamFigures struct {
	alone, stalled wide.Gaps
	bodies         wide.Bodies
}

// measureStreams reads 63 streams of one agent.
func (b *bench) measureStreams(ctx context.Context) (err error) {
	var f streamFigures
	defer func() { f.fill(b, err) }()
	agent, err := b.startWide(ctx, b.own[b.steadyProviders], wide.Paced, wide.Burst, wide.Answer)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, agent.Close()) }()
	other, err := b.startWide(ctx, b.own[b.steadyProviders+1], wide.Elsewhere)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, other.Close()) }()
	for _, model := range []string{wide.Answer, wide.Elsewhere} {
		if err := b.awaitAnswer(ctx, model); err != nil {
			return err
		}
	}
	bench := wide.New(b.client, agent.sent)
	b.say("One stalled stream among %d, about %.0f s ...", wide.Streams+1, (2 * rounds * round).Seconds())
	var failed error
	f.alone, f.stalled, failed = bench.Stalled(ctx, rounds, round)
	b.say("Bodies of 10 MiB beside %d streams, about %.0f s ...", wide.Streams, (3 * rounds * round).Seconds())
	f.bodies, err = bench.Bodies(ctx, rounds, round, bodyBytes)
	return errors.Join(failed, err)
}

func (f *streamFigures) fill(b *bench, failure error) {
	added := func(without, with wide.Gaps) (*float64, string) {
		value, ok := with.Over(without)
		if !ok {
			if failure != nil {
				return nil, failure.Error()
			}
			return nil, ""
		}
		return &value, fmt.Sprintf("p99 of the gaps %s without, %s with; p50 %s, %s", median(without.P99), median(with.P99),
			median(without.P50), median(with.P50))
	}
	part := "one socket"
	value, note := added(f.alone, f.stalled)
	b.sheet.Add(sheet.Row{Part: part, Figure: "a stalled stream adds to the others' p99", Unit: "ms", Value: value,
		Gate: new(5.0), Strict: true, Note: note})
	value, note = added(f.bodies.Without, f.bodies.Same)
	b.sheet.Add(sheet.Row{Part: part, Figure: "bodies of 10 MiB add to the others' p99", Unit: "ms", Value: value,
		Gate: new(10.0), Strict: true, Note: note})
	value, note = added(f.bodies.Without, f.bodies.Elsewhere)
	b.sheet.Add(sheet.Row{Part: part, Figure: "bodies to another agent add", Unit: "ms", Value: value, Note: note})
	value, note = added(f.bodies.Elsewhere, f.bodies.Same)
	if value != nil {
		note = fmt.Sprintf("the same socket to another; %d bodies one after another, %s ms each", f.bodies.Count,
			sheet.Number(f.bodies.P50))
	}
	b.sheet.Add(sheet.Row{Part: part, Figure: "of it because of the socket", Unit: "ms", Value: value, Note: note})
}

func median(values []float64) string { return sheet.Number(wide.Median(values)) }
