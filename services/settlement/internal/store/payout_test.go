package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/pkg/pgtest"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/payout"
	"svc.internal/services/settlement/internal/payoutsim/memory"
	"svc.internal/services/settlement/internal/sending"
	"svc.internal/services/settlement/internal/store"
)

// user is who asks for payouts.
const user = "user:0192f0c0-0000-7000-8000-000000000001"

var (
	hot  = chain.Address{0: 0xaa, 19: 9}
	usdc = chain.Address{0: 0xcc}
)

// both are the two implementations of the stores.
type both struct {
	payout.Store
	calls sending.Store
}

func kinds(t *testing.T) map[string]both {
	t.Helper()
	st := store.New(pgtest.Pool(t, store.Schema, store.Role, store.Migrations))
	db := memory.New(time.Now, chain.Base)
	return map[string]both{
		"PostgreSQL": {store.Payouts{Store: st}, store.Sending{Store: st}},
		"memory":     {memory.Payouts{DB: db}, db},
	}
}

func provider(t *testing.T) ids.ProviderID {
	t.Helper()
	return ids.ProviderID(newID(t))
}

func operationOf(id ids.ProviderID, key string) payout.Operation {
	return payout.Operation{ProviderID: id, Key: key, Digest: [32]byte{1}, Actor: user}
}

func anyChain(chain.ID) error { return nil }

// ask inserts a payout.
func (b both) ask(t *testing.T, id ids.ProviderID, gross money.NanoUSD) payout.Payout {
	t.Helper()
	p, fresh, err := b.Insert(t.Context(), payout.Draft{ID: payout.ID(newID(t)), ProviderID: id, Gross: gross,
		Fee: payout.Fee, Address: chain.Address{7}}, operationOf(id, "k"+newID(t).String()), anyChain)
	if err != nil {
		t.Fatalf("insert: got the error %v, want none", err)
	}
	if !fresh {
		t.Fatalf("insert: got fresh %t, want a payout", fresh)
	}
	return p
}

// change is what a step sets.
type change func(*payout.Payout, *payout.Step)

// move changes a payout.
func (b both) move(
	ctx context.Context, id payout.ID, cause payout.Cause, to payout.State, set change,
) (payout.Payout, error) {
	return b.Change(ctx, id, func(p *payout.Payout) (payout.Step, error) {
		step := payout.Step{Entry: payout.Entry{Revision: p.Revision + 1, From: p.State, To: to, Cause: cause,
			Actor: "platform"}}
		p.State, p.Revision = to, p.Revision+1
		set(p, &step)
		return step, nil
	})
}

// must is move without an error.
func (b both) must(t *testing.T, id payout.ID, cause payout.Cause, to payout.State, set change) payout.Payout {
	t.Helper()
	p, err := b.move(t.Context(), id, cause, to, set)
	if err != nil {
		t.Fatalf("%s to %s: got the error %v, want none", cause, to, err)
	}
	return p
}

func nothing(*payout.Payout, *payout.Step) {}

func reserved(p *payout.Payout, _ *payout.Step) { p.Reserved = ids.EntryID{1} }

// approved is a payout that may be sent.
func (b both) approved(t *testing.T) payout.Payout {
	t.Helper()
	p := b.ask(t, provider(t), 100*money.USD)
	b.must(t, p.ID, payout.Reserve, payout.Requested, reserved)
	return b.must(t, p.ID, payout.Approve, payout.Approved, nothing)
}

// signing is a payout with its call.
func (b both) signing(t *testing.T) payout.Payout {
	t.Helper()
	p := b.approved(t)
	if _, err := b.calls.Next(t.Context(), chain.Base, hot, sending.Payout); err != nil {
		t.Fatal(err)
	}
	return b.must(t, p.ID, payout.Send, payout.Signing,
		func(p *payout.Payout, step *payout.Step) { sends(p, step, p.Address) })
}

