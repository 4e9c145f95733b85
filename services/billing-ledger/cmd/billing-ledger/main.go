// Command billing-ledger runs the ledger as a process of its own, and has its
// operators' tools.
//
//	billing-ledger [-config file.yaml] [-check]
//	billing-ledger verify [--json]
//
// Without a subcommand it serves; see the service's README for its settings.
// verify recomputes every invariant of the ledger in the database that
// DATABASE_URL names and prints the trial balance. It exits with 0 when all
// hold, 1 when any does not, and 2 when it could not tell.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"svc.internal/pkg/node"
	"svc.internal/pkg/pg"
	billingledger "svc.internal/services/billing-ledger"
)

// Exit codes.
const (
	exitSound   = 0
	exitDrift   = 1
	exitUnknown = 2
)

// statementTimeout bounds each query of verify, which reads whole tables.
const statementTimeout = 15 * time.Minute

const usage = "usage: billing-ledger verify [--json]"

func main() {
	if len(os.Args) < 2 || os.Args[1] != "verify" {
		os.Exit(node.Main(node.BillingLedger, newProgram()))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := runVerify(ctx, os.Args[2:], os.Getenv("DATABASE_URL"), os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func runVerify(ctx context.Context, args []string, url string, out, errs io.Writer) int {
	flags := flag.NewFlagSet("billing-ledger verify", flag.ContinueOnError)
	flags.SetOutput(errs)
	asJSON := flags.Bool("json", false, "print the report as JSON")
	if err := flags.Parse(args); err != nil || flags.NArg() > 0 {
		fmt.Fprintln(errs, usage)
		return exitUnknown
	}
	report, err := verify(ctx, url)
	if err == nil {
		print := report.Print
		if *asJSON {
			print = report.PrintJSON
		}
		err = print(out)
	}
	switch {
	case err != nil:
		fmt.Fprintln(errs, "billing-ledger verify:", err)
		return exitUnknown
	case report.Drift > 0:
		return exitDrift
	}
	return exitSound
}

func verify(ctx context.Context, url string) (billingledger.Report, error) {
	if url == "" {
		return billingledger.Report{}, errors.New("DATABASE_URL is not set")
	}
	db, err := pg.Open(ctx, pg.Config{
		URL: url, Schema: billingledger.Schema, Role: billingledger.Role,
		MaxConns: 1, StatementTimeout: statementTimeout, ApplicationName: "billing-ledger verify",
	})
	if err != nil {
		return billingledger.Report{}, fmt.Errorf("open the database: %w", err)
	}
	defer db.Close()
	return billingledger.Verify(ctx, db)
}
