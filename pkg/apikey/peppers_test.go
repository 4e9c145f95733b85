package apikey

import (
	"fmt"
	"testing"
)

func TestAFingerprintNamesItsPepperAlone(t *testing.T) {
	one, other := Pepper{1}, Pepper{2}
	if one.Fingerprint() == other.Fingerprint() {
		t.Error("two peppers have one fingerprint")
	}
	if got, want := one.Fingerprint(), (Pepper{1}).Fingerprint(); got != want {
		t.Errorf("again: got %x, want %x", got, want)
	}
}

func TestADigestIsStoredUnderAtMostTwoPeppers(t *testing.T) {
	d := Sum("a key")
	if got := len(Only(Pepper{1}).Hashes(d)); got != 1 {
		t.Errorf("with one pepper: got %d hashes, want 1", got)
	}
	both := Numbered(Pepper{2}, 2, Pepper{1}, 1).Hashes(d)
	if len(both) != 2 {
		t.Fatalf("with two peppers: got %d hashes, want 2", len(both))
	}
	for i, pepper := range []Pepper{{2}, {1}} {
		if want := pepper.Hash(d); Hash(both[i]) != want {
			t.Errorf("hash %d: got %x, want %x", i, both[i], want)
		}
	}
}

// In the second step of a rotation, a replica that has not been restarted meets hashes of the
// newer pepper.
func TestAHashOfANewerPepperIsNotRenewed(t *testing.T) {
	d := Sum("a key")
	newer := Numbered(Pepper{2}, 2, Pepper{1}, 1)
	got, due := newer.Renewed(d, Stored{Pepper{1}.Hash(d), 1})
	if !due {
		t.Error("of the older pepper: the hash is not due, want it renewed")
	}
	if want := (Stored{Pepper{2}.Hash(d), 2}); got != want {
		t.Errorf("of the older pepper: got %v, want %v", got, want)
	}
	for name, p := range map[string]Peppers{
		"renewed": newer, "a replica of the older pepper": Numbered(Pepper{1}, 1, Pepper{2}, 2),
	} {
		if _, due := p.Renewed(d, Stored{Pepper{2}.Hash(d), 2}); due {
			t.Errorf("%s: the hash is due, want it to stay", name)
		}
	}
}

func TestPeppersAreNeverPrinted(t *testing.T) {
	p := Only(Pepper{0xAB, 0xCD})
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if got, want := fmt.Sprintf(format, p), "[redacted]"; got != want {
			t.Errorf("%s: got %q, want %q", format, got, want)
		}
	}
}
