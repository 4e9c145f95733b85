package record_test

import (
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/crypto"

	"svc.internal/pkg/fault"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/signer/internal/policy"
	"svc.internal/services/settlement/signer/internal/record"
)

var (
	first  = chain.Hash{1}
	second = chain.Hash{2}
	now    = time.Date(2026, 11, 27, 23, 0, 0, 0, time.UTC)
)

func tx(nonce uint64) policy.Transaction {
	return policy.Transaction{Chain: 254, Key: policy.Payout, Sender: chain.Address{1}, Nonce: nonce}
}

func cancel(nonce uint64) policy.Transaction {
	t := tx(nonce)
	t.Cancel = true
	return t
}

// reasonOf is the reason of a fault, the text of any other error, and empty for none.
func reasonOf(err error) fault.Reason {
	if f, ok := fault.As(err); ok {
		return f.Reason
	}
	if err != nil {
		return fault.Reason(err.Error())
	}
	return ""
}

// unless is a reason where something is not allowed.
func unless(allowed bool, reason fault.Reason) fault.Reason {
	if allowed {
		return ""
	}
	return reason
}

// use moves 10 of at most 100 a day, for fees of 5 of at most 50.
func use() policy.Use {
	return policy.Use{
		Amount: chain.NewAmount(10), Capped: true, Cap: policy.Cap{Day: chain.NewAmount(100)},
		Fee: chain.NewAmount(5), FeesCap: policy.Cap{Day: chain.NewAmount(50)},
	}
}

// signed is the history after the nonce 7 was signed with the first content.
func signed(change ...func(*record.History)) record.History {
	h := record.History{Now: now, Any: true, Highest: 7, Content: first, Ceiling: chain.NewAmount(5)}
	for _, f := range change {
		f(&h)
	}
	return h
}

// fresh is the history of a nonce that has nothing yet, where 7 is the highest.
func fresh(change ...func(*record.History)) record.History {
	return signed(append([]func(*record.History){func(h *record.History) {
		h.Content, h.Ceiling = chain.Hash{}, chain.Amount{}
	}}, change...)...)
}

func TestANonceHasOneContentAndOneCancel(t *testing.T) {
	t.Parallel()
	cancelled := func(h *record.History) { h.Cancelled = true }
	for name, tc := range map[string]struct {
		tx      policy.Transaction
		hash    chain.Hash
		history record.History
		want    fault.Reason
		isNew   bool
	}{
		"a new one":                           {tx(8), first, fresh(), "", true},
		"the same again":                      {tx(7), first, signed(), "", false},
		"another content":                     {tx(7), second, signed(), fault.NonceUsed, false},
		"a cancel beside a content":           {cancel(7), second, signed(), "", true},
		"the cancel again":                    {cancel(7), second, signed(cancelled), "", false},
		"the content after the cancel":        {tx(7), first, signed(cancelled), "", false},
		"another content after the cancel":    {tx(7), second, signed(cancelled), fault.NonceUsed, false},
		"a cancel of nothing":                 {cancel(8), second, fresh(), "", true},
		"a content after a cancel of nothing": {tx(7), first, fresh(cancelled), fault.NonceUsed, false},
	} {
		entry, err := record.Decide(tc.tx, use(), tc.hash, tc.history)
		if reasonOf(err) != tc.want {
			t.Errorf("%s: got the error %v, want %q", name, err, tc.want)
		}
		if entry.Nonce != tc.isNew {
			t.Errorf("%s: got a new row %t, want %t", name, entry.Nonce, tc.isNew)
		}
	}
}

func TestANonceIsNotFarAheadAndNotBelowTheFirst(t *testing.T) {
	t.Parallel()
	nothing := record.History{Now: now}
	deposit := func(nonce uint64) policy.Transaction {
		t := tx(nonce)
		t.Key = policy.Deposit
		return t
	}
	for name, tc := range map[string]struct {
		tx      policy.Transaction
		first   uint64
		history record.History
		want    bool
	}{
		"the next":                           {tx(8), 0, fresh(), true},
		"sixteen ahead":                      {tx(23), 0, fresh(), true},
		"seventeen ahead":                    {tx(24), 0, fresh(), false},
		"a gap below the highest":            {tx(3), 0, fresh(), true},
		"the first of all":                   {tx(0), 0, nothing, true},
		"sixteen at once":                    {tx(15), 0, nothing, true},
		"seventeen at once":                  {tx(16), 0, nothing, false},
		"a used key without a setting":       {tx(5000), 0, nothing, false},
		"a used key at its setting":          {tx(5000), 5000, nothing, true},
		"a used key below its setting":       {tx(4999), 5000, nothing, false},
		"a setting above the record":         {tx(100), 100, fresh(), true},
		"below a setting above the record":   {tx(8), 100, fresh(), false},
		"a cancel far ahead":                 {cancel(24), 0, fresh(), false},
		"the largest number":                 {tx(1<<63 - 2), 0, fresh(), false},
		"a deposit address of which nothing": {deposit(5000), 0, nothing, true},
		"a deposit address far ahead":        {deposit(24), 0, fresh(), false},
	} {
		u := use()
		u.First = tc.first
		_, err := record.Decide(tc.tx, u, first, tc.history)
		if reasonOf(err) != unless(tc.want, fault.NonceGap) {
			t.Errorf("%s: got the error %v, want it allowed: %t", name, err, tc.want)
		}
	}
	u := use()
	u.First = 100
	if _, err := record.Decide(tx(7), u, first, signed()); err != nil {
		t.Errorf("what was signed before the setting rose: got the error %v, want none", err)
	}
}

