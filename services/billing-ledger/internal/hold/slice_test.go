package hold

import (
	"errors"
	"fmt"
	"testing"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
)

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestAnOpenSliceIsFoundInAWrappedError(t *testing.T) {
	open := SliceOpen{Account: ids.AccountID{1}, Owner: [16]byte{2}, Address: "a:1"}
	for _, err := range []error{open, &open, fmt.Errorf("admit: %w", open), fmt.Errorf("admit: %w", &open)} {
		got, ok := AsSliceOpen(err)
		equal(t, fmt.Sprintf("%T: found", err), ok, true)
		equal(t, fmt.Sprintf("%T: slice", err), got, open)
	}
	for _, err := range []error{nil, errors.New("other"), (*SliceOpen)(nil)} {
		if got, ok := AsSliceOpen(err); ok {
			t.Errorf("%v: got %+v, want no slice", err, got)
		}
	}
}

func TestOnlyPricesOfVendorsSayThatARequestIsNotPlain(t *testing.T) {
	for _, c := range []struct {
		r    Reservation
		want bool
	}{
		{r: Reservation{Rates: money.Rates{Input: 1, Output: 1, PayoutInput: 1, PayoutOutput: 1}}, want: true},
		{r: Reservation{ZeroPriced: true, Billing: Free}, want: true},
		{r: Reservation{Gateway: true}},
		{r: Reservation{Rates: money.Rates{PayoutCachedInput: 1}}},
	} {
		if got := c.r.MayBePlain(); got != c.want {
			t.Errorf("%+v: got %t, want %t", c.r, got, c.want)
		}
	}
}
