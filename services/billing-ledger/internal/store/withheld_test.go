package store_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/earning"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/ledger"
	"svc.internal/services/billing-ledger/internal/posting"
	"svc.internal/services/billing-ledger/internal/usage"
)

func (m *monthOf) releases(request ids.RequestID) {
	m.t.Helper()
	if _, err := m.store.ReleaseHeld(m.t.Context(), []ids.RequestID{request}, "looked at"); err != nil {
		m.t.Fatal(err)
	}
}

func (m *monthOf) forfeits(requests ...ids.RequestID) []earning.Held {
	m.t.Helper()
	list, err := earning.Forfeit(m.t.Context(), m.store, func() (ids.EntryID, error) { return entryID(m.t), nil },
		requests, "looked at")
	if err != nil {
		m.t.Fatal(err)
	}
	return list
}

// wantNothingLeft checks that the books of a closed month are empty.
func (m *monthOf) wantNothingLeft() {
	m.t.Helper()
	for _, kind := range []ledger.AccountKind{ledger.PlanPool, ledger.PlanHeld, ledger.PlanAccrual} {
		if got := m.left(kind); got != 0 {
			m.t.Errorf("%s: got %s, want nothing left", kind, got)
		}
	}
}

// waits is what a closed month owes of what is held: earned less what waits of the pool.
func (m *monthOf) waits() money.NanoUSD {
	m.t.Helper()
	return money.NanoUSD(scan[int64](m.t, m.env, `SELECT coalesce(sum(s.withheld - s.withheld_paid), 0)::bigint
		- (SELECT coalesce(sum(earned - paid), 0)::bigint FROM withheld_end) FROM closed_share s`))
}

// closedMonth is a month of which four requests of one provider are held at its close, and one
// of another is not: 35 cents earned, and a pool of 17 cents and 3 nano-USD.
func closedMonth(t *testing.T) (m *monthOf, own ids.ProviderID, held []ids.RequestID, share ledger.Share) {
	t.Helper()
	m = newMonth(t)
	owner := m.onPlan(t, m.consumer(t, 0), roomy)
	own = m.owned(t, owner)
	m.sells(17*cent + 3)
	for range 4 {
		held = append(held, m.serves(owner, own))
	}
	m.serves(m.buyer, newProvider(t))
	closed, err := m.close(m.seals(), 17*cent+3, 35*cent, 2)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range closed.Shares {
		if s.Provider == own {
			share = s
		}
	}
	return m, own, held, share
}

// Two of four are released and two forfeited, in every order: each takes its part of what
// waits, and the last takes the rest.
func TestWhatIsForfeitedOfAClosedMonthIsRevenue(t *testing.T) {
	t.Parallel()
	for _, order := range []string{"rrff", "ffrr", "rfrf", "frfr"} {
		t.Run(order, func(t *testing.T) {
			t.Parallel()
			m, own, held, share := closedMonth(t)
			if share.Withheld != 28*cent {
				t.Fatalf("withheld: got %s, want 0.28", share.Withheld)
			}
			for i, ruling := range order {
				if ruling == 'f' {
					m.forfeits(held[i])
				} else {
					m.releases(held[i])
					if _, err := m.store.ShareReleased(t.Context(), entryID(t), held[i]); err != nil {
						t.Fatal(err)
					}
				}
				if got, want := -m.left(ledger.PlanAccrual), m.waits(); got != want {
					t.Errorf("after %d rulings the accrual is %s, want what waits, %s", i+1, got, want)
				}
			}
			m.wantNothingLeft()
			balances, err := m.store.ProviderBalances(t.Context(), own)
			if err != nil {
				t.Fatal(err)
			}
			revenue := m.revenue()
			if got := balances.Payable + revenue; got != share.Paid {
				t.Errorf("payable %s and revenue %s are %s, want the share's part of the pool, %s", balances.Payable,
					revenue, got, share.Paid)
			}
			if diff := balances.Payable - revenue; diff < -2 || diff > 2 {
				t.Errorf("of equal earnings %s are paid and %s revenue, want halves", balances.Payable, revenue)
			}
			m.sound(t)
		})
	}
}

func (m *monthOf) revenue() money.NanoUSD {
	m.t.Helper()
	return money.NanoUSD(scan[int64](m.t, m.env, `SELECT coalesce(sum(amount), 0)::bigint FROM posting
		WHERE entry_kind = 'plan_unclaimed' AND account_kind = 'r:plan'`))
}

