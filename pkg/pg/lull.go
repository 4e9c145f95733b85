package pg

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/pkg/clock"
)

// Rest is the longest time for which a loop of Lull.Loop leaves its looks out. What becomes due by time
// alone while nobody writes is found late, by at most Rest and one interval of the loop.
const Rest = 5 * time.Second

// LongRest is the longest time for which a loop of Lull.Until leaves its looks out. The loop is never late, because it
// knows when something is due. A look without need guards against a clock of the server that is set forward.
const LongRest = time.Minute

const (
	// sharedFor is for how long one reading serves all loops, which look at the same moments.
	sharedFor = 250 * time.Millisecond
	// readTimeout bounds one reading, because all loops of a service wait for it. A reading that is given up
	// costs its connection.
	readTimeout = 5 * time.Second
	// slow is when the question what is due has become slow, by a table that many look at or that was not vacuumed for
	// long. Then costly times as long passes until the next question, so that questions take a twentieth of the time
	// at most. Meanwhile no look is left out.
	slow   = 50 * time.Millisecond
	costly = 20
)

// Lull spares loops that look for work in tables their looks while there is nothing to find. An idle process has one
// short statement an interval for each server, whatever the number of its services and their loops. After a write
// each service has one more, which asks for all of its loops when they have something to do. It is safe for concurrent
// use.
type Lull struct {
	db     rower
	server *server

	mu   sync.Mutex
	sql  string // asks what nexts are; empty before the first reading with all of them
	next []string
	// at is the snapshot of the last reading of next, which found dues in seconds since 1970; nil where nothing waits.
	// clock was the server's time, in the same unit, at our time read.
	at    string
	dues  []*float64
	clock float64
	read  time.Time
	// again is when the next question may be asked.
	again time.Time
}

// rower is the part of a pool that a Lull needs.
type rower interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// NewLull returns the lull of the server of a pool.
func NewLull(db rower) *Lull { return &Lull{db: db, server: serverOf(db)} }

// Loop is for a loop that does not know when something is due. A look may be left out while no transaction has written
// anything since the last look that succeeded, and that look is less than rest ago: the look would find what the last
// one found, unless something has become due by time. No look is left out where the server cannot be asked.
func (l *Lull) Loop(rest time.Duration) *clock.Still {
	var mu sync.Mutex
	var seen string
	var looked time.Time
	return clock.NewStill(func(ctx context.Context) bool {
		now := time.Now()
		snapshot, err := l.server.current(ctx, l.db, now)
		mu.Lock()
		defer mu.Unlock()
		if err == nil && snapshot == seen && now.Sub(looked) < rest {
			return true
		}
		seen, looked = snapshot, now
		return false
	}, func() {
		mu.Lock()
		defer mu.Unlock()
		looked = time.Time{}
	})
}

// Until is for a loop that knows when something is due. The SQL expression next is the first time, by the server's
// clock, at which a look may find something, and NULL where nothing waits. It may be earlier than that time and never
// later; '-infinity' has every look made. It must follow from tables alone, and not from the time. A look may be left
// out before that time, unless the last one failed.
func (l *Lull) Until(next string) *clock.Still {
	l.mu.Lock()
	defer l.mu.Unlock()
	next = "extract(epoch FROM (" + next + "))::float8"
	i := slices.Index(l.next, next)
	if i < 0 {
		i = len(l.next)
		l.next, l.at = append(l.next, next), ""
	}
	l.sql = "SELECT pg_current_snapshot()::text, extract(epoch FROM clock_timestamp())::float8, ARRAY[" +
		strings.Join(l.next, ", ") + "]"
	var looked time.Time // of the loop's goroutine alone
	return clock.NewStill(func(ctx context.Context) bool {
		now := time.Now()
		if l.before(ctx, i, now) && now.Sub(looked) < LongRest {
			return true
		}
		looked = now
		return false
	}, func() { looked = time.Time{} })
}

// Wrote has the next look of each loop of this process notice what the process has written.
func (l *Lull) Wrote() { l.server.forget() }

// before reports whether nothing of a loop is due yet, by the server's clock and by ours.
func (l *Lull) before(ctx context.Context, i int, now time.Time) bool {
	snapshot, err := l.server.current(ctx, l.db, now)
	if err != nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if snapshot != l.at && (now.Before(l.again) || l.askLocked(ctx, now) != nil) {
		return false
	}
	if l.dues[i] == nil {
		return true
	}
	theirs, ours := l.clock+now.Sub(l.read).Seconds(), float64(now.UnixMicro())/1e6
	return *l.dues[i] > max(theirs, ours)
}

// askLocked reads for all loops of Until when something is due.
func (l *Lull) askLocked(ctx context.Context, now time.Time) error {
	began := time.Now()
	defer func() {
		if took := time.Since(began); took >= slow {
			l.again = time.Now().Add(min(costly*took, LongRest))
		}
	}()
	l.at = ""
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	var at string
	if err := l.db.QueryRow(ctx, l.sql).Scan(&at, &l.clock, &l.dues); err != nil {
		l.again = time.Now().Add(Rest) // because each loop would wait for an answer
		return fmt.Errorf("ask when something is due: %w", err)
	}
	l.at, l.read = at, now
	l.server.learn(at, now)
	return nil
}

// server is what a process knows of a server, for all of its pools. It is safe for concurrent use.
type server struct {
	mu       sync.Mutex
	snapshot string
	read     time.Time
}

// servers are the servers of this process, by address. One address must not lead to several servers.
var servers sync.Map

// serverOf returns the server of a pool. A pool that may connect to several addresses shares with no other, because
// the two may be connected to different servers.
func serverOf(db rower) *server {
	pool, ok := db.(*pgxpool.Pool)
	if !ok {
		return &server{}
	}
	to := pool.Config().ConnConfig
	for _, f := range to.Fallbacks {
		if f.Host != to.Host || f.Port != to.Port {
			return &server{}
		}
	}
	shared, _ := servers.LoadOrStore(to.Host+":"+strconv.Itoa(int(to.Port)), &server{})
	return shared.(*server)
}

// current reads which transactions have ended. A transaction that only reads is none of them.
func (s *server) current(ctx context.Context, db rower, now time.Time) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if age := now.Sub(s.read); s.snapshot != "" && age < sharedFor {
		return s.snapshot, nil
	}
	s.snapshot = ""
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	if err := db.QueryRow(ctx, `SELECT pg_current_snapshot()::text`).Scan(&s.snapshot); err != nil {
		return "", fmt.Errorf("ask what was written: %w", err)
	}
	s.read = now
	return s.snapshot, nil
}

// forget has the next reading be a new one.
func (s *server) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.snapshot = ""
}

// learn takes a reading over that another statement made.
func (s *server) learn(snapshot string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !now.Before(s.read) {
		s.snapshot, s.read = snapshot, now
	}
}
