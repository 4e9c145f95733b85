package auditor

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestASettledWorldIsClean(t *testing.T) {
	t.Parallel()
	r := mustAudit(t, newSettled(), Options{})
	wantClean(t, r)
	want := []Count{
		{"assets whose reserves were counted", 1}, {"contracts whose positions were summed", 1},
		{"days whose batches were computed", 1}, {"months whose pool was divided", 1}, {"payouts that were judged", 2},
		{"payouts that were never received", 1}, {"payouts that were received once", 1}, {"shares that were computed", 2},
	}
	if !slices.Equal(r.Settlement, want) {
		t.Errorf("got %v, want %v", r.Settlement, want)
	}
}

func TestWithoutChainsPaymentsAreNotLookedFor(t *testing.T) {
	t.Parallel()
	f := newSettled()
	f.chains = nil
	wantClean(t, mustAudit(t, f, Options{}))
}

// A row of settlement that is of the wrong form is refused, with its table.
func TestABrokenRowOfSettlementIsRefused(t *testing.T) {
	t.Parallel()
	for table, spoil := range map[string]row{
		"batch_share": {"beneficiary": `\x00`}, "batch": {"root": "0x"}, "payout": {"amount": 1.5},
		"chain_call": {"value": strings.Repeat("9", maxDigits+1)}, "batch_line": {"kind": "gift"},
		"signed_tx": {"hash": `\xzz`}, "position": {"free": "-"}, "call_end": {"nonce": -1},
	} {
		f := newSettled()
		for column, value := range spoil {
			f.earnings[table][0][column] = value
		}
		if _, err := f.texts(t).audit(Options{}); !strings.Contains(fmt.Sprint(err), "table "+table) {
			t.Errorf("%s with %v: got the error %v, want one of the table", table, spoil, err)
		}
	}
}

func TestAPoolIsDividedByTheLargestRemainder(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pool   int64
		earned []int64
		want   []int64
	}{
		{100, []int64{1, 1, 1}, []int64{1, 1, 1}},
		{2, []int64{1, 1, 1}, []int64{1, 1, 0}},
		{10, []int64{7, 5, 3}, []int64{5, 3, 2}},
		{0, []int64{7, 5}, []int64{0, 0}},
		{1 << 61, []int64{1 << 61, 1<<61 - 1}, []int64{1 << 60, 1 << 60}},
	} {
		shares, total := map[id]*planShare{}, wide{}
		for i, n := range c.earned {
			shares[id{byte(i + 1)}] = &planShare{earned: n}
			total = total.plus(n)
		}
		divide(wideOf(c.pool), total, shares)
		for i, want := range c.want {
			if got := shares[id{byte(i + 1)}].paid; got != want {
				t.Errorf("a pool of %d over %v, share %d: got %d, want %d", c.pool, c.earned, i, got, want)
			}
		}
	}
}
