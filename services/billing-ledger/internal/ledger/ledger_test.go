package ledger

import (
	"math"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
)

var (
	consumer = ids.AccountID{1}
	provider = ids.ProviderID{2}
	quote    = Quote{Token: Native, Rate: 123_456_789, Source: "feed", At: time.Unix(1_770_000_000, 0)}
)

// coins is a sum of the native token at the price of quote, and usdc one of USDC.
func coins(units Units) Sum { return Sum{Native, units, &quote} }

func usdc(units Units) Sum { return Sum{Token: USDCBase, Units: units} }

func newFact(businessID string) Fact { return Fact{ID: ids.EntryID{9}, BusinessID: businessID} }

func TestEntriesOfTheBusinessBalanceUpToTheBound(t *testing.T) {
	for _, amount := range []money.NanoUSD{1, money.USD, MaxAmount} {
		for name, e := range map[string]Entry{
			"grant":  Grant(ids.EntryID{1}, consumer, amount, "key", "memo"),
			"orphan": Orphan(ids.EntryID{1}, ids.RequestID{2}, provider, amount),
		} {
			if err := e.Validate(); err != nil {
				t.Errorf("%s of %d: %v", name, amount, err)
			}
		}
	}
}

func TestNoSumOfLegsCanWrap(t *testing.T) {
	if int64(MaxAmount) > math.MaxInt64/MaxLegs {
		t.Errorf("as many legs as there may be, of the largest amount: got %d, want at most %d",
			int64(MaxAmount), math.MaxInt64/MaxLegs)
	}
}

func TestUnbalancedEntriesAreRefused(t *testing.T) {
	leg := func(amount money.NanoUSD) Posting { return credit(Goodwill, nobody, amount) }
	many := make([]Posting, MaxLegs+2)
	for i := range many {
		many[i] = leg(1 - money.NanoUSD(i%2)*2)
	}
	for name, postings := range map[string][]Posting{
		"none": {}, "one leg": {leg(0)}, "zero legs": {leg(0), leg(0)}, "unequal": {leg(-5), leg(6)},
		"too large":           {leg(MaxAmount + 1), leg(-MaxAmount - 1)},
		"smallest int64":      {leg(math.MinInt64), leg(math.MinInt64)},
		"too many legs":       many,
		"unknown account":     {leg(-5), credit("l:free_money", nobody, 5)},
		"owner missing":       {leg(-5), credit(Available, nobody, 5)},
		"owner too many":      {leg(-5), credit(Goodwill, consumer, 5)},
		"book missing":        {leg(-5), credit(PlanPool, nobody, 5)},
		"book of no month":    {leg(-5), credit(PlanPool, nobody, 5).in("2026-13")},
		"book too many":       {leg(-5), credit(Available, consumer, 5).in("2026-12")},
		"book of no token":    {leg(-5), credit(Crypto, nobody, 5).in("8453:doge")},
		"book of no chain":    {leg(-5), credit(Custody, nobody, 5).in("0453")},
		"unknown asset":       {leg(-5).tokens("doge"), leg(5).tokens("doge")},
		"two assets, crossed": {leg(-5), credit(Treasury, nobody, 5).tokens(Native)},
	} {
		if err := (Entry{Kind: GoodwillGrant, BusinessID: "x", Postings: postings}).Validate(); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	sound := []Posting{leg(-5), credit(Available, consumer, 5)}
	for name, e := range map[string]Entry{
		"no business id":   {Kind: GoodwillGrant, Postings: sound},
		"long business id": {Kind: GoodwillGrant, BusinessID: strings.Repeat("x", MaxBusinessID+1), Postings: sound},
		"long memo": {Kind: GoodwillGrant, BusinessID: "x", Memo: strings.Repeat("x", MaxMemo+1),
			Postings: sound},
		"reversal of nothing":     {Kind: Reversal, BusinessID: "x", Postings: sound},
		"reverses, but is no one": {Kind: GoodwillGrant, BusinessID: "x", Reverses: ids.EntryID{1}, Postings: sound},
	} {
		if err := e.Validate(); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestAReversalIsTheExactNegationAndIsNotReversed(t *testing.T) {
	first, err := Deposit(newFact("254/0xab/1"), consumer, coins(5_000_000_001))
	if err != nil {
		t.Fatal(err)
	}
	undone, err := Reverse(ids.EntryID{7}, first, "wrong account")
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case len(undone.Postings) != len(first.Postings):
		t.Fatalf("reversal: len(undone.Postings): got %d, want %d, in %+v", len(undone.Postings), len(first.Postings), undone)
	case undone.Reverses != first.ID:
		t.Fatalf("reversal: undone.Reverses: got %v, want %v", undone.Reverses, first.ID)
	case undone.BusinessID != first.ID.String():
		t.Fatalf("reversal: undone.BusinessID: got %q, want %q", undone.BusinessID, first.ID.String())
	}
	for i, p := range undone.Postings {
		switch {
		case p.Account != first.Postings[i].Account:
			t.Errorf("leg %d: p.Account: got %+v, want %+v", i, p.Account, first.Postings[i].Account)
		case p.Asset != first.Postings[i].Asset:
			t.Errorf("leg %d: p.Asset: got %q, want %q", i, p.Asset, first.Postings[i].Asset)
		case p.Amount != -first.Postings[i].Amount:
			t.Errorf("leg %d: p.Amount: got %v, want %v", i, p.Amount, -first.Postings[i].Amount)
		}
	}
	if _, err := Reverse(ids.EntryID{8}, undone, ""); err == nil {
		t.Error("a reversal is reversed")
	}
	if _, err := Reverse(first.ID, first, ""); err == nil {
		t.Error("an entry reverses itself")
	}
	if _, err := Reverse(ids.EntryID{8}, Entry{Kind: GoodwillGrant}, ""); err == nil {
		t.Error("an entry without an id is reversed")
	}
}

func TestEveryLineOfTheChartIsThereOnce(t *testing.T) {
	seen := map[AccountKind]bool{}
	for _, l := range Chart() {
		if seen[l.Kind] {
			t.Errorf("%s is there twice", l.Kind)
		}
		seen[l.Kind] = true
		if normal := map[byte]Side{'a': Debit, 'e': Debit, 'x': Debit, 'l': Credit, 'r': Credit, 's': Credit,
			'm': l.Normal}[l.Kind[0]]; l.Normal != normal {
			t.Errorf("l.Normal: got %q, want %q", l.Normal, normal)
		}
	}
}

func FuzzBooksMatchOneFormAtMost(f *testing.F) {
	for _, book := range []string{"", "2026-03", "2026-00", "8453", "08", "8453:usdc", "254:native", ":", "99999999999"} {
		f.Add(book)
	}
	f.Fuzz(func(t *testing.T, book string) {
		n := 0
		for _, form := range []BookForm{NoBook, ByMonth, ByChain, ByToken} {
			if form.matches(book) {
				n++
			}
		}
		if n > 1 {
			t.Errorf("%q matches: got %d, want at most 1", book, n)
		}
	})
}
