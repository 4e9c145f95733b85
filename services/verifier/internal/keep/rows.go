package keep

import (
	"context"
	"errors"
	"time"

	"svc.internal/services/verifier/internal/archive"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/replay"
)

// Rows are the rows of evidence; package store has them.
type Rows interface {
	// Span returns the offer of a verdict, and the first and the last event of its evidence.
	Span(ctx context.Context, id probe.VerdictID) (o probe.Offer, first, last int64, err error)
	// Pieces returns the evidence of an offer from one event to another, in order.
	Pieces(ctx context.Context, o probe.Offer, from, to int64, limit int) ([]Piece, error)
	// SealedPiece returns the sealed bytes of a piece, ErrCleared or ErrPiece.
	SealedPiece(ctx context.Context, id replay.ID) ([]byte, error)
	// SealDays seals the days that are over and not sealed.
	SealDays(ctx context.Context) ([]DaySeal, error)
	// Seals returns the seals of days before a day, the last first.
	Seals(ctx context.Context, before time.Time, limit int) ([]DaySeal, error)
	// Leaves returns the leaves of a day in the order of its root, LeafIndex the place of a
	// piece among them.
	Leaves(ctx context.Context, day time.Time) ([]archive.Leaf, error)
	LeafIndex(ctx context.Context, p Piece) (int, error)
	// Breaks returns where chains are broken: that of an offer, or all for the zero offer.
	Breaks(ctx context.Context, o probe.Offer) ([]Break, error)
	// ClearEvidence deletes bytes whose time is over and returns how many pieces had some.
	ClearEvidence(ctx context.Context, limit int) (int, error)
	// Forget deletes events whose bytes are deleted, and probes that ended so long ago, at
	// most limit of each, and returns how many.
	Forget(ctx context.Context, limit int) (events, probes int, err error)
}

// Piece is a piece of evidence as it is kept, without its sealed bytes.
type Piece struct {
	ID    replay.ID
	Offer probe.Offer
	// Number is that of its event.
	Number int64
	// Day is the UTC day whose root holds it.
	Day        time.Time
	RecordedAt time.Time
	PlainBytes int
	// Previous is the link before Leaf in the offer's chain, and Link the one behind it.
	Leaf           archive.Leaf
	Previous, Link archive.Link
	// Cleared reports whether the sealed bytes are deleted, because their time is over.
	Cleared bool
}

// ErrCleared is the error for evidence whose time is over.
var ErrCleared = errors.New("the evidence is deleted, because its time is over")

// ErrPiece is the error for a piece that there is not.
var ErrPiece = errors.New("no such piece of evidence")

// DaySeal is the seal of a UTC day.
type DaySeal struct {
	Day    time.Time
	Pieces int64
	Root   archive.Root
	// Link ties the root to those of all days before.
	Link     archive.Link
	SealedAt time.Time
}

// Break is a place where a chain of evidence is not what it was.
type Break struct {
	Offer  probe.Offer
	Number int64
	// Why is missing, link, or ahead: the standing has more events than the chain has
	// pieces.
	Why string
}

// Retention is how long the bytes of evidence are kept, and PenaltyRetention for how long
// after the end of a penalty those that it rests on. The database has the same.
const (
	Retention        = 90 * 24 * time.Hour
	PenaltyRetention = 180 * 24 * time.Hour
)
