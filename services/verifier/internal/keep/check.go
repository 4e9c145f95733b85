package keep

import (
	"context"
	"errors"
	"fmt"
	"time"

	"svc.internal/services/verifier/internal/archive"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/replay"
)

// CheckChains looks at the chain of an offer, of all offers for the zero offer. It fails with
// ErrBroken and the first places.
func (k *Keeper) CheckChains(ctx context.Context, o probe.Offer) error {
	breaks, err := k.rows.Breaks(ctx, o)
	if err != nil {
		return fmt.Errorf("check the chains of evidence: %w", err)
	}
	if len(breaks) == 0 {
		return nil
	}
	b := breaks[0]
	return fmt.Errorf("%w: event %d of %v: %s; %d places in all, or more", ErrBroken, b.Number, b.Offer, b.Why,
		len(breaks))
}

// sealsPage is how many seals are read at once.
const sealsPage = 100

// CheckSeals computes the roots of the last days again, at most days, and their links. It
// fails with ErrBroken and the first day that differs.
func (k *Keeper) CheckSeals(ctx context.Context, days int) error {
	var behind *DaySeal // the day after
	var before time.Time
	for days > 0 {
		list, err := k.rows.Seals(ctx, before, min(days, sealsPage))
		if err != nil {
			return fmt.Errorf("check the seals of days: %w", err)
		}
		for _, d := range list {
			if err := k.checkSeal(ctx, d); err != nil {
				return err
			}
			if behind != nil && behind.Link != archive.Next(d.Link, archive.Leaf(behind.Root)) {
				return fmt.Errorf("%w: the seal of %s is not linked to the day before", ErrBroken, date(behind.Day))
			}
			behind, before = &d, d.Day
		}
		if len(list) < min(days, sealsPage) {
			break
		}
		days -= len(list)
	}
	return nil
}

func (k *Keeper) checkSeal(ctx context.Context, d DaySeal) error {
	leaves, err := k.rows.Leaves(ctx, d.Day)
	if err != nil {
		return fmt.Errorf("check the seals of days: %w", err)
	}
	root, err := archive.RootOf(leaves)
	if err != nil {
		return fmt.Errorf("check the seal of %s: %w", date(d.Day), err)
	}
	if root != d.Root || int64(len(leaves)) != d.Pieces {
		return fmt.Errorf("%w: the root of %s does not have its %d pieces", ErrBroken, date(d.Day), d.Pieces)
	}
	return nil
}

func date(day time.Time) string { return day.Format(time.DateOnly) }

// Proof shows anybody that a piece was there, without showing another piece.
type Proof struct {
	Day  time.Time   `json:"day"`
	Leaf replay.Hash `json:"leaf"`
	Root replay.Hash `json:"root"`
	// Index is the piece's place among Size leaves, and Path the proof of RFC 6962.
	Index int      `json:"index"`
	Size  int      `json:"size"`
	Path  [][]byte `json:"path"`
}

// ErrNotSealed is the error for a piece whose day is not sealed yet.
var ErrNotSealed = errors.New("the day of the evidence is not sealed yet")

// Prove returns the proof that the evidence of an event is in the root of its day. It fails
// with ErrNotSealed, ErrPiece, and ErrBroken where the proof does not lead to the root.
func (k *Keeper) Prove(ctx context.Context, o probe.Offer, number int64) (Proof, error) {
	list, err := k.rows.Pieces(ctx, o, number, number, 1)
	if err != nil {
		return Proof{}, fmt.Errorf("prove a piece of evidence: %w", err)
	}
	if len(list) == 0 {
		return Proof{}, ErrPiece
	}
	p := list[0]
	seals, err := k.rows.Seals(ctx, p.Day.AddDate(0, 0, 1), 1)
	if err != nil {
		return Proof{}, fmt.Errorf("prove a piece of evidence: %w", err)
	}
	if len(seals) == 0 || !seals[0].Day.Equal(p.Day) {
		return Proof{}, ErrNotSealed
	}
	leaves, err := k.rows.Leaves(ctx, p.Day)
	if err != nil {
		return Proof{}, fmt.Errorf("prove a piece of evidence: %w", err)
	}
	index, err := k.rows.LeafIndex(ctx, p)
	if err != nil {
		return Proof{}, fmt.Errorf("prove a piece of evidence: %w", err)
	}
	path, err := archive.ProofOf(leaves, index)
	if err == nil {
		err = archive.Includes(seals[0].Root, p.Leaf, index, len(leaves), path)
	}
	if err != nil {
		return Proof{}, fmt.Errorf("%w: event %d of %v is not in the root of %s: %w", ErrBroken, number, o, date(p.Day), err)
	}
	return Proof{
		Day: p.Day, Leaf: replay.Hash(p.Leaf), Root: replay.Hash(seals[0].Root), Index: index, Size: len(leaves), Path: path,
	}, nil
}
