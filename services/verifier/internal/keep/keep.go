// Package keep keeps the evidence of verdicts: it seals pieces as they are written, opens and
// checks them as they are read, seals days, looks for alterations, and deletes what has had
// its time.
//
// Three things find an alteration on disk. The bytes of a piece are authenticated and must
// have its leaf (package archive). Each offer's pieces are a chain: link = hash of the link
// before and the leaf, and the standing counts the pieces. Each UTC day of the database has a
// Merkle root over all leaves, and the roots are a chain too. Whoever alters rows as the
// database's owner must alter every link behind, and every root since, of which copies are
// elsewhere because roots are published.
//
// Bytes are deleted after 90 days, those that a penalty rests on 180 days after its end.
// Leaves, links and roots stay. Events without bytes are forgotten, unless a verdict names
// them or its evidence may yet begin behind them, and so are probes 90 days after their end.
package keep

import (
	"context"
	"errors"
	"fmt"
	"io"

	"svc.internal/services/verifier/internal/archive"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/replay"
)

// Box seals and opens pieces of evidence with the archive's key.
type Box struct {
	key    archive.Key
	random io.Reader
}

// NewBox returns a box. random is read for each piece that is sealed.
func NewBox(key archive.Key, random io.Reader) *Box { return &Box{key, random} }

// Seal encrypts a piece and returns its leaf.
func (b *Box) Seal(id archive.ID, plain []byte) ([]byte, archive.Leaf, error) {
	sealed, leaf, err := archive.Seal(b.key, id, plain, b.random)
	if err != nil {
		return nil, archive.Leaf{}, fmt.Errorf("seal a piece of evidence: %w", err)
	}
	return sealed, leaf, nil
}

// Open returns the plain bytes of a piece, or archive.ErrAltered.
func (b *Box) Open(id archive.ID, sealed []byte, leaf archive.Leaf) ([]byte, error) {
	plain, err := archive.Open(b.key, id, sealed, leaf)
	if err != nil {
		return nil, fmt.Errorf("open the piece of evidence %v: %w", replay.ID(id), err)
	}
	return plain, nil
}

// Keeper reads and looks after evidence. It is safe for concurrent use.
type Keeper struct {
	rows Rows
	box  *Box
}

// New returns a keeper of the rows.
func New(rows Rows, box *Box) *Keeper { return &Keeper{rows, box} }

// MaxPage bounds the pieces of a page, and MaxPageBytes their plain bytes beside the first
// piece.
const (
	MaxPage      = 100
	MaxPageBytes = 4 << 20
)

// Page are pieces of evidence in order.
type Page struct {
	Pieces []replay.Sealed
	// Next is the number of the event from which the next page goes on, 0 behind the last.
	Next int64
	// Cleared counts pieces before those of the page whose bytes are deleted.
	Cleared int
}

// Evidence returns the pieces that a verdict rests on, in order, from an event on (0 for the
// first). Pieces at the beginning whose time is over are left out. It fails with
// archive.ErrAltered for a piece that is not what was sealed, and with the store's error for an unknown verdict.
func (k *Keeper) Evidence(ctx context.Context, id probe.VerdictID, from int64) (Page, error) {
	o, first, last, err := k.rows.Span(ctx, id)
	if err != nil {
		return Page{}, fmt.Errorf("read the evidence of a verdict: %w", err)
	}
	return k.Pieces(ctx, o, max(from, first), last)
}

// Pieces returns the pieces of an offer from one event to another, as Evidence does.
func (k *Keeper) Pieces(ctx context.Context, o probe.Offer, from, to int64) (Page, error) {
	var page Page
	for {
		list, err := k.rows.Pieces(ctx, o, from, to, MaxPage)
		if err != nil {
			return Page{}, fmt.Errorf("read evidence: %w", err)
		}
		size := 0
		for _, p := range list {
			if p.Cleared && len(page.Pieces) == 0 {
				page.Cleared++
				continue
			}
			if size += p.PlainBytes; len(page.Pieces) > 0 && size > MaxPageBytes || len(page.Pieces) == MaxPage {
				page.Next = p.Number
				return page, nil
			}
			sealed, err := k.read(ctx, p)
			if err != nil {
				return Page{}, err
			}
			page.Pieces = append(page.Pieces, sealed)
		}
		if len(list) == 0 || list[len(list)-1].Number >= to {
			return page, nil
		}
		from = list[len(list)-1].Number + 1
	}
}

// read opens a piece and checks it.
func (k *Keeper) read(ctx context.Context, p Piece) (replay.Sealed, error) {
	bytes, err := k.rows.SealedPiece(ctx, p.ID)
	if err != nil {
		return replay.Sealed{}, fmt.Errorf("read event %d of %v: %w", p.Number, p.Offer, err)
	}
	plain, err := k.box.Open(archive.ID(p.ID), bytes, p.Leaf)
	if err != nil {
		return replay.Sealed{}, fmt.Errorf("event %d of %v: %w", p.Number, p.Offer, err)
	}
	sealed := replay.Seal(p.ID, plain, replay.Hash(p.Previous))
	if sealed.Link != replay.Hash(p.Link) {
		return replay.Sealed{}, fmt.Errorf("the link of event %d of %v: %w", p.Number, p.Offer, archive.ErrAltered)
	}
	return sealed, nil
}

// Each calls take for every piece that a verdict rests on, in order, one at a time in
// memory.
func (k *Keeper) Each(ctx context.Context, id probe.VerdictID, take func(replay.Sealed) error) error {
	for from := int64(0); ; {
		page, err := k.Evidence(ctx, id, from)
		if err != nil {
			return err
		}
		for _, p := range page.Pieces {
			if err := take(p); err != nil {
				return err
			}
		}
		if page.Next == 0 {
			return nil
		}
		from = page.Next
	}
}

// ErrBroken is the error for evidence that was altered, with where.
var ErrBroken = errors.New("the evidence is not what it was")

// maxCleared bounds the pieces that one call of Tend clears, and the events and the probes
// that it forgets; clearBatch those of one transaction. 10,000 offers end 3,300 probes an
// hour.
const (
	maxCleared = 10_000
	clearBatch = 500
)

// Tended is what a round of Tend did.
type Tended struct {
	Sealed  []DaySeal
	Cleared int
	// Events and Probes count what was forgotten.
	Events, Probes int
}

// Tend seals the days that are over, and deletes bytes, events and probes whose time is over. It is called
// every hour; what another replica has done is done.
func (k *Keeper) Tend(ctx context.Context) (Tended, error) {
	var t Tended
	var err error
	if t.Sealed, err = k.rows.SealDays(ctx); err != nil {
		return t, fmt.Errorf("tend the evidence: %w", err)
	}
	for t.Cleared < maxCleared {
		n, err := k.rows.ClearEvidence(ctx, clearBatch)
		if err != nil {
			return t, fmt.Errorf("tend the evidence: %w", err)
		}
		if t.Cleared += n; n < clearBatch {
			break
		}
	}
	return t, k.forget(ctx, &t)
}

// forget deletes events and probes whose time is over.
func (k *Keeper) forget(ctx context.Context, t *Tended) error {
	for max(t.Events, t.Probes) < maxCleared {
		events, probes, err := k.rows.Forget(ctx, clearBatch)
		if err != nil {
			return fmt.Errorf("tend the evidence: %w", err)
		}
		if t.Events, t.Probes = t.Events+events, t.Probes+probes; max(events, probes) < clearBatch {
			break
		}
	}
	return nil
}
