package batch

import (
	"context"
	"fmt"
	"time"

	"svc.internal/pkg/csvout"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/settlement/internal/merkle"
)

// Stating is a statement with what was set later.
type Stating struct {
	Statement, Summary []byte
	// Signature and Signer are empty until the statement is signed.
	Signature, Signer []byte
	// Posted is nil until the share is posted, and Entry is zero where nothing was.
	Posted *int64
	Entry  ids.EntryID
}

// Listed is a statement in a list.
type Listed struct {
	Day             time.Time
	Chain           int64
	Amount          money.NanoUSD
	Posted          *int64
	Lines           int64
	Blocked, Signed bool
}

// MonthShare is what a provider has of a closed month.
type MonthShare struct {
	Month string
	PlanShare
}

// Overview is what settlement knows of a provider's earnings beside the ledger's balances.
type Overview struct {
	// Through is the last day that is batched; zero before the first.
	Through time.Time
	Blocked bool
	Months  []MonthShare
}

// Lines reads lines.
type Lines interface {
	// Lines reads the lines of a provider's day behind a number into a list, as many as it has room for.
	Lines(ctx context.Context, provider ids.ProviderID, day time.Time, after int64, into []Line) ([]Line, error)
	// DaysWithLines lists the batched days of a period on which a provider has lines.
	DaysWithLines(ctx context.Context, provider ids.ProviderID, from, to time.Time) ([]time.Time, error)
}

const (
	// exportPage is how many lines are read at once. A reader that is slow holds none of the database's connections,
	// because each page is a query of its own.
	exportPage = 500
	// MaxExportDays bounds the days of an export.
	MaxExportDays = 366
)

// Export writes the CSV of a provider's lines of a period in pieces (see csvout.Writer), with the rows so far. The
// header is the first piece, so that a reader has it at once.
func Export(ctx context.Context, from Lines, provider ids.ProviderID, first, last time.Time,
	write func(piece []byte, rows int64) error,
) error {
	out, err := csvout.NewWriter(Header, write)
	if err != nil {
		return err
	}
	days, err := from.DaysWithLines(ctx, provider, first, last)
	if err != nil {
		return err
	}
	var row []byte
	lines := make([]Line, 0, exportPage)
	for _, day := range days {
		for after := int64(0); ; after = lines[len(lines)-1].Number {
			if lines, err = from.Lines(ctx, provider, day, after, lines); err != nil {
				return fmt.Errorf("export %s: %w", day.Format(time.DateOnly), err)
			}
			for i := range lines {
				row = AppendRow(row[:0], &lines[i].Change)
				if err := out.Add(row); err != nil {
					return err
				}
			}
			if len(lines) < exportPage {
				break
			}
		}
	}
	return out.Flush()
}

// Backlog counts what waits.
type Backlog struct {
	// Blocked providers, and shares and statements that have been unposted and unsigned for an hour.
	Blocked, Unposted, Unsigned int64
	// Behind is how many days up to yesterday are not batched, from the first one with an earning line on.
	Behind int64
}

// DayView is a collected day as operators see it.
type DayView struct {
	Day                      time.Time
	Lines, Filled            int64
	CollectedAt, CommittedAt time.Time
	Batches                  []BatchView
}

// BatchView is a batch as operators see it.
type BatchView struct {
	Chain                      int64
	Root                       merkle.Hash
	Total                      money.NanoUSD
	Shares, Unposted, Unsigned int64
}

// Block is why a provider is blocked.
type Block struct {
	Difference
	Day, At time.Time
}
