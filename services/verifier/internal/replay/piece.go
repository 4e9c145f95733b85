// Package replay computes the verdicts about an offer again from evidence, and finds every
// bit that is not what it was.
//
// A Piece is one event of an offer with the state before and after it, the world, and what
// came of it. Its JSON has one form: Decode refuses all others. The archive seals it
// (package archive), and a Sealed is a piece with its leaf and link, which need no key to
// be checked.
//
// A Checker takes the pieces of an offer in their order, without a gap. For each it checks
// the leaf and the link, that link and state before are those behind the piece before it,
// and that standing.State.Apply gives the same state and the same outcome to the last bit. A
// change of bytes that nothing is computed of, sealed anew with care, shows in the links of
// all later pieces and in the root of its day.
package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/services/verifier/internal/archive"
	"svc.internal/services/verifier/internal/ladder"
	"svc.internal/services/verifier/internal/standing"
)

// Version is that of pieces.
const Version = 1

// ErrPiece is the error for bytes that are not a piece.
var ErrPiece = errors.New("not a piece of evidence")

type piece struct{}

// ID names a piece. archive.ID(id) is the same name there.
type ID = ids.Of[piece]

// Piece is the evidence of one event.
type Piece struct {
	Version int            `json:"version"`
	ID      ID             `json:"id"`
	At      time.Time      `json:"at"`
	Event   standing.Event `json:"event"`
	World   standing.World `json:"world"`
	// Before and After are the binary forms of the state.
	Before  []byte  `json:"before"`
	After   []byte  `json:"after"`
	Outcome Outcome `json:"outcome"`
}

// Outcome is what an event brought, as evidence keeps it. Judgements are computed again
// from the event.
type Outcome struct {
	Held      ladder.Held        `json:"held,omitempty"`
	Verdicts  []standing.Verdict `json:"verdicts,omitempty"`
	Published standing.Published `json:"published"`
}

func outcomeOf(o standing.Outcome) Outcome {
	return Outcome{Held: o.Held, Verdicts: o.Verdicts, Published: o.Published}
}

// New makes the piece of an event that Apply took.
func New(id ID, at time.Time, e standing.Event, w standing.World, before, after standing.State,
	o standing.Outcome,
) (Piece, error) {
	p := Piece{Version: Version, ID: id, At: at.UTC(), Event: e, World: w, Outcome: outcomeOf(o)}
	var err error
	if p.Before, err = before.MarshalBinary(); err != nil {
		return Piece{}, fmt.Errorf("write the state before: %w", err)
	}
	if p.After, err = after.MarshalBinary(); err != nil {
		return Piece{}, fmt.Errorf("write the state after: %w", err)
	}
	return p, nil
}

// Encode returns the piece's JSON. It fails with archive.ErrTooLarge for more than
// archive.MaxPlain bytes.
func (p Piece) Encode() ([]byte, error) {
	b, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("write a piece of evidence: %w", err)
	}
	if len(b) > archive.MaxPlain {
		return nil, archive.ErrTooLarge
	}
	return b, nil
}

// Decode reads the JSON that Encode wrote. It fails with ErrPiece for all other bytes.
func Decode(plain []byte) (Piece, error) {
	if len(plain) > archive.MaxPlain {
		return Piece{}, fmt.Errorf("%w: %d bytes", ErrPiece, len(plain))
	}
	d := json.NewDecoder(bytes.NewReader(plain))
	d.DisallowUnknownFields()
	var p Piece
	if err := d.Decode(&p); err != nil {
		return Piece{}, fmt.Errorf("%w: %w", ErrPiece, err)
	}
	if p.Version != Version {
		return Piece{}, fmt.Errorf("%w: version %d, want %d", ErrPiece, p.Version, Version)
	}
	again, err := p.Encode()
	if err != nil {
		return Piece{}, fmt.Errorf("%w: %w", ErrPiece, err)
	}
	if !bytes.Equal(again, plain) {
		return Piece{}, fmt.Errorf("%w: another form of the same piece", ErrPiece)
	}
	return p, nil
}
