package earning

import (
	"context"
	"testing"
	"time"

	"svc.internal/pkg/fault"
)

// noDays has no sealed day.
type noDays struct{}

func (noDays) SealedChanges(context.Context, time.Time, ChangeCursor, int) ([]Change, []byte, error) {
	return nil, nil, ErrDayOpen
}

func (noDays) SealedBalances(context.Context, time.Time, BalanceCursor, int) ([]SealedBalance, error) {
	return nil, ErrDayOpen
}

func FuzzTokensOfSealedDaysAreReadOrRefused(f *testing.F) {
	for _, token := range []string{"", "1/1770000000000000/00112233445566778899aabbccddeeff/3",
		"l:provider:accrued/018f0000-0000-7000-8000-000000000001/", "////", "9/9/9/9", "-1/0//0"} {
		f.Add(token)
	}
	f.Fuzz(func(t *testing.T, token string) {
		_, _, _, err := ListSealed(t.Context(), noDays{}, "2026-03-04", token)
		if !fault.Is(err, fault.DayOpen) && !fault.Is(err, fault.InvalidValue) {
			t.Errorf("changes after %q: got the error %v", token, err)
		}
		_, _, err = ListSealedBalances(t.Context(), noDays{}, "2026-03-04", token)
		if !fault.Is(err, fault.DayOpen) && !fault.Is(err, fault.InvalidValue) {
			t.Errorf("balances after %q: got the error %v", token, err)
		}
		c, err := parseChangeToken(token)
		if err != nil || token == "" {
			return
		}
		again, err := parseChangeToken(c.token())
		if err != nil {
			t.Fatalf("%q written again: %v", token, err)
		}
		if again != c {
			t.Errorf("%q written again: got %+v, want %+v", token, again, c)
		}
	})
}

func TestOnlyDaysAreListed(t *testing.T) {
	for _, day := range []string{"", "2026-3-4", "2026-03-32", "1999-12-31", "today"} {
		if _, _, _, err := ListSealed(t.Context(), noDays{}, day, ""); !fault.Is(err, fault.InvalidValue) {
			t.Errorf("%q: got the error %v, want the reason %s", day, err, fault.InvalidValue)
		}
	}
}
