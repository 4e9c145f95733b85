// Command billing-ledger runs the ledger as a process of its own, and has its
// operators' tools.
//
//	billing-ledger [-config file.yaml] [-check]
//	billing-ledger migrate [-config file.yaml]
//	billing-ledger verify [--json]
//	billing-ledger seal [-after 1h]
//	billing-ledger export [-out FILE]
//	billing-ledger alarms [-close REASON -object ID -by NAME]
//	billing-ledger operator [-by NAME] invite NAME ROLE
//	billing-ledger peppers [-give-up NUMBER]
//	billing-ledger rewind -since TIME [-stream NAME] [-config file.yaml]
//
// Without a subcommand it serves; -print shows its settings. migrate brings the schema up
// to date under the login of DATABASE_OWNER_URL. rewind reads the service's settings and
// works on its consumers in NATS. The other tools work on one view of the data of the database
// that DATABASE_URL names: by its URL, or by "file:" and the path of a file with the URL. The
// service's login suffices for them; a superuser is refused unless the database is on loopback.
//
// verify recomputes every invariant of the ledger, hashes and sums its sealed days again,
// and prints the trial balance and the last root. It exits with 0 for a sound ledger, with
// 1 for drift, and with 2 when it could not decide. seal seals the days that have been
// over for so long and prints a line with the root of each; the service does the same
// every SealInterval. export writes all rows as lines of JSON. alarms lists the open alarms of
// card payments or closes one, and exits with 1 while one is open. rewind has the durable
// consumers deliver again what the streams have stored since a time (RFC 3339). operator
// invites an operator and prints the invitation, for when nobody can sign in. peppers lists
// the peppers, each with how many hashes are left of it, or gives one up. All exit with 2
// when they failed, and else with 0.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/node"
	"svc.internal/pkg/pg"
	billingledger "svc.internal/services/billing-ledger"
)

// The exit codes.
const (
	exitSound   = 0
	exitDrift   = 1
	exitUnknown = 2
)

// statementTimeout bounds each query of the tools, which read whole tables.
const statementTimeout = 15 * time.Minute

const usage = `usage: billing-ledger verify [--json]
       billing-ledger seal [-after duration]
       billing-ledger export [-out FILE]
       billing-ledger alarms [-close REASON -object ID -by NAME]
       billing-ledger operator [-by NAME] invite NAME ROLE
       billing-ledger peppers [-give-up NUMBER]
       billing-ledger rewind -since TIME`

func main() {
	if len(os.Args) >= 2 {
		if os.Args[1] == "rewind" {
			os.Exit(rewinder().Main(os.Args[2:]))
		}
		if run, ok := tools()[os.Args[1]]; ok {
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
			code := run(ctx, streams{os.Stdout, os.Stderr, terminal(os.Stderr)}, os.Environ(), os.Args[2:])
			stop()
			os.Exit(code)
		}
	}
	os.Exit(node.Main(node.BillingLedger, newProgram()))
}

// rewinder is the tool for a database that lost its last commits in a failover. Usage is
// in its NATS stream for 7 days or 2 GiB, whichever is less, and receipts for a day or
// 256 MiB. A time that a stream does not reach is refused, and the stream's oldest
// message is named. Settling is idempotent, so a time that is too early costs only time.
func rewinder() node.Rewinder {
	return node.Rewinder{
		Name: node.BillingLedger, Program: newProgram(), Durable: bus.DurableBilling,
		Streams: []string{bus.UsageStream.Name, bus.WorkReceiptStream.Name, bus.AccountStream.Name},
	}
}

// streams are the outputs of a tool. live reports whether errs is a terminal, on which a
// line may be written over.
type streams struct {
	out, errs io.Writer
	live      bool
}

// tool is a subcommand with the variables in environ; it returns the exit code.
type tool func(ctx context.Context, to streams, environ, args []string) int

func tools() map[string]tool {
	return map[string]tool{"verify": runVerify, "seal": runSeal, "export": runExport, "alarms": runAlarms,
		"operator": runOperator, "peppers": runPeppers}
}

func terminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// parse reads a tool's flags. It returns false when it has printed the usage.
func parse(flags *flag.FlagSet, to streams, args []string) bool {
	flags.SetOutput(to.errs)
	flags.Usage = func() {}
	if err := flags.Parse(args); err != nil || flags.NArg() > 0 {
		fmt.Fprintln(to.errs, usage)
		return false
	}
	return true
}

// failed prints an error of a tool.
func failed(to streams, name string, err error) int {
	fmt.Fprintf(to.errs, "billing-ledger %s: %v\n", name, err)
	return exitUnknown
}

func open(ctx context.Context, environ []string, name string) (*pgxpool.Pool, error) {
	tables := billingledger.Tables()
	url, err := node.ToolDatabaseURL(tables, environ)
	if err != nil {
		return nil, err
	}
	db, err := pg.Open(ctx, pg.Config{
		URL: url, Schema: tables.Schema, Role: tables.Role,
		MaxConns: 1, StatementTimeout: statementTimeout, ApplicationName: "billing-ledger " + name,
	})
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	return db, nil
}

func runVerify(ctx context.Context, to streams, environ, args []string) int {
	flags := flag.NewFlagSet("verify", flag.ContinueOnError)
	asJSON := flags.Bool("json", false, "print the report as JSON")
	if !parse(flags, to, args) {
		return exitUnknown
	}
	db, err := open(ctx, environ, flags.Name())
	if err != nil {
		return failed(to, flags.Name(), err)
	}
	defer db.Close()
	report, err := billingledger.Verify(ctx, db)
	if err == nil {
		print := report.Print
		if *asJSON {
			print = report.PrintJSON
		}
		err = print(to.out)
	}
	switch {
	case err != nil:
		return failed(to, flags.Name(), err)
	case report.Drift > 0:
		return exitDrift
	}
	return exitSound
}

