package chaos

import (
	"context"
	"errors"
	"fmt"
	"time"

	"svc.internal/pkg/pg/devclock"
	"svc.internal/services/proving/internal/chaos/courier"
	"svc.internal/services/proving/internal/chaos/plan"
)

const (
	// cardCents is what is paid by card each time, and cardEvents how many events come of it and of its return.
	cardCents  = 2_500
	cardEvents = 2
	// cardBound is how long it may take until the events have come, and missedAfter is beyond the pause after which the
	// ledger looks at a payment whose events were lost.
	cardBound   = 45 * time.Second
	missedAfter = 6 * time.Minute
)

// tellers are how a courier passes events on.
var tellers = map[plan.Kind]courier.Manner{
	plan.CardLost: courier.Losing, plan.CardTwice: courier.Twice, plan.CardReversed: courier.Reversing,
}

// payByCard has somebody put collateral behind a provider by card, and charge it back, while the processor's events go
// wrong. It returns when they have come as far as they do.
func (m *market) payByCard(ctx context.Context, f plan.Fault) (err error) {
	ctx, cancel := context.WithTimeout(ctx, cardBound)
	defer cancel()
	mend := m.paying.courier.Behave(tellers[f.Cell.Kind])
	defer func() {
		// What is refused now comes again from the processor, or is found by the ledger.
		_ = mend(context.WithoutCancel(ctx))
	}()
	before := m.paying.courier.Taken()
	provider := m.stakers[f.Pick%len(m.stakers)]
	paid := cardPayment{provider: provider}
	last := errors.New("nobody was asked")
	key := fmt.Sprintf("card-%d", f.Number)
	err = every(ctx, idleInterval, func() (bool, error) {
		// Each of the three may be made again.
		if paid.session, last = m.peers().PayByCard(ctx, provider, key, cardCents); last != nil {
			return false, nil
		}
		last = m.peers().ChargeBack(ctx, paid.session)
		return last == nil, nil
	})
	if paid.session != "" {
		paid.back = err == nil
		m.cards = append(m.cards, paid)
	}
	if err == nil {
		err = every(ctx, lookInterval, func() (bool, error) { return m.paying.courier.Taken() >= before+cardEvents, nil })
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("pay by card within %v: %w", cardBound, errors.Join(err, last))
	}
	return err
}

// cardsBooked returns when the books have all payments by card, and what went back of them. No load is there, because
// time passes for those of which no event told.
func (m *market) cardsBooked(ctx context.Context) error {
	if len(m.cards) == 0 {
		return nil
	}
	var sessions []string
	back := 0
	for _, p := range m.cards {
		sessions = append(sessions, p.session)
		if p.back {
			back++
		}
	}
	if _, err := devclock.Advance(ctx, m.fleet.DatabaseURL(), missedAfter); err != nil {
		return err
	}
	return m.until(ctx, "payments by card are in the books", func(ctx context.Context) (int64, error) {
		return m.books.Unbooked(ctx, sessions, back)
	})
}
