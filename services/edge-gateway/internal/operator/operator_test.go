package operator

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"

	"svc.internal/services/edge-gateway/internal/apierror"
)

const (
	first  = "0123456789abcdef0123456789abcdef"
	second = "fedcba9876543210fedcba9876543210"
	third  = "the-third-token-is-long-enough-as-well"
)

func bearer(token string) http.Header {
	return http.Header{"Authorization": []string{"Bearer " + token}}
}

var here = netip.MustParseAddr("192.0.2.7")

func TestEveryFaultOfTheListIsReportedAtOnceAndNoTokenIsShown(t *testing.T) {
	short := "hunter2-is-short"
	_, err := Parse("alice:" + first + ",bob:" + short + ",Carol:" + second + ",justatoken" + third + ",dave:" + first +
		",eve:" + strings.Repeat("e", 31) + "\u00e9")
	for _, want := range []string{"entry 2 (bob)", "16 bytes", "entry 3 has a name", "entry 4 is not name:token",
		"entry 5 (dave) has the token of alice", "entry 6 (eve)"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to say %q", err, want)
		}
	}
	for _, secret := range []string{first, short, second, third} {
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("got a token in %v", err)
		}
	}
}

func TestTwoTokensOfOneNameAreARotation(t *testing.T) {
	tokens, err := Parse("alice:" + first + "\n alice:" + second + "\nbob:" + third + "\n")
	if err != nil || tokens.Len() != 3 {
		t.Fatalf("got %d tokens and %v, want 3", tokens.Len(), err)
	}
	gate := NewGate(tokens, clock.System, 30, 16)
	for token, want := range map[string]string{first: "alice", second: "alice", third: "bob"} {
		if got, err := gate.Admit(bearer(token), here); got != want || err != nil {
			t.Errorf("got %q and %v, want %q", got, err, want)
		}
	}
	for _, token := range []string{first[:31], first + "0", "alice:" + first, strings.ToUpper(first)} {
		if got, err := gate.Admit(bearer(token), here); !fault.Is(err, fault.InvalidAPIKey) || got != "" {
			t.Errorf("%q: got %q and %v, want %s", token, got, err, fault.InvalidAPIKey)
		}
	}
}

func TestWithoutTokensThereIsNoRoute(t *testing.T) {
	gate := NewGate(Tokens{}, clock.System, 30, 16)
	for _, h := range []http.Header{{}, bearer(first), bearer("")} {
		if _, err := gate.Admit(h, here); !fault.Is(err, apierror.UnknownRoute) {
			t.Errorf("got %v, want %s", err, apierror.UnknownRoute)
		}
	}
}

// stopped is a clock that a test moves.
type stopped struct {
	clock.Clock
	now time.Time
}

func (s *stopped) Now() time.Time { return s.now }

func TestANetworkThatGuessesTokensHasToWaitAndOthersDoNot(t *testing.T) {
	tokens, err := Parse("alice:" + first)
	if err != nil {
		t.Fatal(err)
	}
	at := &stopped{Clock: clock.System, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	gate := NewGate(tokens, at, 10, 16)
	refused := 0
	for range 1000 {
		if _, err := gate.Admit(bearer(second), here); fault.Is(err, fault.RateLimitExceeded) {
			refused++
		}
	}
	// A minute's guesses, and two thirds as many for a network that has to wait.
	if looked := 1000 - refused; looked > 20 {
		t.Errorf("got %d guesses compared at one moment, want at most 20", looked)
	}
	if _, err := gate.Admit(bearer(first), here); !fault.Is(err, fault.RateLimitExceeded) {
		t.Errorf("got %v for the right token from the guessing network, want %s", err, fault.RateLimitExceeded)
	}
	if name, err := gate.Admit(bearer(first), netip.MustParseAddr("198.51.100.1")); name != "alice" || err != nil {
		t.Errorf("got %q and %v from another network, want alice", name, err)
	}
	at.now = at.now.Add(time.Minute)
	if name, err := gate.Admit(bearer(first), here); name != "alice" || err != nil {
		t.Errorf("got %q and %v a minute later, want alice", name, err)
	}
}

func TestOnlyItsOwnHostsReachTheOperatorsListener(t *testing.T) {
	hosts := NewHosts("ops.example, Console.Example")
	for host, want := range map[string]bool{
		"127.0.0.1:8082": true, "127.0.0.1": true, "[::1]:8082": true, "::1": true, "localhost:8082": true, "LOCALHOST": true,
		"ops.example": true, "console.example:443": true,
		"": false, "evil.example": false, "localhost.evil.example:8082": false, "ops.example.": false,
		"127.0.0.1.nip.io": false, "0x7f.1": false,
	} {
		if got := hosts.Check(host) == nil; got != want {
			t.Errorf("%q: got allowed %v, want %v", host, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("alice:" + first + ",alice:" + second)
	f.Add(",,\n:\n a:b")
	f.Fuzz(func(t *testing.T, text string) {
		tokens, err := Parse(text)
		if err != nil {
			return
		}
		for _, token := range tokens.list {
			if !validName(token.name) {
				t.Errorf("got the name %q", token.name)
			}
		}
	})
}
