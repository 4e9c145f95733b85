package siwe

import (
	"bytes"
	"crypto/rand"
	"strings"
	"testing"
	"time"
)

func issued(t *testing.T, s Sealer, c Challenge) (Challenge, Nonce) {
	t.Helper()
	c, err := s.Issue(c, time.UnixMilli(1_764_316_800_123), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	n, ok := ParseNonce(c.Nonce)
	if !ok {
		t.Fatalf("the nonce: got %q, want one that can be read", c.Nonce)
	}
	return c, n
}

func TestASealerRecognizesWhatItIssuedAndNothingElse(t *testing.T) {
	s := NewSealer([]byte("a secret"))
	c, n := issued(t, s, example())
	if err := c.Validate(); err != nil {
		t.Errorf("the challenge: got the error %v, want none", err)
	}
	for name, sealer := range map[string]Sealer{"its own": s, "another process's": NewSealer([]byte("a secret"))} {
		got, ok := sealer.Issued(c, n)
		if !ok {
			t.Errorf("%s: got false, want true", name)
		}
		if got != c {
			t.Errorf("%s: got %+v, want %+v", name, got, c)
		}
	}
	if _, ok := NewSealer([]byte("another secret")).Issued(c, n); ok {
		t.Error("under another secret: got true, want false")
	}
	for name, change := range map[string]func(*Challenge){
		"another domain":  func(c *Challenge) { c.Domain = "evil.example.com" },
		"another address": func(c *Challenge) { c.Address[0]++ },
		"another URI":     func(c *Challenge) { c.URI += "/" },
		"another chain":   func(c *Challenge) { c.ChainID++ },
		"another purpose": func(c *Challenge) { c.Purpose += " And send all." },
	} {
		other := c
		change(&other)
		if _, ok := s.Issued(other, n); ok {
			t.Errorf("%s: got true, want false", name)
		}
	}
	for i := range n {
		other := n
		other[i] ^= 1
		if _, ok := s.Issued(c, other); ok {
			t.Errorf("another byte %d of the nonce: got true, want false", i)
		}
	}
}

// The times of a challenge are those of its nonce, so a client cannot make it last longer.
func TestTimesThatAChallengeClaimsDoNotCount(t *testing.T) {
	s := NewSealer([]byte("a secret"))
	c, n := issued(t, s, example())
	longer := c
	longer.ExpiresAt = c.ExpiresAt.Add(time.Hour)
	got, ok := s.Issued(longer, n)
	if !ok {
		t.Fatal("got false, want true")
	}
	if !got.ExpiresAt.Equal(c.ExpiresAt) {
		t.Errorf("the end: got %v, want %v", got.ExpiresAt, c.ExpiresAt)
	}
	if want := got.IssuedAt.Add(Life); !got.ExpiresAt.Equal(want) {
		t.Errorf("the end: got %v, want %v", got.ExpiresAt, want)
	}
}

func TestTwoChallengesHaveTwoNonces(t *testing.T) {
	s := NewSealer([]byte("a secret"))
	_, first := issued(t, s, example())
	_, second := issued(t, s, example())
	if first == second {
		t.Errorf("the nonces: got %v twice, want two", first)
	}
	if _, err := s.Issue(example(), time.Now(), bytes.NewReader(nil)); err == nil {
		t.Error("without randomness: got no error, want one")
	}
}

func TestANonceHasOneText(t *testing.T) {
	n := Nonce{0: 0xab, 31: 0xcd}
	if got, ok := ParseNonce(n.String()); !ok {
		t.Error("got false, want true")
	} else if got != n {
		t.Errorf("got %v, want %v", got, n)
	}
	for _, text := range []string{"", n.String()[1:], n.String() + "0", strings.ToUpper(n.String()),
		strings.Repeat("g", 64), " " + n.String()[1:]} {
		if got, ok := ParseNonce(text); ok {
			t.Errorf("%q: got %v, want none", text, got)
		}
	}
}
