package main

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	provideragent "svc.internal/services/provider-agent"
	"svc.internal/services/provider-agent/internal/service"
)

// bench measures how fast the engines answer, and says until when the platform's own
// benchmark of each model counts.
func bench(ctx context.Context, c invocation) error {
	cfg, err := c.settings()
	if err != nil {
		return err
	}
	flags := c.flags("bench")
	flags.StringVar(&cfg.Models, "models", cfg.Models, "`file` that lists the models (SVC_MODELS)")
	tokens := flags.Int("tokens", 128, "how many tokens each answer has at most, 16 to 1024")
	if err := c.parse(flags); err != nil {
		return err
	}
	if *tokens < 16 || *tokens > 1024 {
		return errors.New("-tokens must be from 16 to 1024")
	}
	models, err := provideragent.LoadModels(cfg.Models)
	if err != nil {
		return err
	}
	expires := benchmarksOf(ctx, cfg)
	table := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "MODEL\tFIRST TOKEN\tTOKENS/S\tTOKENS\tPLATFORM'S BENCHMARK")
	failed := false
	for _, m := range models {
		fmt.Fprintf(c.diagnostics, "asking %s ...\n", service.Clean(m.ModelID, maxCell))
		r, err := provideragent.Bench(ctx, m, *tokens, time.Now)
		if err != nil {
			failed = true
			fmt.Fprintf(table, "%s\t%s\n", dash(m.ModelID), service.Clean(err.Error(), maxCell))
			continue
		}
		said := expires[m.ModelID]
		if said == "" {
			said = "not known"
		}
		fmt.Fprintf(table, "%s\t%v\t%.1f\t%d\t%s\n", dash(m.ModelID), r.FirstToken.Round(time.Millisecond), r.PerSecond,
			r.Tokens, said)
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print the measurements: %w", err)
	}
	if failed {
		return errUnfit
	}
	return c.say("\nThe platform makes its own benchmark, with requests of its own, once a machine is connected and " +
		"the collateral is there.\nIts benchmark counts for 30 days; svc-agent status says when it expires.\n")
}

// benchmarksOf says for each model how its benchmark stands; empty where that is not known.
func benchmarksOf(ctx context.Context, cfg environment) map[string]string {
	said := map[string]string{}
	client, err := apiOf(cfg)
	if err != nil || !cfg.Key.IsSet() {
		return said
	}
	answer, err := client.Account(ctx, cfg.Key)
	if err != nil {
		return said
	}
	account, err := service.ParseAccount(answer)
	if err != nil || account.Models == nil {
		return said
	}
	for _, m := range *account.Models {
		said[m.ModelID] = benchmarkOf(m)
	}
	return said
}

// benchmarkOf says how the benchmark of a model stands.
func benchmarkOf(m service.OwnModel) string {
	text := dash(m.Benchmark)
	if m.BenchmarkExpiresAt != nil {
		text += ", until " + moment(m.BenchmarkExpiresAt)
	}
	return text
}
