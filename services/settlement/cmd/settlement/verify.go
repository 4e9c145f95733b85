package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

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

// runVerify recomputes every invariant from the database at url, and prints the result.
func runVerify(ctx context.Context, out, errs io.Writer, url string, args []string) int {
	flags := flag.NewFlagSet("verify", flag.ContinueOnError)
	flags.SetOutput(errs)
	asJSON := flags.Bool("json", false, "print the report as JSON")
	if err := flags.Parse(args); err != nil || flags.NArg() > 0 {
		fmt.Fprintln(errs, "usage: settlement verify [--json]")
		return exitUnknown
	}
	drift, err := verify(ctx, out, url, *asJSON)
	switch {
	case err != nil:
		fmt.Fprintf(errs, "settlement verify: %v\n", err)
		return exitUnknown
	case drift:
		return exitDrift
	}
	return exitSound
}

func verify(ctx context.Context, out io.Writer, url string, asJSON bool) (drift bool, err error) {
	if url == "" {
		return false, errors.New("DATABASE_URL is not set")
	}
	if err := pg.CheckURL(url, os.Getenv("SVC_DATABASE_ALLOW_UNVERIFIED") == "true"); err != nil {
		return false, fmt.Errorf("DATABASE_URL: %w", err)
	}
	db, err := pg.Open(ctx, pg.Config{URL: url, Schema: settlement.Schema, Role: settlement.Role, MaxConns: 1,
		StatementTimeout: verifyTimeout, ApplicationName: "settlement verify"})
	if err != nil {
		return false, fmt.Errorf("open the database: %w", err)
	}
	defer db.Close()
	report, err := settlement.Verify(ctx, db)
	if err != nil {
		return false, err
	}
	if asJSON {
		return report.Drift > 0, report.PrintJSON(out)
	}
	return report.Drift > 0, report.Print(out)
}
