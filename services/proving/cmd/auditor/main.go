// Command auditor judges the marketplace's money from the outside: by what
// clients received, what engines sent, the ledger's export and settlement's
// lines. See package auditor for what it finds and what it cannot tell.
//
//	auditor -export ledger.jsonl -earnings earnings.jsonl \
//	        -clients clients.jsonl -engines engines.jsonl \
//	        [-setup setup.json] [-chains chains.jsonl] [-skew 2s] [-max-requests N] [-json]
//
// Its exit code is 0 when nothing is wrong, 1 when something is, and 2 when that
// could not be told: an input is unreadable, truncated or malformed, or
// something is still open.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"svc.internal/services/proving/internal/auditor"
)

// The exit codes.
const (
	clean = iota
	wrong
	unknown
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// files are the paths of the inputs.
type files struct{ export, earnings, clients, engines, setup, chains string }

func run(args []string, out, errs io.Writer) int {
	var paths files
	var opts auditor.Options
	var asJSON bool
	flags := flag.NewFlagSet("auditor", flag.ContinueOnError)
	flags.SetOutput(errs)
	flags.StringVar(&paths.export, "export", "", "what billing-ledger exported")
	flags.StringVar(&paths.earnings, "earnings", "", "the rows of settlement's tables")
	flags.StringVar(&paths.clients, "clients", "", "what clients received")
	flags.StringVar(&paths.engines, "engines", "", "what engines sent")
	flags.StringVar(&paths.setup, "setup", "", "what accounts, models and providers there are (optional)")
	flags.StringVar(&paths.chains, "chains", "", "what chains say of payouts and wallets (optional)")
	flags.DurationVar(&opts.Skew, "skew", 0, "the longest that a transaction lasted (default 2s)")
	flags.IntVar(&opts.MaxRequests, "max-requests", 0, "the most requests that are kept in memory (default 4194304)")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return clean
		}
		return unknown
	}
	report, err := audit(paths, opts)
	if err == nil && asJSON {
		err = report.JSON(out)
	} else if err == nil {
		err = report.Print(out, auditor.Style{Colour: terminal(out)})
	}
	switch {
	case err != nil:
		fmt.Fprintln(errs, "auditor:", err)
		return unknown
	case !report.Clean():
		return wrong
	case !report.Decided():
		return unknown
	}
	return clean
}

// audit opens the files and judges them.
func audit(paths files, opts auditor.Options) (*auditor.Report, error) {
	var in auditor.Inputs
	for _, f := range []struct {
		path, flag string
		to         *io.Reader
	}{
		{paths.export, "export", &in.Export},
		{paths.earnings, "earnings", &in.Earnings},
		{paths.clients, "clients", &in.Clients},
		{paths.engines, "engines", &in.Engines},
		{paths.setup, "setup", &in.Setup},
		{paths.chains, "chains", &in.Chains},
	} {
		if f.path == "" {
			if f.flag == "setup" || f.flag == "chains" {
				continue
			}
			return nil, fmt.Errorf("-%s is missing", f.flag)
		}
		file, err := os.Open(f.path)
		if err != nil {
			return nil, fmt.Errorf("open the input: %w", err)
		}
		defer file.Close()
		*f.to = file
	}
	report, err := auditor.Audit(in, opts)
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	return report, nil
}

// terminal reports whether a person reads the output.
func terminal(out io.Writer) bool {
	f, ok := out.(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