func TestARulingStandsHoweverOftenItIsMade(t *testing.T) {
	t.Parallel()
	m, _, held, _ := closedMonth(t)
	// All at once, in one call.
	first := m.forfeits(held...)
	entries := scan[int64](t, m.env, `SELECT count(*) FROM entry`)
	again := m.forfeits(held...)
	for i, h := range again {
		if h != first[i] {
			t.Errorf("again: got %+v, want %+v", h, first[i])
		}
	}
	m.releases(held[0])
	if _, err := m.store.ShareReleased(t.Context(), entryID(t), held[0]); !errors.Is(err, posting.ErrNotReleased) {
		t.Errorf("a share of what is forfeited: got the error %v, want %v", err, posting.ErrNotReleased)
	}
	if got := scan[int64](t, m.env, `SELECT count(*) FROM entry`); got != entries {
		t.Errorf("entries afterwards: got %d, want %d", got, entries)
	}
	m.wantNothingLeft()
	if got := scan[int64](t, m.env, `SELECT count(*) FROM operator_action WHERE action = 'forfeit_earnings'`); got != 4 {
		t.Errorf("audit entries: got %d, want one for each request", got)
	}
	m.sound(t)
}

// What a share was paid is the same when it is asked for after the others of its provider.
func TestARepeatedShareIsTheFirst(t *testing.T) {
	t.Parallel()
	m, _, held, _ := closedMonth(t)
	var first []ids.EntryID
	for range 2 {
		for i, request := range held {
			m.releases(request)
			id, err := m.store.ShareReleased(t.Context(), entryID(t), request)
			switch {
			case err != nil:
				t.Fatal(err)
			case len(first) < len(held):
				first = append(first, id)
			case id != first[i]:
				t.Errorf("again: got the entry %s, want the first, %s", id, first[i])
			}
		}
	}
	m.wantNothingLeft()
}

func TestWhatIsForfeitedOfAnOpenMonthRaisesTheSharesOfOthers(t *testing.T) {
	t.Parallel()
	m := newMonth(t)
	owner := m.onPlan(t, m.consumer(t, 0), roomy)
	own, other := m.owned(t, owner), newProvider(t)
	m.sells(6 * cent)
	held := m.serves(owner, own)
	m.serves(m.buyer, other)
	through := m.seals()
	m.forfeits(held)
	closed, err := m.close(through, 6*cent, 7*cent, 1)
	if err != nil {
		t.Fatal(err)
	}
	want := ledger.Share{Provider: other, Earned: 7 * cent, Paid: 6 * cent}
	if got := closed.Shares[0]; got != want {
		t.Errorf("the share: got %+v, want the whole pool for the other, %+v", got, want)
	}
	m.wantNothingLeft()
	m.sound(t)
}

// What comes late has no part of the pool: it is paid whole, or nobody has it.
func TestWhatIsHeldBehindTheCloseTakesNothingOfThePool(t *testing.T) {
	t.Parallel()
	m, own, held, share := closedMonth(t)
	owner := consumer{account: ids.AccountID(scan[[16]byte](t, m.env,
		`SELECT account_id FROM held_earning LIMIT 1`)), key: ids.KeyID(scan[[16]byte](t, m.env,
		`SELECT key_id FROM hold WHERE account_id = (SELECT account_id FROM held_earning LIMIT 1) LIMIT 1`))}
	late := []ids.RequestID{m.serves(owner, own), m.serves(owner, own)}
	m.sound(t)
	m.releases(late[0])
	if _, err := m.store.ShareReleased(t.Context(), entryID(t), late[0]); !errors.Is(err, posting.ErrNotReleased) {
		t.Errorf("a share of what came late: got the error %v, want %v", err, posting.ErrNotReleased)
	}
	post(t, m.env, must(t)(ledger.PlanLateShare(newFact(t), own, m.month, 7*cent, 0)))
	m.forfeits(late[1])
	if got := m.revenue(); got != 0 {
		t.Errorf("revenue of what came late: got %s, want nothing", got)
	}
	if got, want := -m.left(ledger.PlanAccrual), share.Withheld-share.WithheldPaid; got != want {
		t.Errorf("accrual: got %s, want what waits of the share, %s", got, want)
	}
	m.sound(t)
	m.forfeits(held...)
	m.wantNothingLeft()
	m.sound(t)
}

