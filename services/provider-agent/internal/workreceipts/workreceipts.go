// Package workreceipts keeps the signed receipts of this node's work until a hub says
// that the work is settled. They are in one file of the state folder. Records are only
// appended to it, and it is written anew without the acknowledged receipts when those
// make up most of it.
//
// Add and Acked never wait for the disk. Run signs and writes what they queue, and syncs
// it every 200 ms while there is something to sync. A crash of the machine loses at most
// that much. A file that ends in the middle of a record is read up to there. While the
// file cannot be written, as on a full disk, receipts are sent from memory; once a minute
// all of them are written to the file anew. A lock keeps a second agent out of the
// folder.
//
// Bounds: 32,768 receipts or 8 MiB that nobody has acknowledged, 17 MiB of file, or 24
// where there is no room to write it anew; 4,096 receipts wait to be written. A receipt
// that finds no room is dropped and counted, which is logged once a minute. Serving is
// not affected, and nearly all requests are settled without a receipt. Receipts older
// than 7 days are dropped as well, because no ledger takes them any more.
package workreceipts

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/workreceipt"
)

// Bounds.
const (
	maxKept  = 1 << 15
	maxBytes = 16 << 20
	maxQueue = 4096
	maxAge   = 7 * 24 * time.Hour
)

// Intervals.
const (
	syncInterval = 200 * time.Millisecond
	tidyInterval = time.Minute
	// settleWait is how long a receipt waits before it is sent at first. Nearly always
	// its request is settled by then, and the hub acknowledges it at once.
	settleWait = 2 * time.Second
	// retryFirst doubles with each sending up to maxRetry.
	retryFirst = 30 * time.Second
	maxRetry   = 10 * time.Minute
)

// Status counts receipts for the owner.
type Status struct {
	// Kept receipts are not acknowledged yet, Dropped ones found no room or were too old,
	// and Refused ones count for nothing.
	Kept             int
	Dropped, Refused int64
	Bytes            int64
}

// kept is a receipt that is not acknowledged.
type kept struct {
	signed workreceipt.Signed
	size   int64
	due    time.Time // when it is sent next
	sent   int       // how often on this connection
	gone   bool
}

// Store keeps receipts. It is safe for concurrent use.
type Store struct {
	key   ed25519.PrivateKey
	clock clock.Clock
	log   *slog.Logger
	dir   string   // empty for none
	lock  *os.File // nil without a folder
	wake  chan struct{}

	// The following fields are for the goroutine of Run, and for Open and Close.
	file   file
	create func(path string) (file, error)
	behind bool // the file lacks receipts that are in memory
	fault  bool // a failure of the file was logged

	mu      sync.Mutex
	added   []workreceipt.Receipt // to be signed and written
	acked   []workreceipt.Key     // to be written
	byKey   map[workreceipt.Key]*kept
	order   []*kept // oldest first, with some that were removed
	live    int64   // bytes of kept receipts
	bytes   int64   // of the file
	dropped int64
	refused int64
	told    int64
}

// Open reads the receipts in dir and the node's key, and makes both where there are none.
// With an empty dir nothing outlives the process.
func Open(dir string, random io.Reader, c clock.Clock, log *slog.Logger) (*Store, error) {
	s := &Store{dir: dir, clock: c, log: log, create: createFile, wake: make(chan struct{}, 1),
		byKey: map[workreceipt.Key]*kept{}}
	var err error
	if dir != "" {
		if s.lock, err = lockFolder(dir, log); err != nil {
			return nil, err
		}
	}
	if s.key, err = loadKey(dir, random); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if dir == "" {
		return s, nil
	}
	if err := s.load(); err != nil {
		return nil, errors.Join(fmt.Errorf("open the receipts: %w", err), s.Close())
	}
	return s, nil
}

// PublicKey is the key that verifies the receipts.
func (s *Store) PublicKey() ed25519.PublicKey { return s.key.Public().(ed25519.PublicKey) }

// Status counts the receipts.
func (s *Store) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Status{Kept: len(s.byKey), Dropped: s.dropped, Refused: s.refused, Bytes: s.bytes}
}

// Add queues a receipt.
func (s *Store) Add(r workreceipt.Receipt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.added) >= maxQueue || len(s.byKey)+len(s.added) >= maxKept || s.live >= maxBytes/2 || r.Validate() != nil {
		s.dropped++
		return
	}
	s.added = append(s.added, r)
	s.signal()
}

// Acked removes a receipt. refused says why it counts for nothing; empty otherwise.
func (s *Store) Acked(key workreceipt.Key, refused string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.remove(key) {
		return
	}
	if refused != "" {
		s.refused++
		s.log.Warn("a receipt counts for nothing", "request_id", key.Request.String(), "attempt", key.Attempt, "reason",
			refused)
	}
	s.acked = append(s.acked, key)
	s.signal()
}

