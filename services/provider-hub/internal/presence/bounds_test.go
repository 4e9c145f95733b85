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
	// The newer state of a connection that waits already takes the older state's place.
	r.keepLocked(Connection{Epoch: 3, Started: time.Unix(1000, 0), Ended: time.Unix(1001, 0), EndedBy: ByProvider})
	r.mu.Unlock()
	if r.Pending() != maxPending {
		t.Errorf("r.Pending(): got %d, want %d", r.Pending(), maxPending)
	} else if r.Forgotten() != 10 {
		t.Errorf("r.Forgotten(): got %d, want 10", r.Forgotten())
	}
	for range 2 {
		if err := r.Write(t.Context(), false); err == nil {
			t.Fatal("written")
		}
	}
	if r.Pending() != maxPending {
		t.Errorf("wait after a failure: got %d, want %d", r.Pending(), maxPending)
	}
	book.away.Store(false)
	if err := r.Write(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	switch {
	case !book.page.Lost:
		t.Error("book.page.Lost: got false, want true")
	case !book.page.First:
		t.Error("book.page.First: got false, want true")
	case len(book.page.Connections) != maxPending:
		t.Errorf("len(book.page.Connections): got %d, want %d", len(book.page.Connections), maxPending)
	case book.page.Connections[3].EndedBy != ByProvider:
		t.Errorf("book.page.Connections[3].EndedBy: got %q, want %q", book.page.Connections[3].EndedBy, ByProvider)
	case r.Pending() != 0:
		t.Errorf("r.Pending(): got %d, want 0", r.Pending())
	}
	if err := r.Write(t.Context(), true); err != nil {
		t.Errorf("the next page: got the error %v, want none", err)
	} else if book.page.Lost {
		t.Error("the next page: book.page.Lost: got true, want false")
	} else if book.page.First {
		t.Error("the next page: book.page.First: got true, want false")
	} else if !book.page.Last {
		t.Error("the next page: book.page.Last: got false, want true")
	} else if got := len(book.page.Live()); got != 0 {
		t.Errorf("the next page: len(book.page.Live()): got %d, want 0, in %+v", got, book.page)
	}
}
