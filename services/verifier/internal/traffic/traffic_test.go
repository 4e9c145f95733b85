package traffic

import (
	"math"
	"slices"
	"testing"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/verifier/internal/probe"
)

var noon = time.Date(2026, 11, 21, 12, 30, 0, 0, time.UTC)

func offer(n byte) probe.Offer {
	return probe.Offer{Provider: ids.ProviderID{15: n}, Model: "acme/tiny-1b"}
}

func TestAWeekCountsItsHoursAndForgetsOlderOnes(t *testing.T) {
	t.Parallel()
	c := New()
	for range 70 {
		c.Attempted(offer(1), true, noon)
	}
	c.Attempted(offer(1), false, noon.Add(time.Hour))
	c.Earned(offer(1), 700, noon)
	c.Earned(offer(1), -5, noon)
	w := c.Of(offer(1), noon.Add(2*time.Hour))
	if w.Served != 70 {
		t.Errorf("served: got %d, want 70", w.Served)
	}
	if want := 71.0 / 7; w.RequestsADay < want-1e-9 || w.RequestsADay > want+1e-9 {
		t.Errorf("requests a day: got %v, want %v", w.RequestsADay, want)
	}
	if got, want := [2]float64{w.Hours[12], w.Hours[13]}, [2]float64{70, 1}; got != want {
		t.Errorf("hours 12 and 13: got %v, want %v", got, want)
	}
	if w.PayoutADay != 100 {
		t.Errorf("payout a day: got %v, want 100", w.PayoutADay)
	}
	if got := c.Of(offer(1), noon.Add(8*24*time.Hour)); got != (Week{}) {
		t.Errorf("a week later: got %v, want nothing", got)
	}
	if got := c.Of(offer(2), noon); got != (Week{}) {
		t.Errorf("another offer: got %v, want nothing", got)
	}
}

func TestASlotOfLastWeekIsEmptiedBeforeItCountsAgain(t *testing.T) {
	t.Parallel()
	c := New()
	c.Attempted(offer(1), true, noon)
	c.Attempted(offer(1), true, noon.Add(7*24*time.Hour))
	if got := c.Of(offer(1), noon.Add(7*24*time.Hour)).Served; got != 1 {
		t.Errorf("served: got %d, want 1", got)
	}
}

func TestTheTopEarnersAreATwentieth(t *testing.T) {
	t.Parallel()
	c := New()
	for n := range byte(40) {
		c.Earned(offer(n), money.NanoUSD(n), noon)
	}
	top := c.TopEarners(noon)
	if len(top) != 2 {
		t.Errorf("top earners of 40: got %d, want 2", len(top))
	}
	for _, n := range []byte{39, 38} {
		if !top[offer(n)] {
			t.Errorf("offer %d is a top earner: got false, want true", n)
		}
	}
}

func TestTheNumberOfOffersIsBoundedAndQuietOnesLeave(t *testing.T) {
	t.Parallel()
	c := New()
	c.limit = 2
	for n := range byte(3) {
		c.Attempted(offer(n), true, noon)
	}
	if got := c.Of(offer(2), noon).Served; got != 0 {
		t.Errorf("served by the offer without room: got %d, want 0", got)
	}
	later := noon.Add(8 * 24 * time.Hour)
	c.Attempted(offer(1), true, later)
	c.Forget(later)
	if got := len(c.offers); got != 1 {
		t.Errorf("offers after a quiet week: got %d, want 1", got)
	}
}

func TestACounterBeginsWithWhatAnotherCounted(t *testing.T) {
	t.Parallel()
	before, after := New(), New()
	for range 70 {
		before.Attempted(offer(1), true, noon.Add(-5*time.Hour))
	}
	before.Attempted(offer(1), false, noon)
	before.Earned(offer(1), 700, noon)
	after.Attempted(offer(1), true, noon)
	for _, h := range before.Since(time.Time{}, noon) {
		after.Add(h, noon)
	}
	got := after.Of(offer(1), noon)
	if got.Served != 71 {
		t.Errorf("served: got %d, want 71", got.Served)
	}
	if got, want := [2]float64{got.Hours[7], got.Hours[12]}, [2]float64{70, 2}; got != want {
		t.Errorf("hours 7 and 12: got %v, want %v", got, want)
	}
	if got.PayoutADay != 100 {
		t.Errorf("payout a day: got %v, want 100", got.PayoutADay)
	}
	if got := len(before.Since(noon, noon)); got != 1 {
		t.Errorf("hours from noon on: got %d, want 1", got)
	}
	if got := len(before.Since(time.Time{}, noon.Add(8*24*time.Hour))); got != 0 {
		t.Errorf("hours a week later: got %d, want 0", got)
	}
}

func TestWhatIsAddedIsBounded(t *testing.T) {
	t.Parallel()
	c := New()
	c.limit = 1
	for range 3 {
		c.Add(Hour{Offer: offer(1), Begin: noon, Requests: 1 << 40, Served: 1 << 40, Payout: math.MaxInt64 - 1}, noon)
	}
	c.Add(Hour{Offer: offer(1), Begin: noon.Add(-8 * 24 * time.Hour), Requests: 5}, noon)
	c.Add(Hour{Offer: offer(2), Begin: noon, Requests: 5}, noon)
	c.Add(Hour{Offer: offer(1), Begin: noon.Add(time.Hour), Requests: -5}, noon.Add(time.Hour))
	want := []Hour{{Offer: offer(1), Begin: noon.Truncate(time.Hour), Requests: math.MaxUint32, Served: math.MaxUint32,
		Payout: math.MaxInt64 - 1}}
	if got := c.Since(time.Time{}, noon.Add(time.Hour)); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
