package batch

import (
	"context"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/settlement/internal/chain"
)

// SharePlace is the place of a share in the order of days, chains and indices. The zero value is before all.
type SharePlace struct {
	Day   time.Time
	Chain chain.ID
	Index int64
}

// Attempt is an amount that was about to be posted for a share. Attempts are counted from 1.
type Attempt struct {
	Number int
	Amount money.NanoUSD
	// Since is how long ago it was written down, by the database's clock.
	Since time.Duration
}

// Unposted is a share that is not posted.
type Unposted struct {
	SharePlace
	Provider ids.ProviderID
	Amount   money.NanoUSD
	// Attempts are all so far, the last one first.
	Attempts []Attempt
}

// Unsigned is a share whose statement is not signed.
type Unsigned struct {
	SharePlace
	Stated
}

// Place is where the days stand.
type Place struct {
	// Day is the first day that is not committed; zero where nothing was ever earned.
	Day time.Time
	// Collected reports whether its lines are there.
	Collected bool
}

// Store keeps days and their batches.
type Store interface {
	// Place returns where the days stand. The first day is start, or, where that is zero, the day of the oldest
	// earning line.
	Place(ctx context.Context, start time.Time) (Place, error)
	// Collect keeps the lines and balances of a day that each passes to the page, in one transaction. A day that is
	// collected already stays as it is.
	Collect(ctx context.Context, day time.Time, each func(Page) (Seal, error)) error
	// Examine asks the witnesses about a day that is collected.
	Examine(ctx context.Context, day time.Time) (Findings, error)
	// Participants lists who has a share of a day that is collected, or may have one.
	Participants(ctx context.Context, day time.Time) ([]ids.ProviderID, error)
	// Commit blocks whom the findings name, unblocks whose lines are mended, and keeps the batches that assemble
	// makes of the day's participants, in one transaction. A day that is committed already stays as it is.
	Commit(ctx context.Context, day time.Time, f Findings, assemble func(Seal, []Participant) ([]Batch, error)) error
	// Unposted lists shares that are not posted, the oldest first.
	Unposted(ctx context.Context, after SharePlace, limit int) ([]Unposted, error)
	// Attempt writes down that an amount is about to be posted for a share.
	Attempt(ctx context.Context, u Unposted, a Attempt) error
	// SetPosted keeps what was posted, and the entry, which is zero for nothing. A share that is posted stays.
	SetPosted(ctx context.Context, u Unposted, amount money.NanoUSD, entry ids.EntryID) error
	// Unsigned lists shares whose statement is not signed, the oldest first.
	Unsigned(ctx context.Context, after SharePlace, limit int) ([]Unsigned, error)
	// SetSigned keeps a signature. A statement that is signed stays.
	SetSigned(ctx context.Context, u Unsigned, signature, signer []byte) error
}

// Page takes what is listed of a day.
type Page interface {
	AddLines(ctx context.Context, lines []Line) error
	AddBalances(ctx context.Context, balances []Balance) error
}
