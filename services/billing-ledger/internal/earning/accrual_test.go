package earning

import (
	"context"
	"testing"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
)

// rows is a store of n rows of one day, in order.
type rows int

func (n rows) Accruals(_ context.Context, after AccrualCursor, limit int) ([]Accrual, error) {
	var out []Accrual
	for i := 1; i <= int(n) && len(out) < limit; i++ {
		p := AccrualCursor{Day: after.Day, Provider: ids.ProviderID{14: byte(i >> 8), 15: byte(i)}}
		if string(p.Provider[:]) > string(after.Provider[:]) {
			out = append(out, Accrual{AccrualCursor: p})
		}
	}
	return out, nil
}

func TestPagesAreBoundedAndHaveNoGaps(t *testing.T) {
	for _, n := range []rows{0, 1, AccrualPage, AccrualPage + 1, 2*AccrualPage + 5} {
		seen, token := 0, ""
		for page := 0; ; page++ {
			list, next, err := ListAccruals(t.Context(), n, "2026-01-02", token)
			if err != nil {
				t.Fatalf("got the error %v, want none", err)
			}
			if len(list) > AccrualPage {
				t.Fatalf("page: got %d, want at most %d", len(list), AccrualPage)
			}
			seen += len(list)
			if token = next; token == "" {
				break
			}
		}
		if seen != int(n) {
			t.Errorf("of %d rows seen: got %d, want %d", n, seen, int(n))
		}
	}
}

func TestForeignTokensAreRefused(t *testing.T) {
	for _, tc := range []struct{ first, token string }{
		{"yesterday", ""}, {"", ""}, {"2026-01-02", "x"}, {"2026-01-02", "2026-01-02/"},
		{"2026-01-02", AccrualCursor{Day: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Provider: ids.ProviderID{1}}.token()},
	} {
		if _, _, err := ListAccruals(t.Context(), rows(1), tc.first, tc.token); !fault.Is(err, fault.InvalidValue) {
			t.Errorf("%+v: got the error %v, want the reason %v", tc, err, fault.InvalidValue)
		}
	}
}

// settledRows is a store of n requests that were settled one microsecond after
// the other.
type settledRows int

var began = time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)

func (n settledRows) SettledAfter(
	_ context.Context, after SettledCursor, _ time.Duration, limit int,
) ([]Settled, error) {
	var out []Settled
	for i := 0; i < int(n) && len(out) < limit; i++ {
		m := SettledCursor{At: began.Add(time.Duration(i) * time.Microsecond), Request: ids.RequestID{15: 1}}
		if m.At.After(after.At) || m.At.Equal(after.At) && after.Request.IsZero() {
			out = append(out, Settled{SettledCursor: m})
		}
	}
	return out, nil
}

func TestSettledPagesAreBoundedAndHaveNoGaps(t *testing.T) {
	for _, n := range []settledRows{0, 1, SettledPage, SettledPage + 1, 2*SettledPage + 5} {
		seen, watermark, more := 0, "", true
		for more {
			var rows []Settled
			var err error
			if rows, watermark, more, err = ListSettled(t.Context(), n, began, watermark, 0); err != nil ||
				len(rows) > SettledPage {
				t.Fatalf("got a page of %d rows and %v, want at most %d", len(rows), err, SettledPage)
			}
			seen += len(rows)
		}
		if seen != int(n) {
			t.Errorf("got %d rows, want %d", seen, n)
		}
		if rows, again, _, err := ListSettled(t.Context(), n, time.Time{}, watermark, 0); err != nil || len(rows) != 0 ||
			again != watermark {
			t.Errorf("behind the last of %d: got %d rows, watermark %q and %v, want none and %q", n, len(rows), again, err,
				watermark)
		}
	}
}

func TestForeignWatermarksAreRefused(t *testing.T) {
	for name, call := range map[string]func() error{
		"no time": func() error {
			_, _, _, err := ListSettled(t.Context(), settledRows(1), time.Time{}, "", 0)
			return err
		},
		"negative age": func() error { _, _, _, err := ListSettled(t.Context(), settledRows(1), began, "", -1); return err },
		"not a time":   func() error { _, _, _, err := ListSettled(t.Context(), settledRows(1), began, "x", 0); return err },
		"no request": func() error {
			_, _, _, err := ListSettled(t.Context(), settledRows(1), began, "1767312000000000/", 0)
			return err
		},
		"out of all age": func() error {
			_, _, _, err := ListSettled(t.Context(), settledRows(1), began, "9223372036854775807", 0)
			return err
		},
	} {
		if err := call(); !fault.Is(err, fault.InvalidValue) {
			t.Errorf("%s: got %v, want %s", name, err, fault.InvalidValue)
		}
	}
}

func FuzzWatermark(f *testing.F) {
	f.Add("1767312000000000/018f0000-0000-7000-8000-000000000001")
	f.Add("1767312000000000")
	f.Fuzz(func(t *testing.T, token string) {
		m, err := parseMark(token)
		if err != nil {
			return
		}
		again, err := parseMark(m.token())
		if err != nil {
			t.Fatalf("%q reads: got the error %v, want none", token, err)
		}
		if again != m {
			t.Fatalf("%q reads: again: got %+v, want %+v", token, again, m)
		}
	})
}

func FuzzPageToken(f *testing.F) {
	f.Add("2026-01-02/018f0000-0000-7000-8000-000000000001")
	f.Add("2026-01-02")
	f.Fuzz(func(t *testing.T, token string) {
		p, err := parseToken(token)
		if err != nil {
			return
		}
		again, err := parseToken(p.token())
		if err != nil {
			t.Fatalf("%q reads: got the error %v, want none", token, err)
		}
		if again != p {
			t.Fatalf("%q reads: again: got %+v, want %+v", token, again, p)
		}
	})
}
