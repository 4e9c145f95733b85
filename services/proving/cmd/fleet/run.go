package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/telemetry"
	"svc.internal/services/proving/internal/fleet"
	"svc.internal/services/standalone/console"
	"svc.internal/services/standalone/demo"
)

const (
	// startTimeout bounds the start of everything, including a new database, and
	// stopTimeout the end.
	startTimeout = 9 * time.Minute
	stopTimeout  = 5 * time.Minute
	// providers is how many agents serve consumers.
	providers = 2
)

// run starts the fleet, seeds the demo and waits until ctx ends.
func run(ctx context.Context, o options, out io.Writer) (err error) {
	con := console.New(out, clock.System.Now)
	log, err := telemetry.NewLog(telemetry.Config{LogLevel: "info", LogFormat: "text"}, out)
	if err != nil {
		return err
	}
	bin, err := filepath.Abs(o.bin)
	if err != nil {
		return fmt.Errorf("-bin: %w", err)
	}
	startCtx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	con.Say("Starting the fleet ...")
	f, err := fleet.Start(startCtx, fleet.Config{
		Dir: o.dir, BinDir: bin, DatabaseURL: o.DatabaseURL.Reveal(), EngineURL: o.EngineURL,
		Grouped: o.grouped, References: o.references, Replicas: map[string]int{fleet.Agent: providers + o.references},
		FixedPorts: !o.free, Restart: true, DrainDelay: o.drain, LogLevel: o.LogLevel, OTLPEndpoint: o.OTLPEndpoint,
		Log: log, Step: con.Step, Taken: func() error { return writeState(o.dir, "") },
	})
	if err != nil {
		return err
	}
	defer func() {
		con.Say("Stopping the fleet ...")
		stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		err = errors.Join(err, f.Stop(stopCtx))
	}()
	done := con.Step("Demo")
	env, err := f.Seed(startCtx)
	if err != nil {
		if ctx.Err() != nil {
			return nil // stopped before the fleet was ready
		}
		return err
	}
	done(seeded(o.references))
	announce(con, f, env)
	return serveControl(ctx, f)
}

// seeded says what the demo consists of.
func seeded(references int) string {
	if references == 0 {
		return "models, consumer, providers; benchmarks are waived"
	}
	return "models, consumer, providers, which the verifier has benchmarked, references"
}

func announce(con *console.Console, f *fleet.Fleet, env demo.Environment) {
	var metrics []string
	for _, service := range fleet.Services() {
		metrics = append(metrics, service+" "+f.AdminURL(f.Replicas(service)[0])+"/metrics")
	}
	bases := f.Gateways()
	for i := range bases {
		bases[i] += "/v1"
	}
	con.Summary("The fleet is running.", "fleet status shows the processes, fleet down stops them.", []console.Row{
		{Name: "API base URLs", Value: strings.Join(bases, "  ")},
		{Name: "API key", Value: env.APIKey},
		{Name: "Model", Value: env.Model},
		{Name: "Engine", Value: f.EngineURL()},
		{Name: "Provider URLs", Value: strings.Join(f.Hubs(), "  ")},
		{Name: "Operators' URLs", Value: strings.Join(f.Operators(), "  ")},
		{Name: "Metrics", Value: strings.Join(slices.Compact(metrics), "\n                 ")},
		{Name: "Logs", Value: f.Path("log")},
		{Name: "Environment", Value: f.Path("fleet.env")},
	}, env.Curl())
}
