package settlement

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/pgtest"
)

// lose takes the lines away that were recorded last, as a standby has lost them
// that did not get the last commits.
func (b *bundle) lose(t *testing.T, keep int) {
	t.Helper()
	tx, err := pgtest.Owner(t, b.pool).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	for _, sql := range []string{
		`SET LOCAL session_replication_role = replica`,
		`DELETE FROM earning_line WHERE request_id NOT IN
			(SELECT request_id FROM earning_line ORDER BY recorded_at, request_id LIMIT ` + strconv.Itoa(keep) + `)`,
	} {
		if _, err := tx.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// lines are all of them but for when they were recorded.
func (b *bundle) lines(t *testing.T) (text string) {
	t.Helper()
	if err := b.pool.QueryRow(t.Context(),
		`SELECT coalesce(string_agg((to_jsonb(l) - 'recorded_at')::text, E'\n' ORDER BY request_id), '')
		FROM earning_line l`).Scan(&text); err != nil {
		t.Fatal(err)
	}
	return text
}

func TestAfterLostCommitsARewindBringsBackEveryLineAsItWas(t *testing.T) {
	t.Parallel()
	const all, kept = 12, 5
	b := setup(t)
	begun := time.Now()
	for n := range all / 2 {
		b.publish(t, strconv.Itoa(n), encode(t, b.usage(t)))
		b.settled(t)
	}
	before := b.lines(t)
	b.lose(t, kept)
	if n := b.count(t, "SELECT count(*) FROM earning_line"); n != kept {
		t.Fatalf("got %d lines left, want %d", n, kept)
	}
	if _, err := b.bus.Rewind(t.Context(), bus.UsageStream.Name, bus.DurableSettlement,
		begun.Add(-time.Hour)); !errors.Is(err, bus.ErrTooOld) {
		t.Errorf("to before the stream was made: got %v, want it refused", err)
	}
	n, err := b.bus.Rewind(t.Context(), bus.UsageStream.Name, bus.DurableSettlement, begun)
	if err != nil {
		t.Fatalf("got the error %v, want none", err)
	}
	if n != all {
		t.Fatalf("got %d messages delivered again, want %d", n, all)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for b.lines(t) != before {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			t.Fatalf("got lines\n%s\nwant\n%s", b.lines(t), before)
		}
	}
	if n := b.count(t, "SELECT (SELECT count(*) FROM quarantine) + (SELECT count(*) FROM earning_correction)"); n != 0 {
		t.Errorf("got %d set aside or corrected, want none", n)
	}
}
