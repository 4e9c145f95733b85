package pairing

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/services/verifier/internal/probe"
)

var (
	noon  = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	here  = probe.Offer{Provider: ids.ProviderID{15: 1}, Model: "acme/tiny-1b"}
	there = probe.Offer{Provider: ids.ProviderID{15: 2}, Model: "acme/tiny-1b"}
)

func id(n byte) (p probe.ID) {
	p[15] = n
	return p
}

func at(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }

func attempt(request, account string, o probe.Offer, failed bool, second int) Attempt {
	return Attempt{Request: request, Account: account, Offer: o, Failed: failed, At: at(second)}
}

func TestAProbeIsPairedWithTheNextAttemptThatIsNoProbe(t *testing.T) {
	t.Parallel()
	m := New()
	m.Begin(here, id(1), at(0))
	m.Attempted(attempt("before", "a", here, true, 1))
	m.Attempted(attempt("own", "house", here, false, 5))
	m.Own("own")
	m.Ended(here, id(1), false, at(6))
	m.Attempted(attempt("elsewhere", "a", there, false, 7))
	m.Attempted(attempt("other probe", "house", here, false, 8))
	m.Attempted(attempt("organic", "a", here, true, 9))
	m.Attempted(attempt("later", "a", here, false, 10))
	if got := m.Due(at(60)); len(got) != 0 {
		t.Errorf("while the attempt may turn out to be a probe's: got %v, want no pair", got)
	}
	got := m.Due(at(80))
	if want := []Pair{{Probe: id(1), Offer: here, OrganicFailed: true}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := len(m.offers); got != 0 {
		t.Errorf("offers kept afterwards: got %d, want 0", got)
	}
}

// Another replica's probe has a request id that this one never hears of, and the account
// of a probe that this one has carried out.
func TestTheProbeOfAnotherReplicaIsKnownByItsAccount(t *testing.T) {
	t.Parallel()
	m := New()
	m.Begin(here, id(1), at(0))
	m.Own("mine")
	m.Attempted(attempt("mine", "house", here, false, 1))
	m.Ended(here, id(1), true, at(2))
	m.Attempted(attempt("theirs", "house", here, false, 3))
	if got := m.Due(at(600)); len(got) != 0 {
		t.Errorf("got %v, want no pair", got)
	}
}

func TestAProbeWithoutAResultMakesNoPair(t *testing.T) {
	t.Parallel()
	m := New()
	m.Begin(here, id(1), at(0))
	m.Forget(here, id(1))
	m.Begin(here, id(2), at(0))
	m.Attempted(attempt("organic", "a", here, true, 9))
	if got := m.Due(at(int(Patience / time.Second))); len(got) != 0 {
		t.Errorf("a probe that never ended: got %v, want no pair", got)
	}
	if got := len(m.offers); got != 0 {
		t.Errorf("offers kept after the patience: got %d, want 0", got)
	}
}

func TestWhatIsKeptIsBounded(t *testing.T) {
	t.Parallel()
	m := New()
	for n := range byte(maxProbes + 5) {
		m.Begin(here, id(n), at(0))
	}
	for n := range maxAttempts + 5 {
		m.Attempted(attempt(strconv.Itoa(n), "a", here, true, 1))
	}
	for n := range maxOwn + 5 {
		m.Own(strconv.Itoa(n))
	}
	d := m.offers[here]
	for _, c := range []struct {
		what      string
		got, want int
	}{
		{"probes", len(d.probes), maxProbes}, {"attempts", len(d.attempts), maxAttempts}, {"own", len(m.own), maxOwn},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %d, want %d", c.what, c.got, c.want)
		}
	}
}