func TestEarningsThatCreditPaidForAreNotForfeited(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	owner := e.consumer(t, money.USD)
	provider := e.owned(t, owner)
	reservation := e.reservation(t, owner, 10)
	e.admitOne(t, reservation, hold.Admitted)
	e.settle(t, usage.Settled, e.servedBy(t, reservation, provider))
	_, err := earning.Forfeit(t.Context(), e.store, func() (ids.EntryID, error) { return entryID(t), nil },
		[]ids.RequestID{reservation.Request}, "looked at")
	if !fault.Is(err, fault.TransitionNotAllowed) {
		t.Errorf("got the error %v, want the reason %v", err, fault.TransitionNotAllowed)
	}
	e.sound(t)
}

// Whoever rules while a month is closed rules before the close or after it, never between:
// what was withheld can be shared, and what was not withheld was shared with the pool.
func TestRulingsAndACloseAtOnceLoseNothing(t *testing.T) {
	t.Parallel()
	for range 4 {
		m := newMonth(t)
		owner := m.onPlan(t, m.consumer(t, 0), roomy)
		own := m.owned(t, owner)
		m.sells(17*cent + 3)
		var held []ids.RequestID
		for range 6 {
			held = append(held, m.serves(owner, own))
		}
		m.serves(m.buyer, own)
		through := m.seals()
		var both sync.WaitGroup
		both.Go(func() {
			// A forfeit lowers what was earned, and the ledger counts for itself.
			for earned := 49 * cent; earned >= 28*cent; earned -= 7 * cent {
				_, err := m.close(through, 17*cent+3, earned, 1)
				if err == nil {
					return
				}
				if !errors.Is(err, posting.ErrDiffers) {
					t.Error(err)
				}
			}
		})
		for i, request := range held {
			both.Go(func() {
				if i%2 == 0 {
					m.releases(request)
				} else {
					m.forfeits(request)
				}
			})
		}
		both.Wait()
		if _, err := m.store.ClosedMonth(t.Context(), m.month); err != nil {
			// Every try met another forfeit. Nothing moves now.
			if _, err := m.close(through, 17*cent+3, 28*cent, 1); err != nil {
				t.Fatal(err)
			}
		}
		for i, request := range held {
			withheld := scan[bool](t, m.env, `SELECT withheld FROM held_earning WHERE request_id = $1`, [16]byte(request))
			after := scan[bool](t, m.env, `SELECT h.ended_at > m.closed_at FROM held_earning h, closed_month m
				WHERE request_id = $1`, [16]byte(request))
			if withheld != after {
				t.Errorf("withheld is %v, and ended after the close is %v", withheld, after)
			}
			_, err := m.store.ShareReleased(t.Context(), entryID(t), request)
			if want := withheld && i%2 == 0; (err == nil) != want {
				t.Errorf("a share of request %d: got the error %v, want a share: %v", i, err, want)
			}
		}
		m.wantNothingLeft()
		m.sound(t)
	}
}