func TestADayIsCappedAndARepeatIsNotCountedTwice(t *testing.T) {
	t.Parallel()
	moved := func(n uint64) func(*record.History) {
		return func(h *record.History) { h.Moved = chain.NewAmount(n) }
	}
	fees := func(n uint64) func(*record.History) {
		return func(h *record.History) { h.Fees = chain.NewAmount(n) }
	}
	bumped := use()
	bumped.Fee = chain.NewAmount(8)
	uncapped := use()
	uncapped.Capped = false
	for name, tc := range map[string]struct {
		tx       policy.Transaction
		use      policy.Use
		history  record.History
		want     bool
		increase uint64
	}{
		"the last of the day":              {tx(8), use(), fresh(moved(90)), true, 5},
		"one too much":                     {tx(8), use(), fresh(moved(91)), false, 0},
		"a repeat on a full day":           {tx(7), use(), signed(moved(100), fees(50)), true, 0},
		"the treasury on a full day":       {tx(8), uncapped, fresh(moved(100)), true, 5},
		"the last fees of the day":         {tx(8), use(), fresh(fees(45)), true, 5},
		"fees above the day's":             {tx(8), use(), fresh(fees(46)), false, 0},
		"a bump counts its increase":       {tx(7), bumped, signed(fees(47)), true, 3},
		"a bump above the day's":           {tx(7), bumped, signed(fees(48)), false, 0},
		"a cancel counts its increase":     {cancel(7), bumped, signed(fees(47)), true, 3},
		"a cancel that is cheaper is free": {cancel(7), use(), signed(fees(50)), true, 0},
	} {
		u := tc.use
		if tc.tx.Cancel {
			u.Amount, u.Capped = chain.Amount{}, false
		}
		entry, err := record.Decide(tc.tx, u, first, tc.history)
		if reasonOf(err) != unless(tc.want, fault.CapExceeded) {
			t.Errorf("%s: got the error %v, want it allowed: %t", name, err, tc.want)
		}
		if entry.Increase != chain.NewAmount(tc.increase) {
			t.Errorf("%s: got %s more fees, want %d", name, entry.Increase, tc.increase)
		}
	}
	_, err := record.Decide(tx(8), use(), first, fresh(moved(91)))
	f, ok := fault.As(err)
	if !ok {
		t.Fatalf("got the error %v, want a fault", err)
	}
	if f.RetryAfter != time.Hour {
		t.Errorf("the wait at 23:00: got %v, want an hour", f.RetryAfter)
	}
}

func TestASumThatOverflowsIsAboveTheCap(t *testing.T) {
	t.Parallel()
	top := [32]byte{}
	for i := range top {
		top[i] = 0xff
	}
	u := use()
	u.Amount, _ = chain.AmountOf(top[:])
	u.Cap.Day = u.Amount
	h := fresh(func(h *record.History) { h.Moved = chain.NewAmount(1) })
	if _, err := record.Decide(tx(8), u, first, h); !fault.Is(err, fault.CapExceeded) {
		t.Errorf("got the error %v, want %s", err, fault.CapExceeded)
	}
}

func TestACallHashNamesAllButTheFees(t *testing.T) {
	t.Parallel()
	base := policy.Transaction{Chain: 254, Sender: chain.Address{1}, Nonce: 3, To: chain.Address{2},
		Value: chain.NewAmount(4), Data: []byte{5}, Gas: 6, MaxFee: chain.NewAmount(7), MaxPriorityFee: chain.NewAmount(8)}
	var bytes []byte
	bytes = append(bytes, 0, 0, 0, 0, 0, 0, 0, 254)
	bytes = append(bytes, base.Sender[:]...)
	bytes = append(bytes, 0, 0, 0, 0, 0, 0, 0, 3)
	bytes = append(bytes, base.To[:]...)
	bytes = append(bytes, make([]byte, 31)...)
	bytes = append(bytes, 4, 5)
	if got, want := record.CallHash(base), chain.Hash(crypto.Keccak256Hash(bytes)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for name, change := range map[string]func(*policy.Transaction){
		"chain": func(t *policy.Transaction) { t.Chain++ }, "sender": func(t *policy.Transaction) { t.Sender[3]++ },
		"nonce": func(t *policy.Transaction) { t.Nonce++ }, "to": func(t *policy.Transaction) { t.To[3]++ },
		"value": func(t *policy.Transaction) { t.Value = chain.NewAmount(5) },
		"data":  func(t *policy.Transaction) { t.Data = []byte{5, 0} },
	} {
		other := base
		change(&other)
		if record.CallHash(other) == record.CallHash(base) {
			t.Errorf("another %s: got the same hash, want another", name)
		}
	}
	dearer := base
	dearer.Gas, dearer.MaxFee, dearer.MaxPriorityFee = 60, chain.NewAmount(70), chain.NewAmount(80)
	if record.CallHash(dearer) != record.CallHash(base) {
		t.Error("with other fees: got another hash, want the same")
	}
}
