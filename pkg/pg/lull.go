package pg

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/clock"
)

// Rest is the longest time for which a loop that follows a Lull leaves its looks out. What becomes due by time
// alone while nobody writes is found late, by at most Rest and one interval of the loop.
const Rest = 5 * time.Second

const (
	// sharedFor is for how long one reading serves all loops, which look at the same moments.
	sharedFor = 250 * time.Millisecond
	// readTimeout bounds one reading, because all loops of a service wait for it.
	readTimeout = 2 * time.Second
)

// Lull spares loops that look for work in tables their looks while nobody writes to the
// server. Then an idle service has one short statement an interval, whatever the number of its
// loops. It is safe for concurrent use.
type Lull struct {
	db rower

	mu       sync.Mutex
	snapshot string
	read     time.Time
}

// rower is the part of a pool that a Lull needs.
type rower interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// NewLull returns the lull of the server of a pool.
func NewLull(db rower) *Lull { return &Lull{db: db} }

// Loop returns a function that one loop calls before each look. The function reports whether no
// transaction has written anything since the last look, and the last look is less than rest ago: the
// look would find what the last one found, unless something has become due by time. The function
// reports false where the server cannot be asked.
func (l *Lull) Loop(rest time.Duration) clock.Still {
	var seen string
	var looked time.Time
	return func(ctx context.Context) bool {
		now := time.Now()
		snapshot, err := l.current(ctx, now)
		if err == nil && snapshot == seen && now.Sub(looked) < rest {
			return true
		}
		seen, looked = snapshot, now
		return false
	}
}

// current reads which transactions have ended. A transaction that only reads is none of them.
func (l *Lull) current(ctx context.Context, now time.Time) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if age := now.Sub(l.read); l.snapshot != "" && age < sharedFor {
		return l.snapshot, nil
	}
	l.snapshot = ""
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	if err := l.db.QueryRow(ctx, `SELECT pg_current_snapshot()::text`).Scan(&l.snapshot); err != nil {
		return "", fmt.Errorf("ask what was written: %w", err)
	}
	l.read = now
	return l.snapshot, nil
}
