package naming_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/pgtest"
	"svc.internal/services/provider-hub/internal/naming"
	"svc.internal/services/provider-hub/internal/provider"
	"svc.internal/services/provider-hub/internal/store"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

var start = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

const model = "acme/tiny-1b"

// hub is a recorder with its tables and its log.
type hub struct {
	*testing.T
	clock    *clock.Manual
	pool     *pgxpool.Pool
	tables   *store.Store
	accounts *provider.Directory
	names    *naming.Recorder
	log      *bytes.Buffer
}

func setup(t *testing.T) *hub {
	t.Helper()
	h := &hub{T: t, clock: clock.NewManual(start), log: &bytes.Buffer{}, pool: pgtest.Pool(t, store.Schema, store.Role,
		store.Migrations)}
	h.tables = store.New(h.pool)
	h.accounts = provider.NewDirectory(h.tables, provider.SecretsOf(apikey.Pepper{1}), provider.Site{Domain: "svc.test",
		URI: "wss://svc.test/ws", ChainID: 1}, h.clock, rand.Reader)
	h.names = h.another()
	return h
}

// another is a further hub on the same tables.
func (h *hub) another() *naming.Recorder {
	return naming.NewRecorder(h.tables, h.clock, slog.New(slog.NewTextHandler(h.log, nil)))
}

func (h *hub) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

func (h *hub) provider() ids.ProviderID {
	h.Helper()
	a, err := h.accounts.Create(h.Context(), "Farm", "eu", "")
	h.must(err)
	return a.ID
}

func (h *hub) shown(id ids.ProviderID) []provider.AnsweredAs {
	h.Helper()
	d, err := h.accounts.Detail(h.Context(), id)
	h.must(err)
	return d.AnsweredAs
}

func (h *hub) rows() (n int) {
	h.Helper()
	h.must(h.pool.QueryRow(h.Context(), `SELECT count(*) FROM answered_as`).Scan(&n))
	return n
}

// An engine that calls its model by a new name in every answer has one row and one line
// in the log, and takes no more memory than an engine that keeps to one name.
func TestHostile35_AHundredThousandNamesAreOneRow(t *testing.T) {
	t.Parallel()
	h := setup(t)
	id := h.provider()
	for n := range 100_000 {
		if n == 50_000 {
			h.must(h.names.Write(t.Context()))
		}
		h.clock.Advance(time.Millisecond)
		h.names.Heard(id, model, fmt.Sprintf("other/%d", n))
	}
	if n := h.names.Waiting(); n != 1 {
		t.Errorf("lines wait: got %d, want 1", n)
	}
	h.must(h.names.Write(t.Context()))
	want := provider.AnsweredAs{
		Model: model, Name: "other/99999", First: start.Add(time.Millisecond), Last: start.Add(100_000 * time.Millisecond),
		Answers: 100_000,
	}
	got := h.shown(id)
	switch {
	case len(got) != 1:
		t.Errorf("shown: len(got): got %d, want 1, in %+v", len(got), got)
	case got[0].Model != want.Model:
		t.Errorf("shown: got[0].Model: got %q, want %q", got[0].Model, want.Model)
	case got[0].Name != want.Name:
		t.Errorf("shown: got[0].Name: got %q, want %q", got[0].Name, want.Name)
	case got[0].Answers != want.Answers:
		t.Errorf("shown: got[0].Answers: got %d, want %d", got[0].Answers, want.Answers)
	case !got[0].First.Equal(want.First):
		t.Errorf("shown: got[0].First: got %v, want %v", got[0].First, want.First)
	case !got[0].Last.Equal(want.Last):
		t.Errorf("shown: got[0].Last: got %v, want %v", got[0].Last, want.Last)
	case h.rows() != 1:
		t.Errorf("h.rows(): got %d, want 1", h.rows())
	}
	switch lines := strings.Count(h.log.String(), "\n"); {
	case lines != 1:
		t.Errorf("lines: got %d, want 1", lines)
	case !strings.Contains(h.log.String(), "provider_id="+id.String()):
		t.Errorf("h.log: got %q, want %q in it", h.log.String(), "provider_id="+id.String())
	case strings.Contains(h.log.String(), "other/"):
		t.Errorf(`h.log: got %q, want it without "other/"`, h.log.String())
	}
	if h.names.Answers() != 100_000 {
		t.Errorf("h.names.Answers(): got %d, want 100_000", h.names.Answers())
	} else if h.names.Forgotten() != 0 {
		t.Errorf("h.names.Forgotten(): got %d, want 0", h.names.Forgotten())
	}
}

