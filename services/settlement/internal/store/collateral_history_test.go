package store_test

import (
	"context"
	"fmt"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/contract"
	"svc.internal/services/settlement/internal/penalty"
	"svc.internal/services/settlement/internal/position"
	"svc.internal/services/settlement/internal/refund"
	"svc.internal/services/settlement/internal/slash"
	"svc.internal/services/settlement/internal/store"
)

// market is what stands behind providers: two chains and cards, and two processes that follow it.
type market struct {
	*env
	t      testing.TB
	chains chains
	books  *cardBooks
	terms  position.Terms
	// Of each process.
	positions [2]store.Positions
	followers [2]*position.Follower
	slashes   [2]*slash.Runner
	payers    [2]*refund.Runner
	providers []ids.ProviderID
	people    []chain.Address
}

func collateralTerms() position.Terms {
	usdc := chain.Asset{Chain: chain.Base, Kind: chain.USDC, Contract: chain.Address{9}, Decimals: 6, Symbol: "USDC"}
	coin := chain.Asset{Chain: chain.SVC, Kind: chain.Coin, Decimals: 18, Symbol: "SVC"}
	whole, _ := chain.ParseAmount("35000000000000000000000")
	one, _ := chain.ParseAmount("1000000000000000000")
	return position.Terms{Card: position.CardRules{Available: true, Minimum: 2_000 * slash.Cent}, Chains: []position.Rules{
		{Chain: chain.Base, Name: "Base", Contract: chain.Address{1}, Asset: usdc, Minimum: chain.NewAmount(20_000_000),
			Dust: chain.NewAmount(1_000_000)},
		{Chain: chain.SVC, Name: "SVC", Contract: chain.Address{2}, Asset: coin, Minimum: whole, Dust: one},
	}}
}

