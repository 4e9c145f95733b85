package presence

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"svc.internal/pkg/clock"
)

// shelf keeps the last page, unless it is away.
type shelf struct {
	away atomic.Bool
	page Page
}

func (s *shelf) Record(_ context.Context, _ Run, page Page) error {
	if s.away.Load() {
		return errors.New("away")
	}
	s.page = page
	return nil
}

func TestWhatWaitsIsBoundedAndTheNextPageSaysThatSomeIsLost(t *testing.T) {
	t.Parallel()
	book := &shelf{}
	book.away.Store(true)
	r := NewRecorder("hub-a", book, clock.NewManual(time.Unix(1000, 0)), slog.New(slog.DiscardHandler))
	r.mu.Lock()
	for epoch := range int64(maxPending + 10) {
		r.keepLocked(Connection{Epoch: epoch, Started: time.Unix(1000, 0)})
	}
	// Of one that waits already, the newer state takes its place.
	r.keepLocked(Connection{Epoch: 3, Started: time.Unix(1000, 0), Ended: time.Unix(1001, 0), EndedBy: ByProvider})
	r.mu.Unlock()
	if r.Pending() != maxPending || r.Forgotten() != 10 {
		t.Errorf("%d wait, %d are forgotten", r.Pending(), r.Forgotten())
	}
	for range 2 {
		if err := r.Write(t.Context(), false); err == nil {
			t.Fatal("written")
		}
	}
	if r.Pending() != maxPending {
		t.Errorf("%d wait after a failure", r.Pending())
	}
	book.away.Store(false)
	if err := r.Write(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	if !book.page.Lost || !book.page.First || len(book.page.Connections) != maxPending ||
		book.page.Connections[3].EndedBy != ByProvider || r.Pending() != 0 {
		t.Errorf("lost %v, first %v, %d connections, %d wait", book.page.Lost, book.page.First, len(book.page.Connections),
			r.Pending())
	}
	if err := r.Write(t.Context(), true); err != nil || book.page.Lost || book.page.First || !book.page.Last ||
		len(book.page.Live()) != 0 {
		t.Errorf("the next page: %+v, %v", book.page, err)
	}
}