// What waits for a database that is away is bounded, and what is beyond is counted.
func TestHostile35_WhatWaitsIsBounded(t *testing.T) {
	t.Parallel()
	h := setup(t)
	id := h.provider()
	for n := range 100_000 {
		h.names.Heard(id, fmt.Sprintf("acme/%d", n), "other")
	}
	const most = 16_384
	switch {
	case h.names.Waiting() != most:
		t.Errorf("%d wait, %d forgotten, %d lines in the log: h.names.Waiting(): got %d, want %d", h.names.Waiting(),
			h.names.Forgotten(), strings.Count(h.log.String(), "\n"), h.names.Waiting(), most)
	case h.names.Forgotten() != 100_000-most:
		t.Errorf("%d wait, %d forgotten, %d lines in the log: h.names.Forgotten(): got %d, want %d", h.names.Waiting(),
			h.names.Forgotten(), strings.Count(h.log.String(), "\n"), h.names.Forgotten(), 100_000-most)
	case strings.Count(h.log.String(), "\n") != most:
		t.Errorf("%d wait, %d forgotten, %d lines in the log: strings.Count(…): got %d, want %d", h.names.Waiting(),
			h.names.Forgotten(), strings.Count(h.log.String(), "\n"), strings.Count(h.log.String(), "\n"), most)
	}
	h.must(h.names.Write(t.Context()))
	if h.rows() != most {
		t.Errorf("h.rows(): got %d, want %d", h.rows(), most)
	} else if h.names.Waiting() != 0 {
		t.Errorf("h.names.Waiting(): got %d, want 0", h.names.Waiting())
	}
	if got := h.shown(id); len(got) != 64 {
		t.Errorf("shown: got %d, want 64", len(got))
	}
}

// Hubs write into one row; the later name stays, whichever is written later, and a
// provider that is not there harms nobody's.
func TestHubsAddUpInOneRow(t *testing.T) {
	t.Parallel()
	h := setup(t)
	id, other := h.provider(), h.another()
	other.Heard(id, model, "early")
	h.clock.Advance(time.Hour)
	h.names.Heard(ids.ProviderID{9}, model, "nobody's")
	h.names.Heard(id, model, "late")
	h.must(h.names.Write(t.Context()))
	h.must(other.Write(t.Context()))
	got := h.shown(id)
	switch {
	case len(got) != 1:
		t.Errorf("shown: len(got): got %d, want 1, in %+v", len(got), got)
	case got[0].Name != "late":
		t.Errorf(`shown: got[0].Name: got %q, want "late"`, got[0].Name)
	case got[0].Answers != 2:
		t.Errorf("shown: got[0].Answers: got %d, want 2", got[0].Answers)
	case !got[0].First.Equal(start):
		t.Errorf("shown: got[0].First: got %v, want %v", got[0].First, start)
	case !got[0].Last.Equal(start.Add(time.Hour)):
		t.Errorf("shown: got[0].Last: got %v, want %v", got[0].Last, start.Add(time.Hour))
	case h.rows() != 1:
		t.Errorf("h.rows(): got %d, want 1", h.rows())
	}
	// A provider is told for a week after the last, operators for 35 days.
	for _, c := range []struct {
		after           time.Duration
		operators, told int
		rows            int
	}{{7*24*time.Hour - time.Second, 1, 1, 1}, {time.Second, 1, 0, 1}, {28*24*time.Hour - time.Second, 1, 0, 1},
		{2 * time.Second, 0, 0, 0}} {
		h.clock.Advance(c.after)
		_, err := h.accounts.Sweep(t.Context())
		h.must(err)
		d, err := h.accounts.Detail(t.Context(), id)
		h.must(err)
		switch told := d.Show(h.clock.Now(), time.Time{}).AnsweredAs; {
		case len(d.AnsweredAs) != c.operators:
			t.Errorf("after %v more: operators are told: got %d, want %d", c.after, len(d.AnsweredAs), c.operators)
		case len(told) != c.told:
			t.Errorf("after %v more: len(told): got %d, want %d", c.after, len(told), c.told)
		case h.rows() != c.rows:
			t.Errorf("after %v more: h.rows(): got %d, want %d", c.after, h.rows(), c.rows)
		}
	}
}

// broken is a book that fails at first.
type broken struct {
	naming.Store
	fails int
}

func (b *broken) RecordNames(ctx context.Context, lines []naming.AnsweredAs) error {
	if b.fails > 0 {
		b.fails--
		return errors.New("the database is away")
	}
	return b.Store.RecordNames(ctx, lines)
}

