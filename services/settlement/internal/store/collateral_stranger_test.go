package store_test

import (
	"testing"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/refund"
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
	if got := c.at(strange); got.free != 1_000_000 || !got.refundAt.IsZero() {
		t.Errorf("the position that cannot be paid: got %+v, want it as it was", got)
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
