package store_test

import (
	"crypto/rand"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/ledger"
)

const usd = money.USD

// maker makes entries for tests.
type maker struct {
	t        testing.TB
	account  ids.AccountID
	provider ids.ProviderID
	coins    ledger.Sum
	made     []ledger.Entry
}

func (m *maker) fact() ledger.Fact { return newFact(m.t) }

// today is the fact that a coin is revalued today.
func (m *maker) today(token ledger.Token) ledger.Fact {
	f := m.fact()
	f.BusinessID = string(token) + "/" + time.Now().UTC().Format(time.DateOnly)
	return f
}

func (m *maker) add(e ledger.Entry, err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
	m.made = append(m.made, e)
}

func usdc(units ledger.Units) ledger.Sum { return ledger.Sum{Token: ledger.USDCBase, Units: units} }

// everyEntry has entries of every kind but reversals, with every leg that they
// can have.
func everyEntry(t testing.TB, e *env, c consumer, provider ids.ProviderID) []ledger.Entry {
	t.Helper()
	e.exec(t, `INSERT INTO house_account (account_id) VALUES ($1)`, [16]byte(c.account))
	e.exec(t, `INSERT INTO playground_account (account_id) VALUES ($1)`, [16]byte(c.account))
	e.exec(t, `INSERT INTO playground_day VALUES ((now() AT TIME ZONE 'UTC')::date, $1)`, int64(1_000_000*usd))
	// Worth a fraction that rounds up: a deposit of it has every leg.
	coins := ledger.Sum{Token: ledger.Native, Units: 500_000_004, Quote: &ledger.Quote{Token: ledger.Native,
		Rate: 123_456_789, Source: "feed", At: time.Now().UTC().Truncate(time.Microsecond)}}
	m := &maker{t: t, account: c.account, provider: provider, coins: coins}
	for _, kinds := range []func(){m.cards, m.tokens, m.plans, m.payouts, m.collateral} {
		kinds()
	}
	e.charge(t, m.made...)
	return m.made
}

func (m *maker) cards() {
	m.add(ledger.CardTopUp(m.fact(), m.account, 20*usd, usd))
	m.add(ledger.CardCost(m.fact(), usd))
	m.add(ledger.Grant(entryID(m.t), m.account, usd, rand.Text(), "test"), nil)
	m.add(ledger.FundVerification(entryID(m.t), m.account, usd, rand.Text()), nil)
	m.add(ledger.FundPlayground(entryID(m.t), m.account, usd), nil)
	back := m.fact()
	m.add(ledger.CardReversal(back, m.account, 3*usd, usd))
	m.add(ledger.CardDebtPayment(m.fact(), m.account, 5))
	m.add(ledger.CardDebtLoss(m.fact(), m.account, 5))
	m.add(ledger.CardDisputeWin(sameFact(m.t, back), m.account, 3*usd, 2*usd-10, 5))
	m.add(ledger.CardPayOut(m.fact(), 5))
}

func (m *maker) tokens() {
	m.add(ledger.Deposit(m.fact(), m.account, usdc(5_000_000)))
	m.add(ledger.Deposit(m.fact(), m.account, m.coins))
	m.add(ledger.StrayDeposit(m.fact(), m.coins))
	m.add(ledger.MatchDeposit(m.fact(), m.account, 5))
	m.add(ledger.ReturnDeposit(m.fact(), usdc(5)))
	m.add(ledger.ReverseDeposit(m.fact(), m.account, m.coins, 5))
	m.add(ledger.TreasuryMove(m.fact(), ledger.In, usdc(5)))
	m.add(ledger.TreasuryMove(m.fact(), ledger.Out, m.coins))
	m.add(ledger.Revaluation(m.today(ledger.Native), 5, 1_000_000_000, *m.coins.Quote))
	gas := *m.coins.Quote
	gas.Token = ledger.ETHBase
	m.add(ledger.Revaluation(m.today(gas.Token), usd, 1_000_000_000, gas))
	m.add(ledger.GasSpent(m.fact(), m.coins))
}

func (m *maker) plans() {
	m.add(ledger.PlanSale(m.fact(), "2026-03", 6*usd))
	for month, pool := range map[ledger.Month]money.NanoUSD{"2026-03": 9 * usd, "2026-04": 7 * usd} {
		entries, err := ledger.PlanClose(func() (ids.EntryID, error) { return entryID(m.t), nil }, month, pool,
			[]ledger.Share{{Provider: m.provider, Earned: 8 * usd}})
		for _, e := range entries {
			m.add(e, err)
		}
	}
	m.add(ledger.PlanRefund(m.fact(), "2026-03", true, usd))
	m.add(ledger.PlanRefund(m.fact(), "2026-03", false, usd))
	m.add(ledger.PlanShare(m.fact(), m.provider, "2026-03", 5, 4, 1))
	m.add(ledger.PlanLateShare(m.fact(), m.provider, "2026-03", 5, 1))
	m.add(ledger.PlanForfeit(m.fact(), m.provider, "2026-03", usd))
	m.add(ledger.PlanUnclaim(m.fact(), "2026-03", 5))
}