func sends(p *payout.Payout, step *payout.Step, to chain.Address) {
	p.Amount = chain.NewAmount(uint64(p.Net() / 1_000))
	step.Call = &sending.Prepared{Request: sending.Request{Chain: chain.Base, Key: sending.Payout, Purpose: payout.Purpose,
		Ref: p.ID.String(), To: usdc, Data: sending.Transfer(to, p.Amount)}, Sender: hot, Gas: 60_000}
}

// ended is a payout whose transaction has ended.
func (b both) ended(t *testing.T, outcome sending.Outcome) payout.Payout {
	t.Helper()
	p := b.signing(t)
	s, ok, err := b.Call(t.Context(), p.ID)
	if err != nil {
		t.Fatalf("got the error %v, want none", err)
	}
	if !ok {
		t.Fatalf("got the call %t, want it", ok)
	}
	tx := sending.Signed{Hash: chain.Hash{byte(s.Call.Nonce), 5}, Raw: []byte{1}, Cancels: outcome == sending.Cancelled,
		Fees: chain.Fees{Max: chain.NewAmount(2)}}
	if err := b.calls.AddSigned(t.Context(), s.Call, tx); err != nil {
		t.Fatal(err)
	}
	p = b.must(t, p.ID, payout.Submit, payout.Submitted, nothing)
	end := sending.End{Outcome: outcome, Transaction: tx.Hash}
	if err := b.calls.AddEnd(t.Context(), s.Call.Place(), end); err != nil {
		t.Fatal(err)
	}
	return p
}

// addLate adds a payment and a cancel to a call that has ended: one is taken.
func (b both) addLate(t *testing.T, outcome sending.Outcome, cancels bool) error {
	t.Helper()
	s, _, err := b.Call(t.Context(), b.ended(t, outcome).ID)
	if err != nil {
		return err
	}
	tx := sending.Signed{Hash: chain.Hash{byte(s.Call.Nonce), 6}, Try: 1, Raw: []byte{1}, Cancels: !cancels,
		Fees: chain.Fees{Max: chain.NewAmount(3)}}
	if err := b.calls.AddSigned(t.Context(), s.Call, tx); !errors.Is(err, sending.ErrOther) {
		return fmt.Errorf("what denies the end: got the error %w, want %w", err, sending.ErrOther)
	}
	tx.Cancels = cancels
	if err := b.calls.AddSigned(t.Context(), s.Call, tx); err != nil {
		return fmt.Errorf("what agrees with the end: got the error %w, want none", err)
	}
	return nil
}

func final(p *payout.Payout, _ *payout.Step) { p.Final = ids.EntryID{2} }

