package collateral

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"svc.internal/pkg/ids"
)

// memory is a Store that fails as a test says.
type memory struct {
	confirmed   map[ids.ProviderID]bool
	withdrawals int
	err         error
}

func (m *memory) WithdrawDevelopment(context.Context) (int, error) {
	if m.err != nil {
		return 0, m.err
	}
	m.withdrawals++
	return 0, nil
}

func (m *memory) ConfirmDevelopment(_ context.Context, providers []ids.ProviderID) error {
	if m.err != nil {
		return m.err
	}
	for _, id := range providers {
		m.confirmed[id] = true
	}
	return nil
}

func (m *memory) Pending(context.Context, time.Duration, int) ([]Fact, error) { return nil, nil }

func (m *memory) PendingSuspensions(context.Context, time.Duration, int) ([]Suspension, error) {
	return nil, nil
}

func (m *memory) TriedSuspension(context.Context, Suspension, bool) error { return nil }

func (m *memory) Tried(context.Context, Fact, bool) error { return nil }

func provider(n int) (id ids.ProviderID) {
	binary.BigEndian.PutUint32(id[:], uint32(n)+1)
	return id
}

func TestProvidersThatAreHeardOfWaitWithinABound(t *testing.T) {
	t.Parallel()
	m := &memory{confirmed: map[ids.ProviderID]bool{}}
	d := NewDevelopment(m, nil)
	for n := range MaxWaiting + 10 {
		d.Heard(provider(n))
	}
	if got := len(d.waiting); got != MaxWaiting {
		t.Errorf("waiting: got %d, want %d", got, MaxWaiting)
	}
	if _, err := d.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	for n := range MaxWaiting + 10 {
		d.Heard(provider(n))
	}
	if got := len(d.waiting); got != 10 {
		t.Errorf("heard of again: got %d waiting, want the 10 that were dropped", got)
	}
}

func TestKnownProvidersAreRememberedWithinABound(t *testing.T) {
	t.Parallel()
	m := &memory{confirmed: map[ids.ProviderID]bool{}}
	d := NewDevelopment(m, nil)
	for n := range MaxKnown + 1 {
		d.Heard(provider(n))
		if len(d.waiting) < MaxWaiting && n < MaxKnown {
			continue
		}
		if _, err := d.Pass(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := len(d.known); got > MaxKnown {
			t.Fatalf("known: got %d, want at most %d", got, MaxKnown)
		}
	}
	if got := len(m.confirmed); got != MaxKnown+1 {
		t.Errorf("confirmed: got %d, want %d", got, MaxKnown+1)
	}
	if got := len(d.known); got != 1 {
		t.Errorf("known in the end: got %d, want 1", got)
	}
}

func TestProvidersWaitOnWhereTheyCannotBeRecorded(t *testing.T) {
	t.Parallel()
	m := &memory{confirmed: map[ids.ProviderID]bool{}, err: errors.New("away")}
	d := NewDevelopment(m, nil)
	d.Heard(provider(1))
	if _, err := d.Pass(t.Context()); !errors.Is(err, m.err) {
		t.Errorf("got the error %v, want %v", err, m.err)
	}
	m.err = nil
	switch _, err := d.Pass(t.Context()); {
	case err != nil:
		t.Errorf("later: got the error %v, want none", err)
	case !m.confirmed[provider(1)]:
		t.Errorf("later: got %v, want the provider confirmed", m.confirmed)
	}
}

func TestDevelopmentCollateralIsWithdrawnOnceAndUntilThatIsRecorded(t *testing.T) {
	t.Parallel()
	m := &memory{err: errors.New("away")}
	w := NewWithdrawal(m, nil)
	if _, err := w.Pass(t.Context()); !errors.Is(err, m.err) {
		t.Errorf("got the error %v, want %v", err, m.err)
	}
	m.err = nil
	for range 3 {
		if _, err := w.Pass(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if m.withdrawals != 1 {
		t.Errorf("got %d withdrawals, want 1", m.withdrawals)
	}
}