func (m *maker) payouts() {
	m.add(ledger.EarningsBatch(m.fact(), m.provider, 5*usd, usd))
	m.add(ledger.EarningsCredit(m.fact(), m.provider, m.account, usd))
	m.add(ledger.RequestRefund(m.fact(), m.account, m.provider, 10, 7,
		ledger.Clawback{Accrued: 4, Payable: 2, Receivable: 1}))
	m.add(ledger.GoodwillRefund(m.fact(), m.account, usd))
	m.add(ledger.BrokenAnswer(m.fact(), m.account, usd))
	sent, lost := m.fact(), m.fact()
	m.add(ledger.PayoutRequest(sent, m.provider, 10*usd))
	m.add(ledger.PayoutConfirm(sameFact(m.t, sent), m.provider, 10*usd, usd, usdc(9_000_000)))
	m.add(ledger.PayoutRequest(lost, m.provider, 10*usd))
	m.add(ledger.PayoutFail(sameFact(m.t, lost), m.provider, 10*usd))
}

func (m *maker) collateral() {
	m.add(ledger.CardCollateral(m.fact(), m.provider, 20*usd))
	back := m.fact()
	m.add(ledger.CardCollateralReversal(back, m.provider, 5*usd/100, 3))
	m.add(ledger.CardCollateralWin(sameFact(m.t, back), m.provider, 5*usd/100, 9, ledger.CardBacking{Room: 3 - 5*usd/100,
		Owed: 5}))
	m.add(ledger.ChainSlash(m.fact(), usdc(5), []ledger.Compensation{{Account: m.account, Amount: 5}}))
	m.add(ledger.Slash(m.fact(), m.provider, 2*usd))
	m.add(ledger.SlashForfeit(m.fact(), m.provider, usd, []ledger.Compensation{{Account: m.account, Amount: 5}}))
	m.add(ledger.SlashAppealWon(m.fact(), m.provider, usd, ledger.CardBacking{Room: 5 - usd, Owed: 3}))
	for _, end := range []func(ledger.Fact) (ledger.Entry, error){
		func(f ledger.Fact) (ledger.Entry, error) {
			return ledger.CollateralRefunded(f, m.provider, ledger.Bank, usd)
		},
		func(f ledger.Fact) (ledger.Entry, error) {
			return ledger.CollateralRefunded(f, m.provider, ledger.CardClearing, usd)
		},
		func(f ledger.Fact) (ledger.Entry, error) {
			return ledger.CollateralRefundUndo(f, m.provider, usd, ledger.CardBacking{Room: 5 - usd, Owed: 3})
		},
	} {
		asked := ledger.Fact{ID: entryID(m.t), BusinessID: request(m.t).String()}
		m.add(ledger.CollateralRefund(asked, m.provider, usd))
		m.add(end(sameFact(m.t, asked)))
	}
	asked := ledger.Fact{ID: entryID(m.t), BusinessID: request(m.t).String()}
	m.add(ledger.CollateralRefund(asked, m.provider, usd))
	m.add(ledger.CollateralRefundFail(sameFact(m.t, asked), m.provider, usd)) // of what charge has paid
	m.add(ledger.CustodyIn(m.fact(), m.provider, ledger.Native, 35_000_000_000_000))
	m.add(ledger.CustodyOut(m.fact(), m.provider, ledger.Native, 5))
}

// sameFact is the same fact for another entry.
func sameFact(t testing.TB, f ledger.Fact) ledger.Fact {
	t.Helper()
	f.ID = entryID(t)
	return f
}