// conformance are the cases that both stores are held to.
var conformance = map[string]func(t *testing.T, b both) error{
	"a payment that ended takes higher fees, and no cancel": func(t *testing.T, b both) error {
		return b.addLate(t, sending.Succeeded, false)
	},
	"a payment that failed takes a cancel, and nothing else": func(t *testing.T, b both) error {
		return b.addLate(t, sending.Reverted, true)
	},
	"a cancel that ended takes higher fees, and no payment": func(t *testing.T, b both) error {
		return b.addLate(t, sending.Cancelled, true)
	},
	"a payout goes to its end": func(t *testing.T, b both) error {
		p := b.ended(t, sending.Succeeded)
		p = b.must(t, p.ID, payout.Confirm, payout.Confirmed, final)
		if p.Transaction.IsZero() || p.Final.IsZero() {
			return fmt.Errorf("got %+v, want its transaction and entry", p)
		}
		_, err := b.move(t.Context(), p.ID, payout.Fail, payout.Failed, nothing)
		return wantRefusal("a final payout changes", err)
	},
	"a reverted payout fails": func(t *testing.T, b both) error {
		p := b.ended(t, sending.Reverted)
		if _, err := b.move(t.Context(), p.ID, payout.Confirm, payout.Confirmed, final); err == nil {
			return errors.New("confirmed without a receipt: got no error, want one")
		}
		b.must(t, p.ID, payout.Fail, payout.Failed, final)
		return nil
	},
	"a payout does not fail before its transaction has ended": func(t *testing.T, b both) error {
		_, err := b.move(t.Context(), b.signing(t).ID, payout.Fail, payout.Failed, final)
		return wantRefusal("signing to failed", err)
	},
	"one at a time": func(t *testing.T, b both) error {
		p := b.ask(t, provider(t), 10*money.USD)
		_, _, err := b.Insert(t.Context(), payout.Draft{ID: payout.ID(newID(t)), ProviderID: p.ProviderID, Gross: p.Gross,
			Fee: p.Fee, Address: p.Address}, operationOf(p.ProviderID, "other"), anyChain)
		return wantReason(err, fault.PayoutPending)
	},
	"one an hour, whatever its end": func(t *testing.T, b both) error {
		p := b.ask(t, provider(t), 10*money.USD)
		b.must(t, p.ID, payout.Refuse, payout.Failed, nothing)
		_, _, err := b.Insert(t.Context(), payout.Draft{ID: payout.ID(newID(t)), ProviderID: p.ProviderID, Gross: p.Gross,
			Fee: p.Fee, Address: p.Address}, operationOf(p.ProviderID, "other"), anyChain)
		return wantReason(err, fault.PayoutTooFrequent)
	},
	"an operation has one payout": func(t *testing.T, b both) error {
		op := operationOf(provider(t), "k")
		var first payout.Payout
		for i := range 2 {
			p, fresh, err := b.Insert(t.Context(), payout.Draft{ID: payout.ID(newID(t)), ProviderID: op.ProviderID,
				Gross: payout.Minimum, Fee: payout.Fee, Address: chain.Address{7}}, op, anyChain)
			switch {
			case err != nil || fresh != (i == 0):
				return fmt.Errorf("time %d: got fresh %t and the error %w", i, fresh, err)
			case i == 0:
				first = p
			case p.ID != first.ID:
				return fmt.Errorf("got payout %s, want %s", p.ID, first.ID)
			}
		}
		op.Digest[0]++
		_, _, err := b.Known(t.Context(), op)
		return wantReason(err, fault.IdempotencyKeyReused)
	},
	"a day has its bound": func(t *testing.T, b both) error {
		for i, want := range []error{nil, payout.ErrDayFull} {
			p := b.ask(t, provider(t), 900*money.USD)
			b.must(t, p.ID, payout.Reserve, payout.Requested, reserved)
			_, err := b.move(t.Context(), p.ID, payout.Approve, payout.Approved,
				func(_ *payout.Payout, step *payout.Step) { step.DayCap = 1_000 * money.USD })
			if !errors.Is(err, want) {
				return fmt.Errorf("payout %d: got the error %w, want %v", i, err, fmt.Sprint(want))
			}
		}
		return nil
	},
	"what is given back does not use up the day of others": func(t *testing.T, b both) error {
		for i := range 3 {
			p := b.ask(t, provider(t), 900*money.USD)
			b.must(t, p.ID, payout.Reserve, payout.Requested, reserved)
			if _, err := b.move(t.Context(), p.ID, payout.Approve, payout.Approved,
				func(_ *payout.Payout, step *payout.Step) { step.DayCap = 1_000 * money.USD }); err != nil {
				return fmt.Errorf("payout %d: got the error %w, want none", i, err)
			}
			b.must(t, p.ID, payout.Reject, payout.Approved,
				func(p *payout.Payout, _ *payout.Step) { p.EndsAs, p.Reason = payout.Failed, "it is reverted" })
			b.must(t, p.ID, payout.End, payout.Failed,
				func(p *payout.Payout, step *payout.Step) { p.Final, step.Unpaid = ids.EntryID{2}, true })
		}
		return nil
	},
	"conversions of a provider have a bound": func(t *testing.T, b both) error {
		id := provider(t)
		for i := range payout.MaxConversions {
			if _, err := b.convert(t, operationOf(id, fmt.Sprint(i))); err != nil {
				return err
			}
		}
		if _, err := b.convert(t, operationOf(id, "0")); err != nil {
			return fmt.Errorf("an operation again: got the error %w, want its conversion", err)
		}
		if _, err := b.convert(t, operationOf(provider(t), "0")); err != nil {
			return fmt.Errorf("another provider: got the error %w, want a conversion", err)
		}
		_, err := b.convert(t, operationOf(id, "beyond"))
		return wantReason(err, fault.RateLimitExceeded)
	},
	"a halted chain takes nothing, and the payout stays": func(t *testing.T, b both) error {
		p := b.approved(t)
		if _, err := b.calls.Next(t.Context(), chain.Base, hot, sending.Payout); err != nil {
			return err
		}
		if err := b.calls.Halt(t.Context(), chain.Base, sending.NonceAhead, "test"); err != nil {
			return err
		}
		_, err := b.move(t.Context(), p.ID, payout.Send, payout.Signing,
			func(p *payout.Payout, step *payout.Step) { sends(p, step, p.Address) })
		if !errors.Is(err, sending.ErrHalted) {
			return fmt.Errorf("got the error %w, want %w", err, sending.ErrHalted)
		}
		now, err := b.Get(t.Context(), p.ID)
		if err == nil && now.State != payout.Approved {
			err = fmt.Errorf("got %s, want approved", now.State)
		}
		return err
	},
	"what is on its way is summed": func(t *testing.T, b both) error {
		b.signing(t)
		b.ended(t, sending.Succeeded)
		sum, err := b.InFlight(t.Context(), chain.Base)
		if want := chain.NewAmount(99_000_000); err == nil && sum != want {
			err = fmt.Errorf("got %s, want %s", sum, want)
		}
		return err
	},
	"a conversion ends once": func(t *testing.T, b both) error {
		op := operationOf(provider(t), "c")
		c, err := b.InsertConversion(t.Context(), payout.Conversion{ID: payout.ID(newID(t)), ProviderID: op.ProviderID,
			Account: ids.AccountID(newID(t)), Amount: money.USD}, op)
		if err != nil {
			return err
		}
		open, err := b.Conversions(t.Context(), 10)
		if err != nil || len(open) != 1 {
			return fmt.Errorf("open: got %d and the error %w, want 1", len(open), err)
		}
		c.Entry = ids.EntryID{3}
		if _, err := b.EndConversion(t.Context(), c); err != nil {
			return err
		}
		c.Entry = ids.EntryID{4}
		if c, err = b.EndConversion(t.Context(), c); err == nil && c.Entry != (ids.EntryID{3}) {
			err = fmt.Errorf("got %s, want the first entry", c.Entry)
		}
		return err
	},
	"nobody's payout": func(t *testing.T, b both) error {
		_, err := b.Get(t.Context(), payout.ID(newID(t)))
		return wantReason(err, payout.NotFound)
	},
	"open payouts are those that have not ended": func(t *testing.T, b both) error {
		p := b.approved(t)
		if err := b.Note(t.Context(), p.ID, payout.WalletLow, "passed v1"); err != nil {
			return err
		}
		open, err := b.Open(t.Context(), 10)
		if err != nil || len(open) != 1 || open[0] != p.ID {
			return fmt.Errorf("got %v and the error %w, want %s", open, err, p.ID)
		}
		backlog, err := b.Backlog(t.Context())
		if err == nil && (backlog.Open[payout.Approved] != 1 || backlog.Waiting[payout.WalletLow] != 1) {
			err = fmt.Errorf("got %+v, want one approved that waits for the wallet", backlog)
		}
		return err
	},
}

