package totp

import (
	"fmt"
	"testing"
	"time"
)

// The vectors of RFC 6238, appendix B, for SHA-1. They have eight digits.
func TestCodesAreThoseOfTheRFC(t *testing.T) {
	for at, want := range map[int64]string{
		59: "94287082", 1111111109: "07081804", 1111111111: "14050471", 1234567890: "89005924", 2000000000: "69279037",
		20000000000: "65353130",
	} {
		n := truncated([]byte("12345678901234567890"), Step(time.Unix(at, 0)))
		if got := fmt.Sprintf("%08d", n%100_000_000); got != want {
			t.Errorf("at %d: got %s, want %s", at, got, want)
		}
	}
}

func TestACodeHasSixDigits(t *testing.T) {
	// Its code begins with zeros, which a number would lose.
	if got := Code([]byte("12345678901234567890"), Step(time.Unix(1111111109, 0))); got != "081804" {
		t.Errorf("got %s, want 081804", got)
	}
}