// fund gives a provider balances and debts as no entry does, for tests of single entries,
// until the function that it returns is called.
func (e *env) fund(t testing.TB, provider ids.ProviderID, c consumer) (undo func()) {
	t.Helper()
	id := entryID(t)
	err := pgx.BeginFunc(t.Context(), e.owner, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), `SET LOCAL session_replication_role = replica`); err != nil {
			return err
		}
		if _, err := tx.Exec(t.Context(), `INSERT INTO entry (id, kind, business_id) VALUES ($1, 'goodwill', $2)`,
			[16]byte(id), rand.Text()); err != nil {
			return err
		}
		_, err := tx.Exec(t.Context(), `INSERT INTO posting
				(entry_id, leg, entry_kind, account_kind, account_owned, owner_id, book, amount)
			SELECT $1, row_number() OVER (), 'goodwill', kind, true, owner, book, amount
			FROM (SELECT kind, $2::uuid AS owner, b.book, $4::bigint AS amount FROM chart
					CROSS JOIN LATERAL unnest(CASE chart.book WHEN 'month' THEN '{2026-03,2026-04}'::text[]
						ELSE '{""}' END) AS b (book)
					WHERE kind LIKE 'l:provider:%'
				UNION ALL VALUES ('a:provider_receivable', $2, '', -$4), ('a:consumer_receivable', $3, '', -$4)) legs`,
			[16]byte(id), [16]byte(provider), [16]byte(c.account), int64(100*money.USD))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		e.exec(t, `DELETE FROM posting WHERE entry_id = $1`, [16]byte(id))
		e.exec(t, `DELETE FROM entry WHERE id = $1`, [16]byte(id))
	}
}

// charging is held while changes of card payments are written.
var charging sync.Mutex

// charge keeps the card payments, what went back of them and the revaluations, without
// which the database takes no entry of line 23, no end of line 26 and no revaluation.
func (e *env) charge(t testing.TB, entries ...ledger.Entry) {
	t.Helper()
	// Changes have numbers without gaps, and a statement does not see those of another that is under way.
	charging.Lock()
	defer charging.Unlock()
	var payment string
	for _, entry := range entries {
		clearing := slices.IndexFunc(entry.Postings, func(p ledger.Posting) bool {
			return p.Account.Kind == ledger.CardClearing
		})
		switch entry.Kind {
		case ledger.CardCollateralPaid:
			cents := -entry.Postings[clearing].Amount / cent
			owner := entry.Postings[1-clearing].Account.Owner
			payment = rand.Text()
			e.exec(t, `WITH c AS (INSERT INTO checkout (id, purpose, provider_id, cents, fee_cents, processor, livemode,
					return_url, session_id, url, state, expires_at, paid_at)
				VALUES (gen_random_uuid(), 'collateral', $1, $2, 0, 'sandbox', false, 'x', $3, 'x', 'paid', now(), now())
				RETURNING id, session_id, cents),
			h AS (INSERT INTO card_change (number, kind, checkout_id, reference, cents, entry_id)
				SELECT (SELECT count(*) + 1 FROM card_change), 'paid', id, session_id, cents, $4 FROM c)
			INSERT INTO card_payment (id, checkout_id, cents, cost_id, cost_cents, entry_id)
				SELECT $5, id, cents, $5, 0, $4 FROM c`, owner, int64(cents), entry.BusinessID, [16]byte(entry.ID), payment)
		case ledger.CardTopUpPaid:
			payment = rand.Text()
			e.exec(t, `WITH c AS (INSERT INTO checkout (id, purpose, account_id, cents, fee_cents, processor, livemode,
					return_url, session_id, url, state, expires_at, paid_at)
				VALUES ($6, 'topup', $1, $2, $3, 'sandbox', false, 'x', $4, 'x', 'paid', now(), now())
				RETURNING id, cents + fee_cents AS cents)
			INSERT INTO card_payment (id, checkout_id, cents, cost_id, cost_cents, entry_id)
				SELECT $4, id, cents, $4, 0, $5 FROM c`, entry.Postings[1].Account.Owner, int64(entry.Postings[1].Amount/cent),
				int64((-entry.Postings[clearing].Amount-entry.Postings[1].Amount)/cent), payment, [16]byte(entry.ID),
				entry.BusinessID)
		case ledger.CardReversed:
			e.exec(t, `INSERT INTO card_reversal (id, payment_id, cause, cents, entry_id) VALUES ($1, $2, 'dispute', $3, $4)`,
				entry.BusinessID, payment, int64(entry.Postings[clearing].Amount/cent), [16]byte(entry.ID))
			e.exec(t, `INSERT INTO card_debt (reversal_id, account_id, owed, paid, undone, due_at)
				VALUES ($1, $2, $3::bigint, 5, $3::bigint - 5, NULL)`, entry.BusinessID, entry.Postings[0].Account.Owner,
				int64(-entry.Postings[1].Amount))
		case ledger.CardDisputeWon:
			e.exec(t, `INSERT INTO card_dispute_won (reversal_id, entry_id) VALUES ($1, $2)`, entry.BusinessID,
				[16]byte(entry.ID))
		case ledger.CardCollateralTaken:
			cents := entry.Postings[clearing].Amount / cent
			e.exec(t, `WITH r AS (INSERT INTO card_reversal (id, payment_id, cause, cents, entry_id)
				VALUES ($1, $2, 'dispute', $3, $4) RETURNING id, payment_id, cents)
			INSERT INTO card_change (number, kind, checkout_id, reference, cents, entry_id)
				SELECT (SELECT count(*) + 1 FROM card_change), 'reversed', p.checkout_id, r.id, r.cents, $4
				FROM r JOIN card_payment p ON p.id = r.payment_id`,
				entry.BusinessID, payment, int64(cents), [16]byte(entry.ID))
		case ledger.TokensRevalued:
			var change money.NanoUSD
			for _, p := range entry.Postings {
				if p.Account.Kind == ledger.Crypto {
					change -= p.Amount
				}
			}
			const worth = 123_456_789
			e.exec(t, `INSERT INTO revaluation (day, token, units, booked, worth, entry_id)
				VALUES ((now() AT TIME ZONE 'UTC')::date, $1, 1000000000, $2, $3, $4)`, string(entry.Quote.Token),
				worth-int64(change), worth, [16]byte(entry.ID))
		case ledger.CollateralDisputeWon:
			e.exec(t, `WITH w AS (INSERT INTO card_dispute_won (reversal_id, entry_id) VALUES ($1, $2) RETURNING reversal_id)
			INSERT INTO card_change (number, kind, checkout_id, reference, cents, entry_id)
				SELECT (SELECT count(*) + 1 FROM card_change), 'dispute_won', p.checkout_id, r.id, r.cents, $2
				FROM w JOIN card_reversal r ON r.id = w.reversal_id JOIN card_payment p ON p.id = r.payment_id`,
				entry.BusinessID, [16]byte(entry.ID))
		case ledger.CollateralRefundPaid, ledger.CollateralRefundUndone:
			e.refundOf(t, entry, payment)
		case ledger.CollateralRefundFailed:
			e.exec(t, `WITH e AS (INSERT INTO entry (id, kind, business_id)
				VALUES (gen_random_uuid(), 'collateral_refund_paid', $1) RETURNING id, kind),
			l AS (INSERT INTO posting (entry_id, leg, entry_kind, account_kind, account_owned, owner_id, amount)
				SELECT id, leg, kind, account_kind, owner IS NOT NULL, owner, amount FROM e, (VALUES
					(1, 'l:provider:collateral_refund_pending', $5::uuid, -$4::bigint), (2, 'a:card_clearing', NULL, $4)) AS v
					(leg, account_kind, owner, amount)),
			f AS (INSERT INTO card_refund (id, payment_id, cents, on_card, attempt)
				VALUES ($1::text::uuid, $3, $4 / 10000000, true, 2) RETURNING id, payment_id, cents),
			x AS (INSERT INTO card_refund_failure (object_id, refund_id, attempt, entry_id) SELECT $1, id, 1, $2 FROM f)
			INSERT INTO card_change (number, kind, checkout_id, reference, cents, entry_id)
				SELECT (SELECT count(*) + 1 FROM card_change), 'refund_failed', p.checkout_id, $1, f.cents, $2
				FROM f JOIN card_payment p ON p.id = f.payment_id`, entry.BusinessID, [16]byte(entry.ID), payment,
				int64(usd), ownerOf(entry))
		default: // nothing but the entry says it
		}
	}
}