func TestWhatCouldNotBeWrittenIsWrittenLater(t *testing.T) {
	t.Parallel()
	h := setup(t)
	id := h.provider()
	r := naming.NewRecorder(&broken{h.tables, 1}, h.clock, slog.New(slog.DiscardHandler))
	r.Heard(id, model, "first")
	if err := r.Write(t.Context()); err == nil {
		t.Fatal("it is written")
	}
	h.clock.Advance(-time.Minute) // the clock was set back
	r.Heard(id, model, "second")
	h.must(r.Write(t.Context()))
	switch got := h.shown(id); {
	case len(got) != 1:
		t.Errorf("shown: len(got): got %d, want 1, in %+v", len(got), got)
	case got[0].Answers != 2:
		t.Errorf("shown: got[0].Answers: got %d, want 2", got[0].Answers)
	case !got[0].First.Equal(start.Add(-time.Minute)):
		t.Errorf("shown: got[0].First: got %v, want %v", got[0].First, start.Add(-time.Minute))
	case !got[0].Last.Equal(start):
		t.Errorf("shown: got[0].Last: got %v, want %v", got[0].Last, start)
	}
}

// page is a book that keeps what it was given and when.
type page struct {
	lines [][]naming.AnsweredAs
	at    []time.Time
}

func (p *page) RecordNames(_ context.Context, lines []naming.AnsweredAs) error {
	p.lines, p.at = append(p.lines, lines), append(p.at, time.Now())
	return nil
}

func TestLinesAreWrittenTogetherAndAtTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &page{}
		r := naming.NewRecorder(p, clock.System, slog.New(slog.DiscardHandler))
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		began := time.Now()
		// Run starts when all ten are there. Otherwise it may take the first one's wake
		// before the second is heard, which would wake it once more.
		for n := range 10 {
			r.Heard(ids.ProviderID{byte(9 - n)}, model, "other")
		}
		go func() { done <- r.Run(ctx) }()
		synctest.Wait()
		<-time.After(time.Second)
		for range 100 {
			r.Heard(ids.ProviderID{1}, model, "another")
		}
		<-time.After(10 * time.Second)
		r.Heard(ids.ProviderID{1}, model, "the last")
		stop()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		switch {
		case len(p.lines) != 3:
			t.Fatalf("written: len(p.lines): got %d, want 3, in %v", len(p.lines), p.lines)
		case len(p.lines[0]) != 10:
			t.Fatalf("written: len(p.lines[0]): got %d, want 10, in %v", len(p.lines[0]), p.lines)
		case len(p.lines[1]) != 1:
			t.Fatalf("written: len(p.lines[1]): got %d, want 1, in %v", len(p.lines[1]), p.lines)
		case len(p.lines[2]) != 1:
			t.Fatalf("written: len(p.lines[2]): got %d, want 1, in %v", len(p.lines[2]), p.lines)
		case p.lines[1][0].Answers != 100:
			t.Fatalf("written: p.lines[1][0].Answers: got %d, want 100", p.lines[1][0].Answers)
		}
		switch {
		case p.at[0].Sub(began) != 500*time.Millisecond:
			t.Errorf("written: p.at[0].Sub(began): got %v, want %v", p.at[0].Sub(began), 500*time.Millisecond)
		case p.at[1].Sub(began) != 10*time.Second:
			t.Errorf("written: p.at[1].Sub(began): got %v, want %v", p.at[1].Sub(began), 10*time.Second)
		case p.lines[2][0].Name != "the last":
			t.Errorf(`p.lines[2][0].Name: got %q, want "the last"`, p.lines[2][0].Name)
		}
		for i, l := range p.lines[0] {
			if l.Provider != (ids.ProviderID{byte(i)}) {
				t.Errorf("line %d: got %v, want %v", i, l.Provider, ids.ProviderID{byte(i)})
			}
		}
	})
}

func TestTheRoleCannotMakeItAnothers(t *testing.T) {
	t.Parallel()
	h := setup(t)
	h.names.Heard(h.provider(), model, "other")
	h.must(h.names.Write(t.Context()))
	for _, sql := range []string{`UPDATE answered_as SET model_id = 'x'`,
		`UPDATE answered_as SET provider_id = gen_random_uuid()`, `TRUNCATE answered_as`} {
		var denied *pgconn.PgError
		if _, err := h.pool.Exec(t.Context(), sql); !errors.As(err, &denied) {
			t.Errorf("%s: got the error %v, want a %T", sql, err, denied)
		} else if denied.Code != "42501" {
			t.Errorf(`%s: denied.Code: got %q, want "42501"`, sql, denied.Code)
		}
	}
	for _, sql := range []string{`UPDATE answered_as SET answers = 0`,
		`UPDATE answered_as SET answered_as = repeat('x', 201)`,
		`UPDATE answered_as SET last_at = first_at - interval '1s'`} {
		var refused *pgconn.PgError
		if _, err := h.pool.Exec(t.Context(), sql); !errors.As(err, &refused) {
			t.Errorf("%s: got the error %v, want a %T", sql, err, refused)
		} else if refused.Code != "23514" {
			t.Errorf(`%s: refused.Code: got %q, want "23514"`, sql, refused.Code)
		}
	}
}
