package accrual

import (
	"context"
	"testing"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
)

// rows is a store of n rows of one day, in order.
type rows int

func (n rows) Accruals(_ context.Context, after Place, limit int) ([]Accrual, error) {
	var out []Accrual
	for i := 1; i <= int(n) && len(out) < limit; i++ {
		p := Place{Day: after.Day, Provider: ids.ProviderID{14: byte(i >> 8), 15: byte(i)}}
		if string(p.Provider[:]) > string(after.Provider[:]) {
			out = append(out, Accrual{Place: p})
		}
	}
	return out, nil
}

func TestPagesAreBoundedAndHaveNoGaps(t *testing.T) {
	for _, n := range []rows{0, 1, PageSize, PageSize + 1, 2*PageSize + 5} {
		seen, token := 0, ""
		for page := 0; ; page++ {
			list, next, err := List(t.Context(), n, "2026-01-02", token)
			if err != nil || len(list) > PageSize {
				t.Fatalf("page of %d rows: %v", len(list), err)
			}
			seen += len(list)
			if token = next; token == "" {
				break
			}
		}
		if seen != int(n) {
			t.Errorf("%d of %d rows seen", seen, n)
		}
	}
}

func TestForeignTokensAreRefused(t *testing.T) {
	for _, tc := range []struct{ first, token string }{
		{"yesterday", ""}, {"", ""}, {"2026-01-02", "x"}, {"2026-01-02", "2026-01-02/"},
		{"2026-01-02", Place{Day: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Provider: ids.ProviderID{1}}.token()},
	} {
		if _, _, err := List(t.Context(), rows(1), tc.first, tc.token); !fault.Is(err, fault.InvalidValue) {
			t.Errorf("%+v: %v", tc, err)
		}
	}
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
		if err != nil || again != p {
			t.Fatalf("%q reads as %v, and its token as %v (%v)", token, p, again, err)
		}
	})
}