// ownerOf is whose refund an entry is of.
func ownerOf(entry ledger.Entry) (owner [16]byte) {
	for _, p := range entry.Postings {
		if p.Account.Kind == ledger.CollateralRefundPending {
			owner = p.Account.Owner
		}
	}
	return owner
}

// refundOf keeps the refund of a card payment that an entry ends.
func (e *env) refundOf(t testing.TB, entry ledger.Entry, payment string) {
	t.Helper()
	state, cents := "reversed", money.NanoUSD(0)
	for _, p := range entry.Postings {
		switch p.Account.Kind {
		case ledger.Bank:
			state = "from_bank"
		case ledger.CardClearing:
			state = "by_card"
		case ledger.CollateralRefundPending:
			cents = -p.Amount / cent
		default:
		}
	}
	e.exec(t, `WITH f AS (INSERT INTO card_refund (id, payment_id, cents, on_card, state, object_id, ended_at)
		VALUES ($1::text::uuid, $2, $3, true, $4::text, CASE WHEN $4::text = 'by_card' THEN $1::text END, now())
		RETURNING id, payment_id, cents)
	INSERT INTO card_change (number, kind, checkout_id, reference, cents)
		SELECT (SELECT count(*) + 1 FROM card_change), 'refund_ended', p.checkout_id, f.id::text, f.cents
		FROM f JOIN card_payment p ON p.id = f.payment_id`, entry.BusinessID, payment, int64(cents), state)
}
