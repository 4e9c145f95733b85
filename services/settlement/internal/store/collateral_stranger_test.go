package store_test

import (
	"testing"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/payout"
	"svc.internal/services/settlement/internal/position"
	"svc.internal/services/settlement/internal/refund"
	"svc.internal/services/settlement/internal/store"
)

// asked asks for the refund of a provider.
func (m *market) asked(t *testing.T, id ids.ProviderID) refund.Refund {
	t.Helper()
	r, err := m.payers[0].Store.Ask(t.Context(), refund.ID(newID(t)), id)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// goOn lets time pass n times, with a look and a block each time.
func (m *market) goOn(t *testing.T, n int, by time.Duration) {
	t.Helper()
	for range n {
		m.pass(t, by)
		m.chains[chain.Base].mine()
		m.work(0)
		m.work(1)
	}
}

// Anybody may put a cent behind a provider from an address that nobody can pay.
func TestHostile49_ADepositorWhoCannotBePaidHoldsNoRefund(t *testing.T) {
	t.Parallel()
	m := newMarket(t, 1)
	c, id := m.chains[chain.Base], m.providers[0]
	own, strange := holder{subjectOf(id), m.people[0]}, holder{subjectOf(id), m.people[1]}
	c.deposit(own, 40_000_000)
	c.deposit(strange, 1_000_000)
	c.refuses[m.people[1]] = true
	c.mine()
	m.work(0)
	m.asked(t, id)
	m.goOn(t, 17, 12*time.Hour)
	if got := c.at(own).free; got != 0 {
		t.Errorf("the provider's position after 8 days: got %d, want 0", got)
	}
	m.goOn(t, 36, time.Hour)
	if got := m.count(`SELECT count(*) FROM collateral_refund WHERE state = 'paid'`); got != 1 {
		t.Errorf("refunds that are paid: got %d, want 1", got)
	}
	if m.suspended(id, "refund") {
		t.Error("the provider: got a suspension by its refund, want none")
	}
	if got, want := *c.at(strange), (held{free: 1_000_000}); got != want {
		t.Errorf("the position that cannot be paid: got %+v, want %+v", got, want)
	}
	if got := m.count(`SELECT count(*) FROM collateral_refund_part WHERE state = 'cancelled'`); got != 1 {
		t.Errorf("parts that were left out: got %d, want 1", got)
	}
	m.audited(t)
}

// A provider that could end its own refund so would have collateral that it may take away at any time.
func TestHostile49_WhatARefundLeavesBehindWaitsAnewForTheNext(t *testing.T) {
	t.Parallel()
	m := newMarket(t, 1)
	c, id := m.chains[chain.Base], m.providers[0]
	own := holder{subjectOf(id), m.people[0]}
	c.deposit(own, 40_000_000)
	c.refuses[m.people[0]] = true
	c.mine()
	m.work(0)
	m.asked(t, id)
	m.goOn(t, 17, 12*time.Hour)
	m.goOn(t, 36, time.Hour)
	c.refuses[m.people[0]] = false
	if c.executeRefund(own) {
		t.Error("the depositor's own call after the refund has ended: got the money, want a refusal")
	}
	if r := m.asked(t, id); r.State != refund.Asked {
		t.Errorf("the next refund: got %s, want asked", r.State)
	}
	m.goOn(t, 18, 12*time.Hour)
	if got := c.at(own).free; got != 0 {
		t.Errorf("the position after 8 more days: got %d, want 0", got)
	}
}

// Every request costs the platform calls of contracts, and an open one keeps operators' keys busy.
func TestARefundIsAskedForOnceADay(t *testing.T) {
	t.Parallel()
	m := newMarket(t, 1)
	c, id := m.chains[chain.Base], m.providers[0]
	c.deposit(holder{subjectOf(id), m.people[0]}, 40_000_000)
	c.mine()
	m.work(0)
	m.asked(t, id)
	if _, err := m.payers[0].Store.Cancel(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	m.goOn(t, 1, 23*time.Hour)
	if _, err := m.payers[0].Store.Ask(t.Context(), refund.ID(newID(t)), id); !fault.Is(err, fault.RefundBlocked) {
		t.Errorf("the next one after 23 hours: got the error %v, want %s", err, fault.RefundBlocked)
	}
	m.goOn(t, 1, time.Hour)
	if r := m.asked(t, id); r.State != refund.Asked {
		t.Errorf("after a day: got %s, want asked", r.State)
	}
}

// crowd makes providers with 40 dollars each on a chain.
func (m *market) crowd(t *testing.T, n int) []ids.ProviderID {
	t.Helper()
	crowd := make([]ids.ProviderID, n)
	for i := range crowd {
		crowd[i] = provider(t)
		m.chains[chain.Base].deposit(holder{subjectOf(crowd[i]), m.people[0]}, 40_000_000)
	}
	m.chains[chain.Base].mine()
	m.work(0)
	return crowd
}

// penalize opens a penalty of a provider.
func (m *market) penalize(t *testing.T, by int, id ids.ProviderID) error {
	d := draft(t)
	d.ProviderID = id
	_, err := m.keepers[by].Open(t.Context(), d)
	return err
}

func TestHostile49_RefundPayoutAndPenaltyAtOnceComeOneAfterTheOther(t *testing.T) {
	t.Parallel()
	const providers = 16
	m := newMarket(t, 1)
	crowd := m.crowd(t, providers)
	errs := atOnce(3*providers, func(i int) error {
		id, by := crowd[i/3], i%2
		switch (i + i/3) % 3 {
		case 0:
			_, err := m.payers[by].Store.Ask(t.Context(), refund.ID(newID(t)), id)
			return err
		case 1:
			d := payout.Draft{ID: payout.ID(newID(t)), ProviderID: id, Gross: payout.Minimum, Fee: payout.Fee,
				Address: chain.Address{7}}
			_, _, err := store.Payouts{Store: m.stores[by].Store}.Insert(t.Context(), d, operationOf(id, "k"), anyChain)
			return err
		default:
			return m.penalize(t, by, id)
		}
	})
	for i, err := range errs {
		if err != nil && !fault.Is(err, fault.RefundBlocked) && !fault.Is(err, payout.RefundOpen) {
			t.Errorf("call %d: got the error %v, want %s or %s", i, err, fault.RefundBlocked, payout.RefundOpen)
		}
	}
	if n := m.count(`SELECT count(*) FROM collateral_refund r JOIN payout p USING (provider_id)`); n > 0 {
		t.Errorf("providers with a refund and a payout: got %d, want none", n)
	}
	if n := m.count(`SELECT count(*) FROM penalty`); n != providers {
		t.Errorf("penalties: got %d, want %d, because nothing holds them", n, providers)
	}
	m.audited(t)
}

func TestHostile49_ARefundThatIsDueIsNotPaidBesideAPenalty(t *testing.T) {
	t.Parallel()
	const providers = 16
	m := newMarket(t, 1)
	crowd := m.crowd(t, providers)
	due := make([]refund.Refund, providers)
	for i, id := range crowd {
		due[i] = m.asked(t, id)
	}
	m.goOn(t, 2, time.Minute)
	m.pass(t, refund.Wait)
	begun := make([]bool, providers)
	errs := atOnce(2*providers, func(i int) (err error) {
		if i%2 == 0 {
			begun[i/2], err = m.payers[i/2%2].Store.Pay(t.Context(), due[i/2], nil)
			return err
		}
		return m.penalize(t, i/2%2, crowd[i/2])
	})
	for i, err := range errs {
		if err != nil {
			t.Errorf("call %d: got the error %v, want none", i, err)
		}
	}
	for i, id := range crowd {
		state := m.count(`SELECT count(*) FROM collateral_refund WHERE provider_id = $1 AND state = 'paying'`, id)
		if (state == 1) != begun[i] {
			t.Errorf("provider %d: got %d refunds that are paid, want what the call said: %t", i, state, begun[i])
		}
	}
	m.providers = crowd
	m.settle()
	m.check(t)
	m.audited(t)
}

// The positions that count are bounded, and strangers could take all of these places and leave.
func TestStrangersInAllPlacesWhoLeaveSuspendNobody(t *testing.T) {
	t.Parallel()
	m := newMarket(t, 1)
	c, id := m.chains[chain.Base], m.providers[0]
	own := holder{subjectOf(id), m.people[0]}
	c.deposit(own, 40_000_000)
	strangers := make([]holder, 2*position.MaxCounted)
	for i := range strangers {
		strangers[i] = holder{subjectOf(id), chain.Address{1, 19: byte(i)}}
		c.deposit(strangers[i], 40_000_001)
	}
	c.mine()
	m.work(0)
	for _, s := range strangers {
		c.exit(s)
	}
	c.mine()
	m.work(0)
	if m.suspended(id, "exit") {
		t.Error("all strangers leave: got a suspension, want none")
	}
	c.exit(own)
	c.mine()
	m.work(0)
	if !m.suspended(id, "exit") {
		t.Error("the provider's depositor leaves too: got no suspension, want one")
	}
}
