package user

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/pkg/fault"
)

func made(t testing.TB, password string) Hash {
	t.Helper()
	h, err := hash(password, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestAHashMatchesItsPasswordAloneAndIsKeptAsText(t *testing.T) {
	const password = "correct horse"
	h := made(t, password)
	if !strings.HasPrefix(h.Text(), "$argon2id$v=19$m=19456,t=2,p=1$") {
		t.Errorf("it is kept as %s", h.Text())
	}
	kept, err := ParseHash(h.Text())
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{password: true, "correct horsf": false, "": false, password + "\x00": false} {
		if got, err := kept.matches(text); err != nil || got != want {
			t.Errorf("%q matches: %v, %v", text, got, err)
		}
	}
	if other := made(t, password); other.Text() == h.Text() {
		t.Error("two hashes of a password are alike")
	}
	if ok, err := nobody().matches(password); ok || err != nil {
		t.Errorf("the hash of nobody matches: %v, %v", ok, err)
	}
	if _, err := (Hash{}).matches(""); err == nil {
		t.Error("no hash matches")
	}
}

// TestAKnownHashIsRecognised has the one that the reference command makes of
// `echo -n password | argon2 somesalt -id -t 2 -m 6 -p 1 -l 24`.
func TestAKnownHashIsRecognised(t *testing.T) {
	h, err := ParseHash("$argon2id$v=19$m=64,t=2,p=1$c29tZXNhbHQ$Bo1ismRVk2qm6+YAYLCmWHDb+j3fjUH3")
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := h.matches("password"); err != nil || !ok {
		t.Errorf("%v, %v", ok, err)
	}
}

func TestWhatAsksForTooMuchIsNoHash(t *testing.T) {
	good := made(t, "correct horse").Text()
	for _, text := range []string{
		"", "secret", good + "$", good + "=", good[:len(good)-40], strings.Replace(good, "v=19", "v=18", 1), strings.Replace(good, "argon2id", "argon2i", 1),
		strings.Replace(good, "m=19456", "m=262145", 1), strings.Replace(good, "m=19456", "m=4294967296", 1), strings.Replace(good, "m=19456", "m=7", 1),
		strings.Replace(good, "t=2", "t=0", 1), strings.Replace(good, "t=2", "t=17", 1), strings.Replace(good, "p=1", "p=0", 1), strings.Replace(good, "p=1", "p=9", 1),
		strings.Replace(good, "m=19456", "m=019456", 1), strings.Replace(good, "m=19456", "m=-1", 1),
		"$argon2id$v=19$m=19456,t=2,p=1$$", "$argon2id$v=19$m=19456,t=2,p=1$" + strings.Repeat("A", 400) + "$" + strings.Repeat("A", 43),
	} {
		if _, err := ParseHash(text); err == nil {
			t.Errorf("%.80s is a hash", text)
		}
	}
}

func FuzzAHashIsReadAsItIsKept(f *testing.F) {
	f.Add(nobody().Text())
	f.Add("$argon2id$v=19$m=65536,t=2,p=4$c29tZXNhbHQ$RdescudvJCsgt3ub+b3dWRWJTmaaJObG")
	f.Add("$argon2id$v=19$m=8,t=1,p=1$$")
	f.Fuzz(func(t *testing.T, text string) {
		h, err := ParseHash(text)
		if err == nil && (h.Text() != text || h.memoryKiB > maxMemoryKiB || h.passes > maxPasses || len(h.sum) == 0) {
			t.Errorf("%q is %+v, kept as %q", text, h, h.Text())
		}
	})
}

func TestTwoAreHashedAtATimeAndSoManyMoreWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPasswords()
		goOn := make(chan struct{})
		var at, done, refused atomic.Int32
		for range working + waiting + 3 {
			go func() {
				switch err := p.do(t.Context(), anyNetwork, func() error {
					at.Add(1)
					<-goOn
					at.Add(-1)
					return nil
				}); {
				case err == nil:
					done.Add(1)
				case fault.Is(err, fault.ServiceUnavailable):
					refused.Add(1)
				default:
					t.Error(err)
				}
			}()
		}
		synctest.Wait()
		if a, r := at.Load(), refused.Load(); a != 2 || r != 3 {
			t.Errorf("%d at a time and %d refused, want 2 and 3", a, r)
		}
		close(goOn)
		synctest.Wait()
		if d := done.Load(); d != working+waiting {
			t.Errorf("%d are done", d)
		}
	})
}

func TestWhoWaitsForAPlaceTooLongIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPasswords()
		goOn := make(chan struct{})
		defer close(goOn)
		for range working {
			go func() { _ = p.do(t.Context(), anyNetwork, func() error { <-goOn; return nil }) }()
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := p.do(ctx, anyNetwork, func() error { t.Error("it ran without a place"); return nil })
		if f, ok := fault.As(err); !ok || f.Kind != fault.Unavailable || f.RetryAfter <= 0 {
			t.Errorf("without a place: %v", err)
		}
	})
}

// Seventy who sign in from one network at once leave room for everybody else.
func TestOneNetworkTakesNobodyElsesPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPasswords()
		goOn := make(chan struct{})
		var refused, served atomic.Int32
		from := func(network byte) {
			err := p.do(t.Context(), Digest{network}, func() error { <-goOn; return nil })
			switch {
			case err == nil:
				served.Add(1)
			case fault.Is(err, fault.ServiceUnavailable):
				refused.Add(1)
			}
		}
		for range 70 {
			go from(1)
		}
		synctest.Wait()
		if got := refused.Load(); got != 70-ofANetwork {
			t.Errorf("got %d of 70 from one network refused, want %d", got, 70-ofANetwork)
		}
		go from(2)
		synctest.Wait()
		if got := refused.Load(); got != 70-ofANetwork {
			t.Error("somebody from another network is refused, too")
		}
		close(goOn)
		synctest.Wait()
		if got := served.Load(); got != ofANetwork+1 || len(p.networks) != 0 {
			t.Errorf("got %d served, and %d networks that are remembered, want %d and none", got, len(p.networks), ofANetwork+1)
		}
	})
}

func TestSecretsDoNotPrint(t *testing.T) {
	token, err := NewToken(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	h := made(t, "correct horse")
	in, o := SignedIn{Token: token}, Opening{Password: h}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		text := fmt.Sprintf(verb+verb+verb+verb, token, h, in, o)
		if strings.Contains(text, token.Reveal()) || strings.Contains(text, h.Text()) || strings.Contains(text, fmt.Sprintf("%x", token.Reveal())) {
			t.Errorf("%s prints a secret: %s", verb, text)
		}
	}
}

func TestATokenHas256RandomBits(t *testing.T) {
	a, errA := NewToken(rand.Reader)
	b, errB := NewToken(rand.Reader)
	if errA != nil || errB != nil || a.Reveal() == b.Reveal() || a.Digest() == b.Digest() || len(a.Reveal()) != 43 {
		t.Errorf("%d and %d characters, %v, %v", len(a.Reveal()), len(b.Reveal()), errA, errB)
	}
	if _, err := NewToken(strings.NewReader("short")); err == nil {
		t.Error("a token of less")
	}
}

func TestOfTenFailedAttemptsTheFirstMakesRoomForTheNext(t *testing.T) {
	start := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	at := func(minutes int, network byte) Attempt {
		return Attempt{start.Add(time.Duration(minutes) * time.Minute), Digest{network}}
	}
	var made []Attempt
	var err error
	for i := range MaxAttempts {
		if made, err = Try(made, at(i, 1)); err != nil || len(made) != i+1 {
			t.Fatalf("attempt %d: %d count, %v", i+1, len(made), err)
		}
	}
	_, err = Try(made, at(10, 1))
	if f, ok := fault.As(err); !ok || f.Kind != fault.Exhausted || f.Reason != fault.RateLimitExceeded || f.RetryAfter != 5*time.Minute {
		t.Errorf("the eleventh: %v", err)
	}
	if other, err := Try(made, at(10, 2)); err != nil || len(other) != MaxAttempts+1 {
		t.Errorf("from another network: %v", err)
	}
	if again, err := Try(made, at(15, 1)); err != nil || len(again) != MaxAttempts || !again[0].At.Equal(start.Add(time.Minute)) {
		t.Errorf("when the first is over: %v, %v", again, err)
	}
	made = nil
	for i := range MaxAttemptsAnywhere {
		if made, err = Try(made, at(i/10, byte(i))); err != nil {
			t.Fatalf("attempt %d from a network of its own: %v", i+1, err)
		}
	}
	_, err = Try(made, at(10, 255))
	if f, ok := fault.As(err); !ok || f.Reason != fault.RateLimitExceeded || f.RetryAfter != 5*time.Minute {
		t.Errorf("the hundred and first: %v", err)
	}
}
