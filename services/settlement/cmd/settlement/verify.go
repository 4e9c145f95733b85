package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/pkg/node"
	"svc.internal/pkg/pg"
	"svc.internal/services/settlement"
)

// The exit codes of verify.
const (
	exitSound   = 0
	exitDrift   = 1
	exitUnknown = 2
)

// verifyTimeout bounds each query of verify, which reads whole tables.
const verifyTimeout = 15 * time.Minute

// runVerify recomputes every invariant from the database that environ names, and prints the
// result. settings reads the settings in a file.
func runVerify(
	ctx context.Context, out, errs io.Writer, environ []string,
	settings func(file string) (settlement.Config, error), args []string,
) int {
	flags := flag.NewFlagSet("verify", flag.ContinueOnError)
	flags.SetOutput(errs)
	w := verifying{environ: environ, settings: settings}
	flags.BoolVar(&w.json, "json", false, "print the report as JSON")
	flags.BoolVar(&w.chains, "chain", false, "compare with the chains of the settings too")
	flags.StringVar(&w.file, "config", "", "file of settings (YAML), for the chains; the environment wins over it")
	flags.Func("rpc", "ask other RPCs of a chain, for example 8453=https://one,https://two", func(text string) error {
		w.others = append(w.others, text)
		return nil
	})
	if err := flags.Parse(args); err != nil || flags.NArg() > 0 || !w.chains && (w.file != "" || w.others != nil) {
		fmt.Fprintln(errs, "usage: settlement verify [--json] [--chain [-config file.yaml] [-rpc 8453=URL,URL]]")
		return exitUnknown
	}
	code, err := w.run(ctx, out)
	if err != nil {
		fmt.Fprintf(errs, "settlement verify: %v\n", err)
		return exitUnknown
	}
	return code
}

// verifying is one run.
type verifying struct {
	environ      []string
	file         string
	json, chains bool
	settings     func(file string) (settlement.Config, error)
	// others are RPCs that are asked instead of the configured ones.
	others []string
}

func (w verifying) run(ctx context.Context, out io.Writer) (code int, err error) {
	db, err := w.open(ctx)
	if err != nil {
		return exitUnknown, err
	}
	defer db.Close()
	var report settlement.Report
	if w.chains {
		report, err = w.withChains(ctx, db)
	} else {
		report, err = settlement.Verify(ctx, db)
	}
	if err != nil {
		return exitUnknown, err
	}
	if w.json {
		err = report.PrintJSON(out)
	} else {
		err = report.Print(out)
	}
	switch {
	case report.Drift > 0:
		return exitDrift, err
	case report.Unknown > 0:
		return exitUnknown, err
	}
	return exitSound, err
}

func (w verifying) withChains(ctx context.Context, db *pgxpool.Pool) (settlement.Report, error) {
	cfg, err := w.settings(w.file)
	if err != nil {
		return settlement.Report{}, fmt.Errorf("read the settings: %w", err)
	}
	if cfg, err = cfg.WithRPCs(w.others); err != nil {
		return settlement.Report{}, err
	}
	return settlement.VerifyChains(ctx, db, cfg)
}

func (w verifying) open(ctx context.Context) (*pgxpool.Pool, error) {
	tables := settlement.Tables()
	url, err := node.ToolDatabaseURL(tables, w.environ)
	if err != nil {
		return nil, err
	}
	db, err := pg.Open(ctx, pg.Config{URL: url, Schema: tables.Schema, Role: tables.Role, MaxConns: 1,
		StatementTimeout: verifyTimeout, ApplicationName: "settlement verify"})
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	return db, nil
}
