package store_test

import (
	"testing"
	"time"

	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/limit"
	"svc.internal/services/billing-ledger/internal/usage"
)

// While usage cannot arrive, a key goes on having its places: each ends with
// the gateway's word, and once.
func TestAPlaceEndsWithTheGatewaysWordAndNotWithSettling(t *testing.T) {
	of := unlimited
	of.Concurrent = 2
	e := setup(t, of)
	c := e.consumer(t, money.USD)
	first, second, third := e.reservation(t, c, 1), e.reservation(t, c, 1), e.reservation(t, c, 1)
	e.admitOne(t, first, hold.Admitted)
	e.admitOne(t, second, hold.Admitted)
	e.admitOne(t, third, hold.TooManyOpen)
	for range 2 {
		e.conclude(t, servedWord(first.Request, 1))
	}
	e.admitOne(t, third, hold.Admitted)
	e.admitOne(t, e.reservation(t, c, 1), hold.TooManyOpen)
	// Settling what the gateway has told of frees nothing more,
	e.settle(t, usage.Settled, e.served(t, first, 1))
	e.admitOne(t, e.reservation(t, c, 1), hold.TooManyOpen)
	// and the word that comes after it neither.
	e.settle(t, usage.Settled, e.served(t, second, 1))
	e.conclude(t, servedWord(second.Request, 1))
	e.admitOne(t, e.reservation(t, c, 1), hold.Admitted)
	e.admitOne(t, e.reservation(t, c, 1), hold.TooManyOpen)
	e.sound(t)
}

func TestEachClassOfModelsHasItsOwnRate(t *testing.T) {
	of := unlimited
	of.ImagePerMinute, of.AudioPerMinute = 2, 3
	e := setup(t, of)
	c := e.consumer(t, money.USD)
	for class, maxRequests := range map[limit.Class]int{limit.Image: 2, limit.Audio: 3} {
		for i := range maxRequests + 1 {
			reservation := e.reservation(t, c, 1)
			reservation.Class = class
			want := hold.Admitted
			if i == maxRequests {
				want = hold.RateLimited
			}
			if got := e.admitOne(t, reservation, want); got.Rate.Limit != int32(maxRequests) {
				t.Errorf("class %d is told: got %d, want %d", class, got.Rate.Limit, int32(maxRequests))
			}
		}
	}
	e.admitOne(t, e.reservation(t, c, 1), hold.Admitted)
	// An account's own limit replaces the limits of all classes.
	e.exec(t, `INSERT INTO account_limits VALUES ($1, 4, 0)`, [16]byte(c.account))
	e.rest(t, 15*time.Second)
	reservation := e.reservation(t, c, 1)
	reservation.Class = limit.Image
	e.admitOne(t, reservation, hold.Admitted)
	e.sound(t)
}
