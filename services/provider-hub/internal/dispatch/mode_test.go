package dispatch

import (
	"log/slog"
	"testing"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/services/provider-hub/internal/meter"
	"svc.internal/services/provider-hub/internal/session"
)

// modes is a journal that notes the mode with which an order came.
type modes struct {
	ledger
	external, vendor bool
}

func (m *modes) Dispatched(o *Order, at time.Time) error {
	m.external, m.vendor = o.External, o.Vendor
	return m.ledger.Dispatched(o, at)
}

// A later process bills an order by what the journal was given first.
func TestAnOrderIsJournalledWithTheModeOfItsSession(t *testing.T) {
	for _, want := range []struct{ external, vendor bool }{{false, false}, {true, false}, {true, true}} {
		s, journal := &deafAgent{end: &session.End{}}, &modes{}
		d := New(Config{}, Env{
			Find:  func(*Order) (Session, bool) { return s, true },
			Mode:  func(Session) (bool, bool) { return want.external, want.vendor },
			After: func(d time.Duration, f func()) Timer { return time.AfterFunc(d, f) },
		}, journal, func(Report) {}, clock.System, slog.New(slog.DiscardHandler))
		d.Open()
		l := &listener{commits: make(chan struct{})}
		if err := d.Serve(t.Context(), orderOf(meter.Chat, true, false), l); err != nil {
			t.Fatal(err)
		}
		if journal.external != want.external {
			t.Errorf("external: got %t, want %t", journal.external, want.external)
		}
		if journal.vendor != want.vendor {
			t.Errorf("vendor: got %t, want %t", journal.vendor, want.vendor)
		}
	}
}
