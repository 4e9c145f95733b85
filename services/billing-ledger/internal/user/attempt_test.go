package user

import (
	"math"
	"testing"
	"time"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/fault"
)

// guess tries without a pause for a span of time and returns how many attempts
// there was room for.
func guess(t *testing.T, known bool, span time.Duration) (taken int) {
	t.Helper()
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	end := now.Add(span)
	later := func(at time.Time) time.Time {
		if at.Before(now) {
			return now
		}
		return at
	}
	var c Counts
	for now.Before(end) {
		err := c.Room(known, now)
		if err == nil {
			taken++
			c.Network = later(c.Network).Add(NetworkPace.Interval)
			c.Strangers = later(c.Strangers).Add(StrangersPace.Interval)
			if !known {
				c.Network = time.Time{} // each comes from a network of its own
			}
			continue
		}
		f, ok := fault.As(err)
		switch {
		case !ok:
			t.Fatalf("got the error %v, want a fault", err)
		case f.Kind != fault.Exhausted:
			t.Fatalf("f.Kind: got %d, want %d", f.Kind, fault.Exhausted)
		case f.Reason != fault.RateLimitExceeded:
			t.Fatalf("f.Reason: got %q, want %q", f.Reason, fault.RateLimitExceeded)
		case f.RetryAfter <= 0 || f.RetryAfter >= time.Minute:
			t.Fatalf("f.RetryAfter: got %v, want more than 0 and less than %v", f.RetryAfter, time.Minute)
		}
		if early := c.Room(known, now.Add(f.RetryAfter-1)); early == nil {
			t.Fatalf("told to wait %v, got room before", f.RetryAfter)
		}
		now = now.Add(f.RetryAfter)
	}
	return taken
}

func TestWhoGuessesWithoutAPauseTriesAsManyPasswordsAsIsWritten(t *testing.T) {
	const day = 24 * time.Hour
	for _, c := range []struct {
		known bool
		span  time.Duration
		want  int
	}{
		{true, day, 2_170 - 1}, {true, 2 * day, 2_170 + 2_160 - 1}, {false, day, 2_500 - 1},
		{false, 2 * day, 2_500 + 2_400 - 1},
	} {
		if got := guess(t, c.known, c.span); got != c.want {
			t.Errorf("known %v, within %v: got %d attempts, want %d", c.known, c.span, got, c.want)
		}
	}
	year := 365 * 24 * time.Hour
	strangers, network := int(year/StrangersPace.Interval)+StrangersPace.AtOnce,
		int(year/NetworkPace.Interval)+NetworkPace.AtOnce
	for want, tried := range map[float64]int{8e-7: strangers, 7e-6: strangers + MaxNetworks*network} {
		if got := float64(tried) / math.Pow(2, 40); got > want || got < want*0.9 {
			t.Errorf("of 2^40 passwords: got %g tried within a year, want about %g", got, want)
		}
	}
}

func TestAKnownNetworkHasRoomWhenStrangersHaveNone(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	c := Counts{Strangers: now.Add(time.Duration(StrangersPace.AtOnce) * StrangersPace.Interval)}
	if err := c.Room(false, now); !fault.Is(err, fault.RateLimitExceeded) {
		t.Errorf("a stranger: got %v, want a refusal", err)
	}
	if err := c.Room(true, now); err != nil {
		t.Errorf("from a known network: got %v, want room", err)
	}
	if err := c.Room(false, now.Add(time.Minute)); err != nil {
		t.Errorf("a stranger, a minute after the last guess: got %v, want room", err)
	}
}

func TestAMarkTellsNothingOfANetworkWithoutThePepper(t *testing.T) {
	users := Users{Peppers: apikey.Only(apikey.Pepper{1})}
	mark := users.mark("ada@example.com", "net")
	other := Users{Peppers: apikey.Only(apikey.Pepper{2})}
	for what, got := range map[string]Digest{
		"another user": users.mark("eve@example.com", "net"), "another network": users.mark("ada@example.com", "not"),
		"another pepper": other.mark("ada@example.com", "net"), "what is kept in memory": origin("net"),
	} {
		if got == mark {
			t.Errorf("%s: got the same mark: got %v, want any but %v", what, got, mark)
		}
	}
	if again := users.mark("ada@example.com", "net"); again != mark {
		t.Error("got another mark for the same network, want the same")
	}
}
