package peppers

import (
	"context"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/pkg/apikey"
)

// Usage is how the subcommand is used, after the name of the program.
const Usage = "peppers [-give-up NUMBER]"

// Tool is the subcommand "peppers": it lists the peppers with the hashes that are left of each, or
// gives one up. It returns the exit code: 0, or 2 when it failed. open opens the database that the
// environment names.
func (r Registry) Tool(
	ctx context.Context, args []string, out, errs io.Writer, open func(context.Context) (*pgxpool.Pool, error),
) int {
	flags := flag.NewFlagSet("peppers", flag.ContinueOnError)
	flags.SetOutput(errs)
	flags.Usage = func() { fmt.Fprintf(errs, "usage: %s %s\n", r.Service, Usage) }
	giveUp := flags.Int("give-up", 0, "let the hashes of this `number` count for nothing, for ever")
	const failed, maxNumber = 2, 1000
	if err := flags.Parse(args); err != nil {
		return failed
	}
	if flags.NArg() > 0 || *giveUp < 0 || *giveUp > maxNumber {
		flags.Usage()
		return failed
	}
	db, err := open(ctx)
	if err == nil {
		defer db.Close()
		err = r.run(ctx, db, apikey.Number(*giveUp), out)
	}
	if err != nil {
		fmt.Fprintf(errs, "%s peppers: %v\n", r.Service, err)
		return failed
	}
	return 0
}

func (r Registry) run(ctx context.Context, db *pgxpool.Pool, giveUp apikey.Number, out io.Writer) error {
	if giveUp > 0 {
		return r.GiveUp(ctx, db, giveUp)
	}
	known, err := r.List(ctx, db)
	if err != nil {
		return err
	}
	for _, k := range known {
		state := "accepted where it is set"
		if k.GivenUp {
			state = "given up"
		}
		if _, err := fmt.Fprintf(out, "%d\t%x\tsince %s\t%d hashes\t%s\n", k.Number, k.Fingerprint,
			k.Since.UTC().Format(time.RFC3339), k.Hashes, state); err != nil {
			return err
		}
	}
	return nil
}
