package ledger

import (
	"math"
	"testing"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
)

func TestEntriesOfTheBusinessBalance(t *testing.T) {
	for _, amount := range []money.NanoUSD{1, money.USD, math.MaxInt64} {
		for name, e := range map[string]Entry{
			"grant":  Grant(ids.EntryID{1}, ids.AccountID{2}, amount, "key", "memo"),
			"orphan": Orphan(ids.EntryID{1}, ids.RequestID{2}, ids.ProviderID{3}, amount),
		} {
			if err := e.Validate(); err != nil {
				t.Errorf("%s of %d: %v", name, amount, err)
			}
		}
	}
}

func TestUnbalancedEntriesAreRefused(t *testing.T) {
	leg := func(amount money.NanoUSD) Posting { return Posting{Account{Kind: Goodwill}, amount} }
	for name, postings := range map[string][]Posting{
		"none": {}, "one leg": {leg(0)}, "zero legs": {leg(0), leg(0)}, "unequal": {leg(-5), leg(6)},
		"wraps": {leg(math.MaxInt64), leg(math.MaxInt64), leg(2)},
	} {
		if err := (Entry{Postings: postings}).Validate(); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
