package operator

import (
	"crypto/rand"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/totp"
)

func TestACodeIsGoodForItsStepAndTheTwoBesideIt(t *testing.T) {
	s := Secret{[secretBytes]byte([]byte("12345678901234567890"))}
	now := time.Unix(1234567890, 0)
	for offset := int64(-3); offset <= 3; offset++ {
		step, ok := s.match(s.code(totp.Step(now)+offset), now)
		if want := offset >= -1 && offset <= 1; ok != want {
			t.Errorf("%d steps away: got %v, want %v", offset, ok, want)
		}
		if ok && step != totp.Step(now)+offset {
			t.Errorf("%d steps away: got the step %d, want %d", offset, step, totp.Step(now)+offset)
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