func newMarket(t *testing.T, seed uint64) *market {
	t.Helper()
	m := &market{env: setup(t), t: t, terms: collateralTerms(), books: newCardBooks(rand.New(rand.NewPCG(seed, 2)))}
	for _, sql := range []string{
		`ALTER FUNCTION collateral_refund_begins() SET search_path = clock, pg_catalog, settlement, pg_temp`,
		`ALTER FUNCTION collateral_refund_moves() SET search_path = clock, pg_catalog, settlement, pg_temp`,
		`ALTER TABLE penalty_part ALTER due_at SET DEFAULT clock.clock_timestamp()`,
		`ALTER TABLE collateral_refund ALTER look_at SET DEFAULT clock.clock_timestamp()`,
		`ALTER TABLE collateral_refund_part ALTER due_at SET DEFAULT clock.clock_timestamp()`,
	} {
		if _, err := m.owner.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	m.chains = chains{chain.Base: newModelled(chain.Base, big.NewInt(1), m.at),
		chain.SVC: newModelled(chain.SVC, big.NewInt(1_000_000_000), m.at)}
	for i := range m.positions {
		m.stores[i].Terms = m.terms
		m.keepers[i] = penalty.NewKeeper(m.stores[i], func(context.Context, penalty.Penalty) {})
		m.positions[i] = store.Positions{Store: m.stores[i].Store, Terms: m.terms}
		m.followers[i] = &position.Follower{Terms: m.terms, Store: m.positions[i], Events: m.chains, Ledger: m.books}
		m.slashes[i] = &slash.Runner{Store: store.Parts{Positions: m.positions[i]}, Calls: m.chains, Ledger: m.books,
			Appeals: appeals{m.keepers[i]}}
		m.payers[i] = &refund.Runner{Store: store.Refunds{Positions: m.positions[i]}, Calls: m.chains, Ledger: m.books,
			Cards: m.books}
	}
	for i := range 3 {
		m.providers = append(m.providers, ids.ProviderID(newID(t)))
		m.people = append(m.people, chain.Address{19: byte(i + 1)})
	}
	return m
}

type appeals struct{ keeper *penalty.Keeper }

func (a appeals) AppealOnChain(ctx context.Context, id penalty.ID, by chain.Address, on chain.ID) error {
	_, err := a.keeper.AppealOnChain(ctx, id, fmt.Sprintf("The depositor %s appealed on chain %s.", by, on))
	return err
}

// at is the database's time.
func (m *market) at() (now time.Time) {
	if err := m.owner.QueryRow(context.Background(), `SELECT at FROM clock.clock`).Scan(&now); err != nil {
		m.t.Fatal(err)
	}
	return now
}

// work has a process do all that is due. What fails is tried again later.
func (m *market) work(i int) {
	ctx := m.t.Context()
	for _, r := range m.terms.Chains {
		if applied, err := m.followers[i].Follow(ctx, r.Chain); err != nil {
			m.t.Fatalf("chain %s: got the error %v, want none", r.Chain, err)
		} else if len(applied.Foreign) > 0 {
			m.t.Fatalf("chain %s: got %d foreign events, want none", r.Chain, len(applied.Foreign))
		}
		_ = m.followers[i].Post(ctx, r.Chain)
	}
	if err := position.FollowCards(ctx, m.terms.Card, m.books, m.positions[i]); err != nil {
		m.t.Fatal(err)
	}
	if _, err := m.slashes[i].Pass(ctx); err != nil {
		m.passed(err)
	}
	if _, err := m.payers[i].Pass(ctx); err != nil {
		m.passed(err)
	}
	if _, _, err := m.keepers[i].ExecuteDue(ctx); err != nil {
		m.t.Fatal(err)
	}
}

// passed ends the test for an error that is not a lost answer.
func (m *market) passed(err error) {
	for _, one := range unjoin(err) {
		if !isLost(one) {
			m.t.Fatalf("got the error %v, want lost answers alone", one)
		}
	}
}

// step makes one change at random.
func (m *market) step(r *rand.Rand) {
	ctx := m.t.Context()
	id, who := m.providers[r.IntN(len(m.providers))], m.people[r.IntN(len(m.people))]
	c := m.chains[[]chain.ID{chain.Base, chain.SVC}[r.IntN(2)]]
	h := holder{subjectOf(id), who}
	if r.IntN(12) == 0 {
		h.subject = contract.Word{'n', 'o', 'b', 'o', 'd', 'y'}
	}
	switch r.IntN(15) {
	case 0, 1, 2:
		c.deposit(h, []int64{1, 999_999, 1_000_000, 25_000_001, 40_000_000_000_000, 70_000_000_000_003}[r.IntN(6)])
	case 3:
		c.exit(h)
	case 4:
		c.executeRefund(h)
	case 5:
		for _, part := range sortedPenalties(c) {
			if r.IntN(4) == 0 {
				c.appeal(part, c.penalties[part].depositor)
			}
		}
	case 6:
		d := draft(m.t.(*testing.T))
		d.ProviderID, d.ModelID, d.ShareBasisPoints = id, fmt.Sprint("acme/", r.IntN(3)), []int32{1_000, 3_000}[r.IntN(2)]
		_, _ = m.keepers[r.IntN(2)].Open(ctx, d) // it may not fit beside others
	case 7:
		m.decide(r, id)
	case 8:
		_, _ = m.payers[0].Store.Ask(ctx, refund.ID(newID(m.t.(*testing.T))), id) // something may keep it
	case 9:
		if r.IntN(3) == 0 {
			_, _ = m.payers[0].Store.Cancel(ctx, id) // there may be none
		}
	case 10:
		m.books.pay(id, 500+r.Int64N(9_500))
	case 11:
		if r.IntN(4) == 0 {
			m.books.chargeBack(id)
		}
	case 13:
		m.books.fail(id)
	case 12:
		m.pass(m.t.(*testing.T), time.Duration(r.IntN(72))*time.Hour)
	default:
		c.mine()
	}
	m.work(r.IntN(2))
}

// decide has a provider appeal, or an operator decide.
func (m *market) decide(r *rand.Rand, id ids.ProviderID) {
	ctx := m.t.Context()
	list, _, err := m.stores[0].OfProvider(ctx, id, 0, 10)
	if err != nil {
		m.t.Fatal(err)
	}
	for _, p := range list {
		switch r.IntN(3) {
		case 0:
			_, _ = m.keepers[0].Appeal(ctx, p.ID, id, "It was the engine.") // it may be too late
		case 1:
			_, _ = m.keepers[1].Resolve(ctx, p.ID, r.IntN(2) == 0, "a look at the evidence") // it may be final
		}
	}
}

// settle lets everything come to its end.
func (m *market) settle() {
	for range 40 {
		for _, c := range m.chains {
			c.mine()
		}
		m.work(0)
		m.work(1)
		m.pass(m.t.(*testing.T), 20*time.Hour)
	}
	for range 200 { // an appealed penalty waits for an operator for ever
		for _, id := range m.providers {
			list, _, err := m.stores[0].OfProvider(m.t.Context(), id, 0, 200)
			if err != nil {
				m.t.Fatal(err)
			}
			for _, p := range list {
				if p.State == penalty.Appealed {
					if _, err := m.keepers[0].Resolve(m.t.Context(), p.ID, true, "a look"); err != nil {
						m.t.Fatal(err)
					}
				}
			}
		}
		for _, c := range m.chains {
			c.mine()
		}
		m.work(0)
		m.pass(m.t.(*testing.T), 5*time.Hour)
		if m.count(`SELECT count(*) FROM penalty_part WHERE state IN ('opened', 'escrowed', 'appealed')
			OR state = 'executed' AND ended_entry IS NULL`)+
			m.count(`SELECT count(*) FROM collateral_refund WHERE state IN ('asked', 'paying', 'repaying')`)+
			m.count(`SELECT count(*) FROM position_event WHERE units <> 0 AND entry_id IS NULL`)+
			m.count(`SELECT count(*) FROM card_collateral WHERE stale`) == 0 {
			return
		}
	}
	m.t.Error("after two months not everything has come to its end")
}

func (m *market) count(sql string, args ...any) (n int64) {
	if err := m.owner.QueryRow(m.t.Context(), sql, args...).Scan(&n); err != nil {
		m.t.Fatal(err)
	}
	return n
}

func TestWhatStandsBehindProvidersIsWhatContractsAndBooksHave(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			m := newMarket(t, seed)
			r := rand.New(rand.NewPCG(seed, 1))
			for range 250 {
				m.step(r)
			}
			m.settle()
			m.check(t)
			m.audited(t)
			m.tell(t)
		})
	}
}

