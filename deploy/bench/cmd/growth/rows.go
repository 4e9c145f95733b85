package main

import (
	"context"
	"fmt"
	"time"

	"inference-bench/internal/grown"
	"inference-bench/internal/growth"
)

// linesAccounts is the number of accounts whose requests are written.
const linesAccounts = 1_000

// rows is the axis of accounts, or that of settled requests. They are written by SQL, because requests would take days.
type rows struct {
	*bench
	database *grown.Database
	lines    bool
}

func newRows(b *bench, name string) (*rows, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	database, err := grown.Open(ctx, b.database)
	if err != nil {
		return nil, err
	}
	return &rows{bench: b, database: database, lines: name == growth.Lines}, nil
}

func (r *rows) axis() growth.Axis {
	a := growth.Axis{Judged: 1, Figures: []growth.Figure{{Name: "CPU a request", Unit: "µs"}, {Name: "p50", Unit: "ms"},
		{Name: "idle CPU", Unit: "ms/s"}, {Name: "database", Unit: "GiB"}}}
	a.Title = fmt.Sprintf("accounts with a wallet and a key each; %d requests a second by %d keys", rate, len(r.keys))
	if r.lines {
		a.Title = fmt.Sprintf("settled requests of %d accounts; %d requests a second by %d keys of 32 of them", linesAccounts,
			rate, len(r.keys))
	}
	return a
}

func (r *rows) step(ctx context.Context, size int) (s growth.Step, err error) {
	began := time.Now()
	if r.lines {
		if err = r.database.Accounts(ctx, linesAccounts, r.sayCount); err == nil {
			err = r.database.Lines(ctx, size, r.sayCount)
		}
	} else {
		err = r.database.Accounts(ctx, size, r.sayCount)
	}
	if err != nil {
		return s, err
	}
	if err := r.database.Tidy(ctx); err != nil {
		return s, err
	}
	r.say("%d rows made in %.0f s", size, time.Since(began).Seconds())
	bytes, err := r.database.Size(ctx)
	if err != nil {
		return s, err
	}
	q, err := r.requests(ctx)
	if err != nil {
		return s, err
	}
	return growth.Step{Values: []float64{q.cpu, q.p50, q.idle, float64(bytes) / (1 << 30)}, Note: q.note}, nil
}

func (r *rows) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return r.database.Close(ctx)
}
