package verifier

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"svc.internal/pkg/pg"
	"svc.internal/services/verifier/internal/archive"
	"svc.internal/services/verifier/internal/keep"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/prompt"
	"svc.internal/services/verifier/internal/replay"
	"svc.internal/services/verifier/internal/sealed"
	"svc.internal/services/verifier/internal/store"
)

// toolConns bounds the connections of a tool.
const toolConns = 2

// ErrVerdictID is the error for a text that is no verdict's id.
var ErrVerdictID = errors.New("not the id of a verdict")

// Tools are what operators run beside the service. They change nothing.
type Tools struct {
	store  *store.Store
	keeper *keep.Keeper
	writer *prompt.Writer
	close  func()
}

// OpenTools opens the database at url, and the sealed settings, which must be there already.
func OpenTools(ctx context.Context, cfg Config, url string) (*Tools, error) {
	settings, err := sealed.Open(cfg.Sealed, noRandom{})
	if err != nil {
		return nil, fmt.Errorf("open the sealed settings: %w", err)
	}
	pool, err := pg.Open(ctx, pg.Config{URL: url, Schema: Schema, Role: Role, MaxConns: toolConns,
		ApplicationName: "verifier tools"})
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	box := keep.NewBox(settings.Archive, rand.Reader)
	t := &Tools{store: store.New(pool, box), writer: prompt.NewWriter(settings.Secret, settings.Bank), close: pool.Close}
	t.keeper = keep.New(t.store, box)
	return t, nil
}

// ErrSealed is the error for a file of sealed settings that is there already.
var ErrSealed = errors.New("there is a file already, and its secrets must stay")

// Seal makes new sealed settings in a file that is not there yet.
func Seal(path string) error {
	if InCheckout(path) {
		return fmt.Errorf("%s lies within a git checkout, whose files are published", path)
	}
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("%s: %w", path, ErrSealed)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("look for the sealed settings: %w", err)
	}
	_, err := openSealed(path)
	return err
}

// noRandom keeps a tool from making sealed settings.
type noRandom struct{}

func (noRandom) Read([]byte) (int, error) {
	return 0, errors.New("there are none; a tool makes none")
}

// Close closes the database.
func (t *Tools) Close() { t.close() }

// Replay computes a verdict again from the evidence that is kept, and prints a table. It
// fails with the first difference.
func (t *Tools) Replay(ctx context.Context, verdict string, out io.Writer) error {
	id, err := verdictID(verdict)
	if err != nil {
		return err
	}
	checker := replay.Checker{Verdict: id}
	if err := t.keeper.Each(ctx, id, func(s replay.Sealed) error { checker.Add(s); return nil }); err != nil {
		return fmt.Errorf("read the evidence: %w", err)
	}
	return report(checker.Report(), out)
}

func verdictID(text string) (probe.VerdictID, error) {
	var id probe.VerdictID
	if err := id.Scan(text); err != nil || id.IsZero() {
		return probe.VerdictID{}, fmt.Errorf("%w: %.80q", ErrVerdictID, text)
	}
	return id, nil
}

func report(r replay.Report, out io.Writer) error {
	if err := r.Print(out); err != nil {
		return fmt.Errorf("print the replay: %w", err)
	}
	return r.Err()
}

// ReplayExported computes a verdict again from exported evidence, which needs neither
// database nor keys: the answers of the route .../verdicts/{verdict_id}/evidence, one after
// the other, or a stream of pieces.
func ReplayExported(verdict string, from io.Reader, out io.Writer) error {
	id, err := verdictID(verdict)
	if err != nil {
		return err
	}
	checker := replay.Checker{Verdict: id}
	if err := eachExported(from, checker.Add); err != nil {
		return err
	}
	return report(checker.Report(), out)
}

// maxExport bounds one JSON value of an export.
const maxExport = 4 * archive.MaxPlain

// exported is a page of the route, or a piece of a stream.
type exported struct {
	replay.Sealed
	Verdict    json.RawMessage `json:"verdict"`
	NextCursor string          `json:"next_cursor"`
	Pieces     []exportedPart  `json:"pieces"`
}

// exportedPart is a part of a piece, as the route has it.
type exportedPart struct {
	PieceID  replay.ID `json:"piece_id"`
	JSON     []byte    `json:"json"`
	Offset   int       `json:"offset"`
	Total    int       `json:"total"`
	Leaf     []byte    `json:"leaf"`
	Previous []byte    `json:"previous"`
	Link     []byte    `json:"link"`
}

// eachExported calls take for each whole piece.
func eachExported(from io.Reader, take func(replay.Sealed)) error {
	d := json.NewDecoder(io.LimitReader(from, maxExport*64))
	var plain bytes.Buffer
	for {
		var page exported
		switch err := d.Decode(&page); {
		case errors.Is(err, io.EOF):
			if plain.Len() > 0 {
				return fmt.Errorf("%w: the last piece is not whole", replay.ErrPiece)
			}
			return nil
		case err != nil:
			return fmt.Errorf("read exported evidence: %w", err)
		case page.Pieces == nil && len(page.Plain) > 0:
			take(page.Sealed)
			continue
		}
		for _, part := range page.Pieces {
			if part.Offset != plain.Len() || part.Offset+len(part.JSON) > part.Total || part.Total > archive.MaxPlain {
				return fmt.Errorf("%w: the parts of %v do not follow each other", replay.ErrPiece, part.PieceID)
			}
			plain.Write(part.JSON)
			if plain.Len() < part.Total {
				continue
			}
			take(replay.Sealed{ID: part.PieceID, Plain: bytes.Clone(plain.Bytes()), Leaf: hashOf(part.Leaf),
				Previous: hashOf(part.Previous), Link: hashOf(part.Link)})
			plain.Reset()
		}
	}
}

func hashOf(b []byte) (h replay.Hash) {
	copy(h[:], b)
	return h
}

// Found is a probe whose canary a text has.
type Found struct {
	Probe    string
	Provider string
	Model    string
	EndedAt  time.Time
}

// Canary returns the probes whose canary a text has: whoever shows the text has seen what a
// provider was asked.
func (t *Tools) Canary(ctx context.Context, text string) ([]Found, error) {
	var found []Found
	var after probe.ID
	for {
		list, err := t.store.HiddenProbes(ctx, after, store.MaxBatch)
		if err != nil {
			return nil, err
		}
		for _, p := range list {
			after = p.ID
			words := t.writer.Canary(prompt.ID(p.ID))
			if len(words) > 0 && prompt.Names(text, words) {
				found = append(found, Found{p.ID.String(), p.Offer.Provider.String(), p.Offer.Model, p.EndedAt})
			}
		}
		if len(list) < store.MaxBatch {
			return found, nil
		}
	}
}

// Differs reports whether an error says that evidence is not what it was, or that a verdict
// does not follow from it.
func Differs(err error) bool {
	return errors.Is(err, replay.ErrDiffers) || errors.Is(err, archive.ErrAltered) || errors.Is(err, keep.ErrBroken) ||
		errors.Is(err, replay.ErrPiece)
}