// Connected makes all receipts due on a new connection, oldest first.
func (s *Store) Connected() {
	s.mu.Lock()
	defer s.mu.Unlock()
	soon := s.clock.Now().Add(settleWait)
	for _, k := range s.order {
		k.sent = 0
		if k.due.After(soon) {
			k.due = time.Time{}
		}
	}
}

// Due returns at most most receipts that are due, the oldest first.
func (s *Store) Due(limit int) []workreceipt.Signed {
	now := s.clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []workreceipt.Signed
	for _, k := range s.order {
		if len(out) == limit {
			break
		}
		if k.gone || k.due.After(now) {
			continue
		}
		k.due = now.Add(min(retryFirst<<min(k.sent, 8), maxRetry))
		k.sent++
		out = append(out, k.signed)
	}
	return out
}

// Run writes queued receipts until ctx ends, and then the rest.
func (s *Store) Run(ctx context.Context) {
	tidy := time.NewTicker(tidyInterval)
	defer tidy.Stop()
	for {
		select {
		case <-s.wake:
			s.write()
			s.pause(ctx)
		case <-tidy.C:
			s.tidy()
			s.catchUp()
		case <-ctx.Done():
			s.write()
			s.sync()
			s.catchUp()
			return
		}
	}
}

// pause waits for more receipts, so that one sync serves them all.
func (s *Store) pause(ctx context.Context) {
	timer := time.NewTimer(syncInterval)
	defer timer.Stop()
	for {
		select {
		case <-s.wake:
			s.write()
		case <-timer.C:
			s.sync()
			return
		case <-ctx.Done():
			return
		}
	}
}

// Close closes the file and unlocks the folder. Run must have ended.
func (s *Store) Close() error {
	var err error
	if s.file != nil {
		err = s.file.Close()
	}
	if s.lock != nil {
		err = errors.Join(err, s.lock.Close())
	}
	return err
}

// write signs and writes queued receipts. Only Run's goroutine calls it.
func (s *Store) write() {
	s.mu.Lock()
	added, acked := s.added, s.acked
	s.added, s.acked = nil, nil
	s.mu.Unlock()
	var out []byte
	first := s.clock.Now().Add(settleWait)
	for _, r := range added {
		signed := workreceipt.Sign(s.key, r)
		grown, err := appendKept(out, signed)
		if err != nil {
			s.log.Error("a receipt cannot be encoded", "request_id", r.Request.String(), "error", err)
			continue
		}
		out = grown
		s.mu.Lock()
		s.keep(signed, first)
		s.mu.Unlock()
	}
	for _, key := range acked {
		out = appendAcked(out, key)
	}
	s.append(out)
}

// tidy drops receipts that are too old and logs what was dropped.
func (s *Store) tidy() {
	s.mu.Lock()
	s.dropOld()
	dropped, had := s.dropped, len(s.byKey)
	fresh := dropped - s.told
	s.told = dropped
	s.mu.Unlock()
	if fresh > 0 {
		s.log.Warn("receipts were dropped; serving goes on", "receipts", fresh, "kept", had, "at_most", maxKept)
	}
}

// dropOld needs the mutex.
func (s *Store) dropOld() {
	limit := s.clock.Now().Add(-maxAge)
	old := 0
	for _, k := range s.order {
		if !k.gone && k.signed.EndedAt.Before(limit) {
			s.remove(k.signed.Key())
			s.acked = append(s.acked, k.signed.Key())
			old++
		}
	}
	if old > 0 {
		s.log.Warn("receipts that nobody acknowledged within 7 days are dropped", "receipts", old)
		s.signal()
	}
}

// keep needs the mutex.
func (s *Store) keep(signed workreceipt.Signed, due time.Time) {
	if s.byKey[signed.Key()] != nil {
		return
	}
	encoded, err := appendKept(nil, signed)
	if err != nil {
		return
	}
	k := &kept{signed: signed, size: int64(len(encoded)), due: due}
	s.byKey[signed.Key()] = k
	s.order = append(s.order, k)
	s.live += k.size
}

// remove needs the mutex.
func (s *Store) remove(key workreceipt.Key) bool {
	k := s.byKey[key]
	if k == nil {
		return false
	}
	k.gone = true
	delete(s.byKey, key)
	s.live -= k.size
	if len(s.order) > 64 && len(s.order) > 2*len(s.byKey) {
		s.compact()
	}
	return true
}

// compact removes the dropped receipts from order. It needs the mutex.
func (s *Store) compact() {
	live := make([]*kept, 0, len(s.byKey))
	for _, k := range s.order {
		if !k.gone {
			live = append(live, k)
		}
	}
	s.order = live
}

func (s *Store) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