func runSeal(ctx context.Context, to streams, environ, args []string) int {
	flags := flag.NewFlagSet("seal", flag.ContinueOnError)
	after := flags.Duration("after", billingledger.DefaultConfig().SealAfter, "how long a day must have been over")
	if !parse(flags, to, args) || *after < 0 {
		return exitUnknown
	}
	db, err := open(ctx, environ, flags.Name())
	if err != nil {
		return failed(to, flags.Name(), err)
	}
	defer db.Close()
	err = billingledger.Seal(ctx, db, *after, func(d billingledger.SealedDay) error {
		_, err := fmt.Fprintf(to.out, "%s  %d requests, %d entries, %d postings  %x\n",
			d.Day.Format(time.DateOnly), d.Lines, d.Entries, d.Postings, d.Root)
		return err
	})
	if err != nil {
		return failed(to, flags.Name(), err)
	}
	return exitSound
}

func runExport(ctx context.Context, to streams, environ, args []string) int {
	flags := flag.NewFlagSet("export", flag.ContinueOnError)
	path := flags.String("out", "", "the file to write; the standard output without it")
	if !parse(flags, to, args) {
		return exitUnknown
	}
	db, err := open(ctx, environ, flags.Name())
	if err != nil {
		return failed(to, flags.Name(), err)
	}
	defer db.Close()
	progress := func(string, int64) {}
	if to.live {
		progress = func(table string, rows int64) {
			fmt.Fprintf(to.errs, "\r\x1b[Kexport: %d rows, %s", rows, table)
		}
		defer fmt.Fprint(to.errs, "\r\x1b[K")
	}
	if err := export(ctx, db, *path, to.out, progress); err != nil {
		return failed(to, flags.Name(), err)
	}
	return exitSound
}

// export writes to a file, or to out when no path is given.
func export(ctx context.Context, db *pgxpool.Pool, path string, out io.Writer, progress func(string, int64)) error {
	if path == "" {
		return billingledger.Export(ctx, db, out, progress)
	}
	// Nobody else may read what consumers did.
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("create the file: %w", err)
	}
	err = billingledger.Export(ctx, db, file, progress)
	if closing := file.Close(); err == nil && closing != nil {
		err = fmt.Errorf("close the file: %w", closing)
	}
	return err
}

// runAlarms lists the alarms of card payments that nobody has closed, or closes one. Its
// exit code is exitDrift while there is one to look at.
func runAlarms(ctx context.Context, to streams, environ, args []string) int {
	flags := flag.NewFlagSet("alarms", flag.ContinueOnError)
	reason := flags.String("close", "", "the reason of an alarm to close")
	object := flags.String("object", "", "what the alarm is about")
	by := flags.String("by", "", "who has looked at it")
	if !parse(flags, to, args) {
		return exitUnknown
	}
	given := 0
	for _, value := range []string{*reason, *object, *by} {
		if value != "" {
			given++
		}
	}
	if given != 0 && given != 3 {
		fmt.Fprintln(to.errs, usage)
		return exitUnknown
	}
	db, err := open(ctx, environ, flags.Name())
	if err != nil {
		return failed(to, flags.Name(), err)
	}
	defer db.Close()
	if given == 3 {
		closed, err := billingledger.CloseCardAlarm(ctx, db, *reason, *object, *by)
		if err == nil && !closed {
			err = fmt.Errorf("there is no open alarm %q about %q", *reason, *object)
		}
		if err != nil {
			return failed(to, flags.Name(), err)
		}
		return exitSound
	}
	alarms, err := billingledger.CardAlarms(ctx, db)
	if err != nil {
		return failed(to, flags.Name(), err)
	}
	for _, a := range alarms {
		if _, err := fmt.Fprintf(to.out, "%s\t%s\t%s\n", a.Reason, a.Object, a.Detail); err != nil {
			return failed(to, flags.Name(), err)
		}
	}
	if len(alarms) > 0 {
		return exitDrift
	}
	return exitSound
}

// runOperator invites an operator and prints the invitation, which is shown this once. It is
// for whoever has the database, when no operator can sign in.
func runOperator(ctx context.Context, to streams, environ, args []string) int {
	flags := flag.NewFlagSet("operator", flag.ContinueOnError)
	by := flags.String("by", "database", "who invites, for the audit entry")
	flags.SetOutput(to.errs)
	flags.Usage = func() {}
	const words = 3 // invite NAME ROLE
	if err := flags.Parse(args); err != nil || flags.NArg() != words || flags.Arg(0) != "invite" {
		fmt.Fprintln(to.errs, usage)
		return exitUnknown
	}
	db, err := open(ctx, environ, flags.Name())
	if err != nil {
		return failed(to, flags.Name(), err)
	}
	defer db.Close()
	in, err := billingledger.InviteOperator(ctx, db, flags.Arg(1), flags.Arg(2), *by)
	if err == nil {
		_, err = fmt.Fprintf(to.out, "%s\t%s\t%s\n", in.Name, in.Role, in.Text)
	}
	if err != nil {
		return failed(to, flags.Name(), err)
	}
	return exitSound
}

// runPeppers lists the peppers or gives one up.
func runPeppers(ctx context.Context, to streams, environ, args []string) int {
	return billingledger.Peppers.Tool(ctx, args, to.out, to.errs, func(ctx context.Context) (*pgxpool.Pool, error) {
		return open(ctx, environ, "peppers")
	})
}
