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
	want := []Pair{{Probe: id(1), Offer: here, OrganicFailed: true, Account: "a", Day: noon.Unix() / 86_400}}
	if !slices.Equal(got, want) {
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

// A consumer whose requests fail on purpose has one pair a day, however many probes there are.
func TestOneAccountMakesOnePairOfAnOfferInADay(t *testing.T) {
	t.Parallel()
	m := New()
	n := 0
	run := func(second int, accounts ...string) []Pair {
		t.Helper()
		n++
		m.Due(at(second)) // those that wait too long leave
		m.Begin(here, id(byte(n)), at(second))
		m.Ended(here, id(byte(n)), false, at(second+1))
		for i, account := range accounts {
			m.Attempted(attempt(strconv.Itoa(n*10+i), account, here, account == "griefer", second+2+i))
		}
		return m.Due(at(second + 100))
	}
	day := noon.Unix() / 86_400
	pair := func(n byte, account string, failed bool, day int64) Pair {
		return Pair{Probe: id(n), Offer: here, OrganicFailed: failed, Account: account, Day: day}
	}
	for _, c := range []struct {
		what     string
		second   int
		accounts []string
		want     []Pair
	}{
		{"the first of an account", 0, []string{"griefer"}, []Pair{pair(1, "griefer", true, day)}},
		{"more of the day", 200, []string{"griefer", "griefer"}, nil},
		{"beside another account", 400, []string{"griefer", "b"}, []Pair{pair(2, "b", false, day)}},
		{"the next day", 13 * 3600, []string{"griefer"}, []Pair{pair(4, "griefer", true, day+1)}},
	} {
		if got := run(c.second, c.accounts...); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.what, got, c.want)
		}
	}
}

func TestTheKeyOfAPairNamesOfferAccountAndDay(t *testing.T) {
	t.Parallel()
	one := Pair{Probe: id(1), Offer: here, Account: "a", Day: 7}
	same := Pair{Probe: id(2), Offer: here, Account: "a", Day: 7, ProbeFailed: true}
	if got, want := same.Key(), one.Key(); got != want {
		t.Errorf("the key of another probe: got %q, want %q", got, want)
	}
	for name, other := range map[string]Pair{
		"another offer": {Offer: there, Account: "a", Day: 7}, "another account": {Offer: here, Account: "b", Day: 7},
		"another day": {Offer: here, Account: "a", Day: 8},
	} {
		if got := other.Key(); got == one.Key() {
			t.Errorf("%s: got %q, want another key", name, got)
		}
	}
}

func TestWhatIsKeptIsBounded(t *testing.T) {
	t.Parallel()
	m := New()
	for n := range byte(maxProbes + 5) {
		m.Begin(here, id(n), at(0))
	}
	for n := range maxAttempts + 5 {
		m.Attempted(attempt(strconv.Itoa(n), "account "+strconv.Itoa(n), here, true, 1))
	}
	for n := range maxOwn + 5 {
		m.Own(strconv.Itoa(n))
	}
	m.Begin(there, id(1), at(0))
	for n := range maxAttempts {
		m.Attempted(attempt(strconv.Itoa(n), "one account", there, true, 1))
	}
	for n := range maxCounted + 5 {
		m.pairLocked(probed{}, Attempt{Offer: here, Account: strconv.Itoa(n), At: noon})
	}
	d := m.offers[here]
	for _, c := range []struct {
		what      string
		got, want int
	}{
		{"probes", len(d.probes), maxProbes}, {"attempts", len(d.attempts), maxAttempts}, {"own", len(m.own), maxOwn},
		{"attempts of one account", len(m.offers[there].attempts), maxOfAccount},
		{"pairs of a day", len(m.counted), maxCounted},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %d, want %d", c.what, c.got, c.want)
		}
	}
}
