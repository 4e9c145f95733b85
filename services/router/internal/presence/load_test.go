package presence

import (
	"slices"
	"testing"
)

func TestASessionsCapacityAndItsAgentsLoadReachEverySeat(t *testing.T) {
	v := newView()
	s := on("p", "n", 1, "a", "b")
	s.Offers[0].InFlight, s.Capacity, s.Said = 2, 6, 5
	v.Apply(delta("h", 1, s), start)
	seat := v.Seats("b")[0]
	if load, limit := seat.Slots.Usage(start); load != 5 {
		t.Errorf("load: got %d, want 5", load)
	} else if limit != 6 {
		t.Errorf("limit: got %d, want 6", limit)
	}
	s.Said = 2
	v.Apply(delta("h", 2, s), start)
	if v.Seats("b")[0] != seat {
		t.Error("a seat was replaced although only its load changed")
	}
	if load, limit := seat.Slots.Usage(start); load != 2 {
		t.Errorf("load: got %d, want 2", load)
	} else if limit != 6 {
		t.Errorf("limit: got %d, want 6", limit)
	}
}

func TestAModelThatIsServedNoLongerLeavesTheSessionsBound(t *testing.T) {
	v := newView()
	s := on("p", "n", 1, "a", "b")
	s.Offers[0].InFlight, s.Capacity = 4, 4
	v.Apply(delta("h", 1, s), start)
	if v.Seats("b")[0].Slots.Book("r", start) {
		t.Fatal("a full session was booked")
	}
	left := on("p", "n", 1, "b")
	left.Capacity = 4
	v.Apply(delta("h", 2, left), start)
	if !v.Seats("b")[0].Slots.Book("r", start) {
		t.Error("the load of a model that is gone fills the session")
	}
}

func TestABookingThatExpiresIsToldToAllModelsOfItsSession(t *testing.T) {
	var told []string
	v := New(func(m string) { told = append(told, m) })
	s := on("p", "n", 1, "a", "b")
	s.Capacity = 1
	v.Apply(delta("h", 1, s), start)
	v.Seats("a")[0].Slots.Book("r", start)
	told = nil
	v.Confirm(start.Add(1 << 40))
	v.Expire(start.Add(1 << 40))
	if slices.Sort(told); !slices.Equal(told, []string{"a", "b"}) {
		t.Errorf("told: got %q, want %q", told, []string{"a", "b"})
	}
}

func TestOnlyADifferenceInUptimeToSpeakOfReplacesASeat(t *testing.T) {
	v := newView()
	s := on("p", "n", 1, "m")
	s.Uptime, s.UptimeKnown = 0.9, true
	v.Apply(delta("h", 1, s), start)
	seat := v.Seats("m")[0]
	for i := range 4 { // little by little, but measured from what the seat shows
		s.Uptime += uptimeStep / 5
		v.Apply(delta("h", uint64(2+i), s), start)
	}
	if v.Seats("m")[0] != seat {
		t.Error("a seat was replaced for less than a step")
	}
	s.Uptime += uptimeStep / 4
	v.Apply(delta("h", 10, s), start)
	if got := v.Seats("m")[0].Session.Uptime; got != s.Uptime {
		t.Errorf("uptime: got %v, want %v", got, s.Uptime)
	}
	s.UptimeKnown = false
	v.Apply(delta("h", 11, s), start)
	s.Probation, s.TakesWarmups = true, true
	v.Apply(delta("h", 12, s), start)
	switch got := v.Seats("m")[0].Session; {
	case got.UptimeKnown:
		t.Error("UptimeKnown: got true, want false")
	case !got.Probation:
		t.Error("Probation: got false, want true")
	case !got.TakesWarmups:
		t.Error("TakesWarmups: got false, want true")
	}
}

func TestAProvidersSeatsAreThoseOfItsServingSessions(t *testing.T) {
	v := newView()
	v.Apply(delta("h", 1, on("p", "1", 1, "a", "b"), on("p", "2", 2, "b"), on("q", "1", 3, "a")), start)
	v.Apply(delta("h2", 1, on("p", "1", 4, "a")), start) // takes over from epoch 1
	var got []string
	for _, s := range v.By("p") {
		got = append(got, s.Session.Node+s.Offer.Model+s.Hub)
	}
	if slices.Sort(got); !slices.Equal(got, []string{"1ah2", "2bh"}) {
		t.Errorf("got %q, want %q", got, []string{"1ah2", "2bh"})
	}
	if v.By("nobody") != nil {
		t.Error("a provider without sessions has seats")
	}
}