// check compares positions, contracts and books.
func (m *market) check(t *testing.T) {
	t.Helper()
	for id, c := range m.chains {
		want := c.amount(c.all()).String()
		var got string
		if err := m.owner.QueryRow(t.Context(), `SELECT coalesce(sum(free + escrow), 0)::text FROM position
			WHERE chain_id = $1`, id).Scan(&got); err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("chain %s: positions are %s together, want %s, what the contract has", id, got, want)
		}
		rules, _ := m.terms.Of(id)
		if units, taken := m.count(`SELECT coalesce(sum(units), 0)::bigint FROM penalty_part WHERE chain_id = $1
			AND state = 'executed'`, id), m.books.treasury[id.String()]; units != taken {
			t.Errorf("chain %s: the books have %d units of slashes, want %d", id, taken, units)
		}
		for _, p := range m.providers {
			booked := m.count(`SELECT coalesce(sum(booked), 0)::bigint FROM position WHERE chain_id = $1 AND provider_id = $2`,
				id, p)
			if got := m.books.custody[p.String()+" "+rules.Asset.Name()]; got != booked {
				t.Errorf("chain %s: the books have %d in custody for %s, want %d", id, got, p, booked)
			}
		}
	}
	for id, a := range m.books.accounts {
		free := m.count(`SELECT coalesce((SELECT free_nano_usd FROM card_collateral WHERE provider_id = $1), 0)`, id)
		if b, _ := m.books.Balance(t.Context(), id, false); int64(b.Free) != free {
			t.Errorf("%s: by card %d are known, want %s", id, free, b.Free)
		}
		if a.escrow != 0 {
			t.Errorf("%s: %s of card collateral are in escrow at the end, want none", id, a.escrow)
		}
		if a.pending != 0 {
			t.Errorf("%s: on its way back at the end: got %s, want nothing", id, a.pending)
		}
	}
}

// addAct fails the test for each invariant that does not hold. No watcher stores the events of a model.
func (m *market) audited(t *testing.T) {
	t.Helper()
	report, err := m.positions[0].Audit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range report.Invariants {
		if i.Drift > 0 && i.Name != "events count once, and those of the watcher alone" {
			t.Errorf("%s: got %d drifts, want none: %v", i.Name, i.Drift, i.Examples)
		}
	}
}

// tell logs how often each end was reached, so that a change of the generator that leaves one out is seen.
func (m *market) tell(t *testing.T) {
	t.Helper()
	for _, sql := range []string{
		`SELECT string_agg(state || ' ' || n, ', ') FROM (SELECT (CASE WHEN chain_id IS NULL THEN 'card ' ELSE '' END)
			|| state AS state, count(*) AS n FROM penalty_part GROUP BY 1) AS x`,
		`SELECT string_agg(state || ' ' || n, ', ') FROM (SELECT state, count(*) AS n FROM collateral_refund
			GROUP BY 1) AS x`,
		`SELECT string_agg(state || ' ' || n, ', ') FROM (SELECT state, count(*) AS n FROM collateral_refund_part
			GROUP BY 1) AS x`,
		`SELECT string_agg('attempt ' || card_attempt || ' ' || n, ', ') FROM (SELECT card_attempt, count(*) AS n
			FROM collateral_refund_part WHERE chain_id IS NULL GROUP BY 1) AS x`,
		`SELECT string_agg(kind || ' ' || n, ', ') FROM (SELECT kind, count(*) AS n FROM position_event GROUP BY 1) AS x`,
		`SELECT string_agg(cause || ' ' || revision, ', ') FROM provider_suspension`,
	} {
		var told *string
		if err := m.owner.QueryRow(t.Context(), sql).Scan(&told); err != nil {
			t.Fatal(err)
		}
		if told != nil {
			t.Log(*told)
		}
	}
}