// convert inserts a conversion.
func (b both) convert(t *testing.T, op payout.Operation) (payout.Conversion, error) {
	t.Helper()
	return b.InsertConversion(t.Context(), payout.Conversion{ID: payout.ID(newID(t)), ProviderID: op.ProviderID,
		Account: ids.AccountID(newID(t)), Amount: money.USD}, op)
}

func wantReason(err error, want fault.Reason) error {
	if !fault.Is(err, want) {
		return fmt.Errorf("got the error %w, want %s", err, want)
	}
	return nil
}

func wantRefusal(what string, err error) error {
	if err == nil {
		return fmt.Errorf("%s: got no error, want one", what)
	}
	return nil
}

func TestBothStoresOfPayoutsKeepTheSameRules(t *testing.T) {
	t.Parallel()
	for name, check := range conformance {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for kind, b := range kinds(t) {
				if err := check(t, b); err != nil {
					t.Errorf("%s: %v", kind, err)
				}
			}
		})
	}
}

func TestTheDatabaseHasTheTransitionsOfPayouts(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t, store.Schema, store.Role, store.Migrations)
	want := map[string]bool{}
	for _, from := range payout.States() {
		for _, cause := range payout.Causes() {
			for _, to := range from.After(cause) {
				if to != from {
					want[string(from)+">"+string(to)] = true
				}
			}
		}
	}
	got := scanPairs(t, pool)
	if len(got) != len(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for pair := range got {
		if !want[pair] {
			t.Errorf("the database has %s, which the domain does not have", pair)
		}
	}
}

