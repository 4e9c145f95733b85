package presence

import (
	"testing"
	"time"
)

func TestTotalsCountModelsSeatsThatServeAndBookings(t *testing.T) {
	now := time.Unix(1_790_000_000, 0)
	v, nobody := New(func(string) {}), func(*Seat) bool { return false }
	serving := Session{Provider: "p", Node: "n", Epoch: 1, Active: true,
		Offers: []Offer{{Model: "a", Healthy: true, Capacity: 4}, {Model: "b", Capacity: 4}}}
	away := Session{Provider: "q", Node: "n", Epoch: 2, Active: true, Draining: true,
		Offers: []Offer{{Model: "a", Healthy: true, Capacity: 4}}}
	v.Apply(Report{Hub: "h", Incarnation: 1, Address: "x", Revision: 1, Full: true, Parts: 1,
		Sessions: []Session{serving, away}}, now)
	if got := v.Totals(nobody); got != (Totals{Models: 2, Candidates: 1}) {
		t.Errorf("totals: got %+v, want %+v", got, Totals{Models: 2, Candidates: 1})
	}
	shut := func(s *Seat) bool { return s.Session.Provider == "p" && s.Offer.Model == "a" }
	if got := v.Totals(shut); got.Candidates != 0 {
		t.Errorf("candidates of a model that is shut: got %d, want 0", got.Candidates)
	}
	for _, seat := range v.Seats("a") {
		if seat.Online() && !seat.Slots.Book("r", now) {
			t.Fatal("no slot")
		}
	}
	if got := v.Totals(nobody); got.Bookings != 1 {
		t.Errorf("after a booking: got %d, want 1", got.Bookings)
	}
}
