package store_test

import (
	"testing"
	"time"

	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/position"
)

// backlog is what operators are told of.
func (m *market) backlog(t *testing.T) position.Backlog {
	t.Helper()
	b, err := m.positions[0].Backlog(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Hostile: a contract takes the slasher for nobody for a day, and a cheater's collateral must not go free for it.
func TestAPartThatTheContractRefusesIsToldAndGoesIntoEscrowOnceItIsTaken(t *testing.T) {
	t.Parallel()
	m := newMarket(t, 1)
	c, id := m.chains[chain.Base], m.crowd(t, 1)[0]
	c.revoked = true
	if err := m.penalize(t, 0, id); err != nil {
		t.Fatal(err)
	}
	m.goOn(t, 48, 30*time.Minute)
	if got := m.count(`SELECT count(*) FROM penalty_part WHERE state = 'opened'`); got != 1 {
		t.Errorf("parts that wait after a day: got %d, want 1", got)
	}
	if got := m.backlog(t).StuckParts; got != 1 {
		t.Errorf("stuck parts: got %d, want 1", got)
	}
	c.revoked = false
	m.goOn(t, 4, 30*time.Minute)
	if got := m.count(`SELECT count(*) FROM penalty_part WHERE state = 'escrowed'`); got != 1 {
		t.Errorf("parts in escrow once the contract takes them: got %d, want 1", got)
	}
	if got := m.backlog(t).StuckParts; got != 0 {
		t.Errorf("stuck parts in the end: got %d, want 0", got)
	}
}

func TestAPartWhosePositionHasLeftIsGivenUpAndToldForAWeek(t *testing.T) {
	t.Parallel()
	m := newMarket(t, 1)
	c, id := m.chains[chain.Base], m.crowd(t, 1)[0]
	own := holder{subjectOf(id), m.people[0]}
	c.exit(own)
	m.goOn(t, 1, 31*24*time.Hour)
	c.executeRefund(own)
	if err := m.penalize(t, 0, id); err != nil {
		t.Fatal(err)
	}
	m.goOn(t, 12, 15*time.Minute)
	if got := m.count(`SELECT count(*) FROM penalty_part WHERE state = 'missed'`); got != 1 {
		t.Errorf("parts that were given up: got %d, want 1", got)
	}
	if got := m.backlog(t).Missed; got != 1 {
		t.Errorf("missed parts: got %d, want 1", got)
	}
	m.goOn(t, 1, 8*24*time.Hour)
	if got := m.backlog(t).Missed; got != 0 {
		t.Errorf("missed parts after a week: got %d, want 0", got)
	}
}