// The database takes what settlement's own code would never post as little as what it would.
func TestTheDatabaseSharesOfAClosedMonthOnlyWhatWasRuled(t *testing.T) {
	t.Parallel()
	m, own, held, share := closedMonth(t)
	owner := ids.AccountID(scan[[16]byte](t, m.env, `SELECT account_id FROM held_earning LIMIT 1`))
	key := ids.KeyID(scan[[16]byte](t, m.env, `SELECT key_id FROM hold WHERE account_id = $1 LIMIT 1`, [16]byte(owner)))
	late := m.serves(consumer{account: owner, key: key}, own)
	m.releases(held[0])
	m.releases(late)
	m.forfeits(held[1])
	of := func(request ids.RequestID) ledger.Fact {
		return ledger.Fact{ID: entryID(t), BusinessID: strings.Join([]string{string(m.month), own.String(), "held",
			request.String()}, "/")}
	}
	must := must(t)
	for name, entry := range map[string]ledger.Entry{
		"a share of what came late":         must(ledger.PlanShare(of(late), own, m.month, 7*cent, cent, 0)),
		"a share of what is held":           must(ledger.PlanShare(of(held[2]), own, m.month, 7*cent, cent, 0)),
		"a share of what is forfeited":      must(ledger.PlanShare(of(held[1]), own, m.month, 7*cent, cent, 0)),
		"a share of more than was earned":   must(ledger.PlanShare(of(held[0]), own, m.month, 8*cent, cent, 0)),
		"a share above what waits":          must(ledger.PlanShare(of(held[0]), own, m.month, 7*cent, 7*cent, 0)),
		"a share of nothing in particular":  must(ledger.PlanShare(newFact(t), own, m.month, cent, 0, 0)),
		"a forfeit of what is released":     must(ledger.PlanForfeit(of(held[0]), own, m.month, 7*cent)),
		"a penalty's forfeit":               must(ledger.PlanForfeit(newFact(t), own, m.month, cent)),
		"another's forfeit":                 must(ledger.PlanForfeit(of(request(t)), own, m.month, 7*cent)),
		"what nobody claims of a release":   must(ledger.PlanUnclaim(of(held[0]), m.month, share.WithheldPaid)),
		"what nobody claims of what is out": must(ledger.PlanUnclaim(newFact(t), m.month, 1)),
	} {
		if _, err := m.store.Post(t.Context(), entry); !notRuled(err) {
			t.Errorf("%s: got the error %v, want that it was not ruled so", name, err)
		}
	}
	for because, sql := range map[string]string{
		"was closed without": `UPDATE held_earning SET withheld = true WHERE NOT withheld AND ended_as IS NULL`,
		"may not change":     `UPDATE held_earning SET withheld = false WHERE withheld AND ended_as IS NULL`,
	} {
		m.serves(consumer{account: owner, key: key}, own)
		refusedSQL(t, m.env, because, sql)
	}
	m.sound(t)
}

// notRuled reports whether an entry was refused because no ruling is behind it.
func notRuled(err error) bool {
	return errors.Is(err, ledger.ErrHeld) || err != nil && strings.Contains(err.Error(), "was not ruled so")
}

func TestVerifyFindsWhatWasNotRuled(t *testing.T) {
	t.Parallel()
	const (
		ruled  = "what a closed month withholds is what was held then, and ends as it was ruled"
		atOnce = "a closed month paid its shares at once, but for what is withheld"
		pool   = "the pool of a month is what plans paid into it, until its close takes all of it"
	)
	m, _, held, _ := closedMonth(t)
	m.releases(held[0])
	if _, err := m.store.ShareReleased(t.Context(), entryID(t), held[0]); err != nil {
		t.Fatal(err)
	}
	m.forfeits(held[1])
	m.sound(t)
	for _, tc := range []struct{ invariant, names, plant, undo string }{
		{ruled, "withholds", `UPDATE held_earning SET withheld = false WHERE ended_as IS NULL`,
			`UPDATE held_earning SET withheld = true`},
		{ruled, "posted as plan_share", `UPDATE held_earning SET ended_as = 'refunded' WHERE ended_as = 'released'`,
			`UPDATE held_earning SET ended_as = 'released' WHERE ended_as = 'refunded'`},
		{ruled, "nothing is posted", `UPDATE entry SET business_id = 'x' || business_id
			WHERE kind IN ('plan_forfeit', 'plan_unclaimed')`, `UPDATE entry SET business_id = substr(business_id, 2)
			WHERE kind IN ('plan_forfeit', 'plan_unclaimed')`},
		{atOnce, "at once", `UPDATE entry SET business_id = 'x' || business_id WHERE kind = 'plan_share'
			AND business_id NOT LIKE '%/held/%'`, `UPDATE entry SET business_id = substr(business_id, 2)
			WHERE kind = 'plan_share' AND business_id LIKE 'x%'`},
		{pool, "in the pool", `UPDATE posting SET amount = amount + 1 WHERE entry_kind = 'plan_close' AND amount < 0`,
			`UPDATE posting SET amount = amount - 1 WHERE entry_kind = 'plan_close' AND amount < 0`},
		{pool, "paid in", `UPDATE closed_month SET pool = pool + 1, paid = pool + 1`,
			`UPDATE closed_month SET pool = pool - 1, paid = pool - 1`},
	} {
		m.exec(t, tc.plant)
		m.wantDrift(t, tc.invariant, tc.names)
		m.exec(t, tc.undo)
	}
	m.sound(t)
}
