package operator

import (
	"crypto/rand"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"
)

// The vectors of RFC 6238, appendix B, for SHA-1. They have eight digits.
func TestCodesAreThoseOfTheRFC(t *testing.T) {
	for at, want := range map[int64]string{
		59: "94287082", 1111111109: "07081804", 1111111111: "14050471", 1234567890: "89005924", 2000000000: "69279037",
		20000000000: "65353130",
	} {
		n := truncated([]byte("12345678901234567890"), stepOf(time.Unix(at, 0)))
		if got := fmt.Sprintf("%08d", n%100_000_000); got != want {
			t.Errorf("at %d: got %s, want %s", at, got, want)
		}
	}
}

func TestACodeIsGoodForItsStepAndTheTwoBesideIt(t *testing.T) {
	s := Secret{[secretBytes]byte([]byte("12345678901234567890"))}
	now := time.Unix(1234567890, 0)
	for offset := int64(-3); offset <= 3; offset++ {
		step, ok := s.match(s.code(stepOf(now)+offset), now)
		if want := offset >= -1 && offset <= 1; ok != want {
			t.Errorf("%d steps away: got %v, want %v", offset, ok, want)
		}
		if ok && step != stepOf(now)+offset {
			t.Errorf("%d steps away: got the step %d, want %d", offset, step, stepOf(now)+offset)
		}
	}
	for _, text := range []string{"", "12345", "1234567", "12345a", "-12345", "12 456", "\u0661\u0662\u0663"} {
		if isCode(text) {
			t.Errorf("%q: got a code, want none", text)
		}
	}
}

func TestASecretIsShownInTheFormOfAuthenticatorsAndNowhereElse(t *testing.T) {
	s, err := newSecret(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(s.URI("alice"))
	if err != nil {
		t.Fatal(err)
	}
	if got := at.Scheme + "://" + at.Host + at.Path; got != "otpauth://totp/svc:alice" {
		t.Errorf("got %s, want otpauth://totp/svc:alice", got)
	}
	if got := at.Query().Get("secret"); got != s.Reveal() {
		t.Errorf("the address has another secret: got %d characters, want those of Reveal", len(got))
	}
	if len(s.Reveal()) != 32 {
		t.Errorf("got %d characters of base32, want 32", len(s.Reveal()))
	}
	for _, text := range []string{fmt.Sprint(s), fmt.Sprintf("%#v %+v", s, s)} {
		if got := strings.ReplaceAll(text, "[redacted]", ""); strings.TrimSpace(got) != "" {
			t.Errorf("got %q, want it redacted", text)
		}
	}
}
