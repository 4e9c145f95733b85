package store_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/pgtest"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/position"
	"svc.internal/services/settlement/internal/sending"
	"svc.internal/services/settlement/internal/store"
)

// fair is a database in whose lists something fails of one of two.
type fair struct {
	*store.Store
	pool *pgxpool.Pool
}

func (f fair) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := f.pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

// What cannot be done stays at the head of its list. Lists are read from their heads, as many rows as one pass does, so
// what fails of one chain, account or provider must not fill them.
func TestWhatFailsOfOneKeepsNobodyElseWaiting(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t, store.Schema, store.Role, store.Migrations)
	f := fair{store.New(pool), pool}
	for i := range 4 {
		f.exec(t, `INSERT INTO deposit_address (deposit_index, account_id, address) VALUES ($1, gen_random_uuid(), $2)`, i,
			[]byte{19: byte(i + 1)})
	}
	t.Run("sweeps of a halted chain", f.sweepsOfAHaltedChain)
	t.Run("costs in a coin without a price", f.costsWithoutAPrice)
	t.Run("deposits of an account that the books refuse", f.refusedDeposits)
	t.Run("positions of a provider whom the books refuse", f.refusedPositions)
}

func (f fair) sweepsOfAHaltedChain(t *testing.T) {
	for i := range 3 {
		f.exec(t, `INSERT INTO sweep (chain_id, deposit_index, token, amount, day)
			VALUES (254, $1, '254:native', 1, now())`, i)
	}
	f.exec(t, `INSERT INTO sweep (chain_id, deposit_index, token, amount, day) VALUES (8453, 0, '8453:usdc', 1, now())`)
	list, err := store.Sweeps{Store: f.Store}.Planned(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	var chains []chain.ID
	for _, one := range list {
		chains = append(chains, one.Chain)
	}
	wantEach(t, chains, chain.SVC, chain.Base)
}

func (f fair) costsWithoutAPrice(t *testing.T) {
	for _, one := range []struct {
		on    chain.ID
		calls int
	}{{chain.SVC, 3}, {chain.Base, 1}} {
		for i := range one.calls {
			endCall(t, sent{f.pool, store.Sending{Store: f.Store}}, one.on, i)
		}
	}
	list, err := store.Sending{Store: f.Store}.GasDue(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	var chains []chain.ID
	for _, one := range list {
		chains = append(chains, one.Chain)
	}
	wantEach(t, chains, chain.SVC, chain.Base)
}

func (f fair) refusedDeposits(t *testing.T) {
	for place, index := range []int{1, 1, 1, 2} {
		f.exec(t, `INSERT INTO transfer (chain_id, tx_hash, place, block, block_hash, at, token, sender, deposit_index,
				amount, units, dust, state)
			VALUES (8453, $1, $2, 1, $1, now(), '8453:usdc', $3, $4, 5000000, 5000000, 0, 'final')`, make([]byte, 32),
			place, []byte{19: 9}, index)
	}
	f.exec(t, `UPDATE transfer SET decision = 'stray'`)
	list, err := store.Deposits{Store: f.Store}.Due(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	var indices []uint32
	for _, one := range list {
		indices = append(indices, one.Index)
	}
	wantEach(t, indices, 1, 2)
}

func (f fair) refusedPositions(t *testing.T) {
	refused, other := provider(t), provider(t)
	for i, id := range []ids.ProviderID{refused, refused, refused, other} {
		f.exec(t, `INSERT INTO position_event (chain_id, number, event, tx, place, kind, subject, depositor, provider_id,
				amount, at, free_after, escrow_after, units)
			VALUES (8453, $1::int, $1::int, $2, $1::int, 'deposited', $3, $4, $5, 1, now(), 1, 0, 1)`, i+1, make([]byte, 32),
			append(id[:], make([]byte, 16)...), []byte{19: 1}, id)
	}
	list, err := store.Positions{Store: f.Store, Terms: position.Terms{}}.Unposted(t.Context(), chain.Base, 3)
	if err != nil {
		t.Fatal(err)
	}
	var numbers []int64
	for _, one := range list {
		numbers = append(numbers, one.Number)
	}
	if want := "[1 4 2]"; fmt.Sprint(numbers) != want {
		t.Errorf("got the events %v, want %s: each provider's first, and each in its order", numbers, want)
	}
}

// wantEach fails the test unless a list has each of two once.
func wantEach[T comparable](t *testing.T, got []T, a, b T) {
	t.Helper()
	if len(got) != 2 {
		t.Errorf("got %d of %v, want 2", len(got), got)
	}
	for _, want := range []T{a, b} {
		if !slices.Contains(got, want) {
			t.Errorf("got those of %v, want one of %v", got, want)
		}
	}
}

// endCall has a call of a chain end that cost something.
func endCall(t *testing.T, s sent, on chain.ID, n int) {
	t.Helper()
	from := chain.Address{18: byte(on), 19: 1}
	if _, err := s.store.Next(t.Context(), on, from, sending.Gas); err != nil {
		t.Fatal(err)
	}
	p := sending.Prepared{Request: sending.Request{Chain: on, Key: sending.Gas, Purpose: "test",
		Ref: fmt.Sprintf("%s/%d", on, n), To: chain.Address{1}}, Sender: from, Gas: 50_000}
	c, err := s.enqueue(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	tx := sending.Signed{Hash: chain.Hash{byte(on), byte(n), 7}, Raw: []byte{2},
		Fees: chain.Fees{Max: chain.NewAmount(9), Tip: chain.NewAmount(1)}}
	if err := s.store.AddSigned(t.Context(), c, tx); err != nil {
		t.Fatal(err)
	}
	end := sending.End{Outcome: sending.Succeeded, Transaction: tx.Hash, Cost: chain.NewAmount(5_000_000_000)}
	if err := s.store.AddEnd(t.Context(), c.Place(), end); err != nil {
		t.Fatal(err)
	}
}