func scanPairs(t *testing.T, pool *pgxpool.Pool) map[string]bool {
	t.Helper()
	rows, err := pool.Query(t.Context(), `SELECT from_state || '>' || to_state FROM payout_transition`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	got := map[string]bool{}
	for rows.Next() {
		var pair string
		if err := rows.Scan(&pair); err != nil {
			t.Fatal(err)
		}
		got[pair] = true
	}
	return got
}

// noWait checks that a provider may ask for a payout now.
func (b both) noWait(t *testing.T, what string, id ids.ProviderID) {
	t.Helper()
	next, err := b.NextAt(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if !next.IsZero() {
		t.Errorf("%s: got %v, want no wait", what, next)
	}
}

func TestTheNextPayoutWaitsForTheHourOfTheNewestOnItsChain(t *testing.T) {
	t.Parallel()
	for name, b := range kinds(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id := provider(t)
			b.noWait(t, "no payout", id)
			p := b.ask(t, id, 100*money.USD)
			next, err := b.NextAt(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			if want := p.RequestedAt.Add(payout.Every); !next.Equal(want) {
				t.Errorf("a payout: got %v, want %v", next, want)
			}
			b.noWait(t, "another provider", provider(t))
		})
	}
}

func TestAPayoutOnAnotherChainIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	st := store.New(pgtest.Pool(t, store.Schema, store.Role, store.Migrations))
	b := both{store.Payouts{Store: st}, store.Sending{Store: st}}
	id := provider(t)
	b.ask(t, id, 100*money.USD)
	moves := store.SettlementChains{Store: st}
	if err := moves.SetSettlementChain(t.Context(), id, chain.Ethereum, "provider"); err != nil {
		t.Fatal(err)
	}
	b.noWait(t, "another chain", id)
}

func TestApprovalsKeepWhoAndWhen(t *testing.T) {
	t.Parallel()
	for name, b := range kinds(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := b.ask(t, provider(t), 10_001*money.USD)
			b.must(t, p.ID, payout.Reserve, payout.Requested, reserved)
			for _, step := range []struct {
				actor string
				cause payout.Cause
				to    payout.State
			}{{"operator:bob@2", payout.Consent, payout.Requested}, {"operator:ann@1", payout.Approve, payout.Approved}} {
				if _, err := b.Change(t.Context(), p.ID, func(p *payout.Payout) (payout.Step, error) {
					out := payout.Step{Entry: payout.Entry{Revision: p.Revision + 1, From: p.State, To: step.to,
						Cause: step.cause, Actor: step.actor, Reason: "it is due"}, Consents: true}
					p.State, p.Revision = step.to, p.Revision+1
					p.Consents = append(p.Consents, payout.Approval{Operator: step.actor})
					return out, nil
				}); err != nil {
					t.Fatal(err)
				}
			}
			p, err := b.Get(t.Context(), p.ID)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := fmt.Sprint(operators(p.Consents)), "[operator:bob@2 operator:ann@1]"; got != want {
				t.Fatalf("got %s, want %s", got, want)
			}
			moments := []time.Time{p.RequestedAt, p.Consents[0].At, p.Consents[1].At}
			if !slices.IsSortedFunc(moments, time.Time.Compare) {
				t.Errorf("asked for and approved twice: got %v, want these in order", moments)
			}
		})
	}
}
