package store_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/money"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/evm/evmtest"
	"svc.internal/services/settlement/internal/reserve"
	"svc.internal/services/settlement/internal/sending"
	"svc.internal/services/settlement/internal/store"
)

// sheet is the books of a test.
type sheet struct{ now reserve.Sheet }

func (s *sheet) Sheet(context.Context) (reserve.Sheet, error) { return s.now, nil }

// reserves is a chain with a treasury, and books that have 100 USDC.
type reserves struct {
	*chainWorld
	books    *sheet
	store    store.Reserves
	keeper   *reserve.Keeper
	treasury chain.Address
	salt     uint64
}

func newReserves(t *testing.T) *reserves {
	t.Helper()
	r := &reserves{chainWorld: newChainWorld(t, chain.Base, 2), treasury: evmtest.Address("treasury", 1),
		books: &sheet{reserve.Sheet{Tokens: map[string]int64{"8453:usdc": 100_000_000}, Crypto: 100 * money.USD,
			Consumers: 60 * money.USD, Providers: 40 * money.USD, At: time.Unix(1, 0)}}}
	r.store = store.Reserves{Store: store.New(r.pool)}
	cfg := r.reads.Config()
	cfg.Treasury = r.treasury.String()
	r.keeper = &reserve.Keeper{Store: r.store, Ledger: r.books, Every: time.Hour,
		Lookers: []reserve.Looker{{Rows: r.store, Node: r.reads, Config: cfg}}}
	return r
}

// receive has the treasury receive units of USDC in a final block.
func (r *reserves) receive(units uint64) {
	r.t.Helper()
	r.salt++
	r.chain.Mine(evmtest.Transfer(r.salt, r.token, r.treasury, usd(units)))
	r.chain.MineEmpty(2)
}

// look makes a reading, due or not.
func (r *reserves) look() error {
	r.t.Helper()
	r.exec(`UPDATE reserve_look SET due_at = now()`)
	return r.keeper.Pass(r.t.Context())
}

// later makes a reading in a later final block.
func (r *reserves) later() {
	r.t.Helper()
	r.chain.MineEmpty(1)
	if err := r.look(); err != nil {
		r.t.Fatal(err)
	}
}

// halt is the detail of the open halt; empty without one.
func (r *reserves) halt() string {
	r.t.Helper()
	return r.text(`SELECT coalesce(string_agg(detail, '|'), '') FROM sending_halt
		WHERE cause = 'reserves' AND lifted_at IS NULL`)
}

// call enqueues a call of a purpose.
func (r *reserves) call(purpose string) error {
	r.t.Helper()
	sends := store.Sending{Store: r.store.Store}
	next, err := sends.Next(r.t.Context(), chain.Base, sender, sending.Payout)
	if err != nil {
		r.t.Fatal(err)
	}
	p := prepared(purpose, next)
	p.Purpose = purpose
	return pgx.BeginFunc(r.t.Context(), r.pool, func(tx pgx.Tx) error {
		_, err := sends.Enqueue(r.t.Context(), tx, p)
		return err
	})
}

func TestReservesShortByOneUnitHaltPayoutsAndNothingElse(t *testing.T) {
	t.Parallel()
	r := newReserves(t)
	r.receive(99_999_999)
	r.later()
	if err := r.look(); err != nil { // in the same final block
		t.Fatal(err)
	}
	if got := r.halt(); got != "" {
		t.Fatalf("by readings of one block: got the halt %q, want none", got)
	}
	r.later()
	if got, want := r.halt(), "8453:usdc holds 99999999 units and owes 100000000"; got != want {
		t.Errorf("halt: got %q, want %q", got, want)
	}
	if err := r.call("payout"); !errors.Is(err, sending.ErrReserves) {
		t.Errorf("a payout: got the error %v, want %v", err, sending.ErrReserves)
	}
	for _, purpose := range []string{"sweep", "collateral_refund"} {
		if err := r.call(purpose); err != nil {
			t.Errorf("%s: got the error %v, want none", purpose, err)
		}
	}
	if halted, err := (store.Sending{Store: r.store.Store}).Halted(t.Context(), chain.Base); err != nil {
		t.Fatal(err)
	} else if halted {
		t.Error("all that is sent is halted: got true, want false")
	}
	r.receive(1)
	r.later()
	if r.halt() == "" {
		t.Error("covered once: got no halt, want that it stands")
	}
	r.later()
	if got := r.halt(); got != "" {
		t.Errorf("covered twice: got the halt %q, want none", got)
	}
	// There is no payout that the call pays, so it goes no further.
	if err := r.call("payout"); !refused(err, "the call of a payout pays it") {
		t.Errorf("a payout: got the error %v, want that it was enqueued", err)
	}
}

func TestNobodyLiftsTheHaltOfAShortfallThatStands(t *testing.T) {
	t.Parallel()
	r := newReserves(t)
	r.receive(1)
	r.later()
	r.later()
	sends := store.Sending{Store: r.store.Store}
	err := sends.Lift(t.Context(), chain.Base, sending.Reserves, "operator:ann", "all is well")
	if !fault.Is(err, fault.TransitionNotAllowed) {
		t.Errorf("lift: got the error %v, want the reason %s", err, fault.TransitionNotAllowed)
	}
	if r.halt() == "" {
		t.Error("got no halt, want that it stands")
	}
	for sql, says := range map[string]string{
		`UPDATE sending_halt SET lifted_at = now(), lifted_by = 'platform', reason = 'x'`: "a shortfall of chain 8453 stands",
		`INSERT INTO sending_halt (chain_id, cause, detail) VALUES (8453, 'operator', 'x');
			UPDATE sending_halt SET lifted_at = now(), lifted_by = 'platform', reason = 'x' WHERE cause = 'operator'`:
		// Halts of other causes are lifted by operators alone.
		"sending_halt_lifted_by",
		`UPDATE reserve SET in_row = in_row + 1, read_place = read_place + 1, confirmed = NOT confirmed`: "reserve_confirmed",
		`UPDATE reserve SET held = owed, in_row = 2, read_place = read_place + 1, confirmed = false`:     "does not follow",
		`UPDATE reserve SET in_row = in_row + 1`:                                                         "does not follow",
		`UPDATE reserve SET read_place = read_place - 1`:                                                 "does not follow",
		`UPDATE reserve SET held = owed, in_row = 1, confirmed = false`:                                  "does not follow",
		`UPDATE reserve SET subject = '1:usdc'`:                                                          "permission denied",
		`INSERT INTO reserve (subject, chain_id, read_place, held, owed, in_row, confirmed)
			VALUES ('1:usdc', 1, 1, 1, 1, 2, false)`: "confirms nothing",
		`INSERT INTO reserve (subject, chain_id, read_place, held, owed, in_row, confirmed)
			VALUES ('1:usdc', 254, 1, 1, 1, 1, false)`: "reserve_check",
		`DELETE FROM reserve`: "permission denied",
	} {
		if _, err := r.pool.Exec(t.Context(), sql); !refused(err, says) {
			t.Errorf("%s: got the error %v, want one with %q", sql, err, says)
		}
	}
}

func TestAChainThatIsNotKnownIsNeitherHaltedNorLifted(t *testing.T) {
	t.Parallel()
	understates := func(method string, result any) any {
		if method == "eth_call" {
			return "0x" + strings.Repeat("0", 64)
		}
		return result
	}
	for name, fail := range map[string]func(*evmtest.RPC){
		"one RPC is silent":     func(one *evmtest.RPC) { one.Down(true) },
		"one RPC says another":  func(one *evmtest.RPC) { one.Lie(understates) },
		"one RPC is far behind": func(one *evmtest.RPC) { one.Behind(1_000) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReserves(t)
			r.receive(100_000_000)
			r.later()
			fail(r.rpcs[1])
			for range 3 {
				r.chain.MineEmpty(1)
				if err := r.look(); name != "one RPC is far behind" && err == nil {
					t.Error("a look: got no error, want one")
				}
			}
			if got := r.halt(); got != "" {
				t.Errorf("got the halt %q, want none", got)
			}
		})
	}
	r := newReserves(t)
	r.receive(1)
	r.later()
	r.later()
	r.receive(100_000_000)
	r.rpcs[0].Down(true)
	for range 3 {
		r.chain.MineEmpty(1)
		if err := r.look(); err == nil {
			t.Error("a look: got no error, want one")
		}
	}
	if r.halt() == "" {
		t.Error("while it is not known: got no halt, want that it stands")
	}
}

// The operators of a chain's RPCs are trusted not to lie together. What they can do then: halt payouts, by a balance
// that is too small, or hide a shortfall. They pay nobody, and credit nobody.
func TestRPCsThatLieTogetherAreBelieved(t *testing.T) {
	t.Parallel()
	says := func(units uint64) func(string, any) any {
		return func(method string, result any) any {
			if method == "eth_call" {
				word := usd(units).Bytes()
				return evmtest.Data(word[:])
			}
			return result
		}
	}
	less := newReserves(t)
	less.receive(100_000_000)
	for _, rpc := range less.rpcs {
		rpc.Lie(says(99_999_999))
	}
	less.later()
	less.later()
	if less.halt() == "" {
		t.Error("they say less: got no halt, want one")
	}
	for _, rpc := range less.rpcs {
		rpc.Lie(nil)
	}
	less.later()
	less.later()
	if got := less.halt(); got != "" {
		t.Errorf("other RPCs are asked: got the halt %q, want none", got)
	}
	more := newReserves(t)
	for _, rpc := range more.rpcs {
		rpc.Lie(says(100_000_000))
	}
	more.later()
	more.later()
	if got := more.halt(); got != "" {
		t.Errorf("they say more: got the halt %q, want none", got)
	}
}

func TestTheBooksAsAWholeHaltEveryChain(t *testing.T) {
	t.Parallel()
	r := newReserves(t)
	r.receive(100_000_000)
	r.books.now.Providers++
	for second := range int64(3) {
		r.books.now.At = time.Unix(second+2, 0)
		if err := r.look(); err != nil {
			t.Fatal(err)
		}
	}
	want := "books holds 100000000000 nano-USD and owes 100000000001"
	if got := r.halt(); got != want {
		t.Errorf("halt: got %q, want %q", got, want)
	}
	r.keeper.Terms.OwnFunds = 1
	for second := range int64(2) {
		r.books.now.At = time.Unix(second+9, 0)
		if err := r.look(); err != nil {
			t.Fatal(err)
		}
	}
	if got := r.halt(); got != "" {
		t.Errorf("the owner stands for it: got the halt %q, want none", got)
	}
}

func TestTheContractHoldsWhatPositionsComeTo(t *testing.T) {
	t.Parallel()
	r := newReserves(t)
	r.receive(100_000_000)
	r.chain.Mine(evmtest.Coins(900, r.contract, usd(4)))
	r.chain.MineEmpty(2)
	by := r.watcher()
	r.catchUp(by)
	subject := make([]byte, 32)
	subject[0] = 1
	r.exec(`INSERT INTO position_event (chain_id, number, event, tx, place, kind, subject, depositor, amount, at,
		free_after, escrow_after, units) VALUES (8453, 1, 1, $1, 0, 'deposited', $1, $2, 5, now(), 5, 0, 0)`, subject,
		sender[:])
	r.exec(`INSERT INTO position (chain_id, subject, depositor, free, escrow, booked, counted, number)
		VALUES (8453, $1, $2, 5, 0, 0, true, 1)`, subject, sender[:])
	for range 2 {
		r.later()
		r.catchUp(by)
	}
	if err := r.look(); err != nil {
		t.Fatal(err)
	}
	want := "8453:collateral holds 4 units and owes 5"
	if got := r.halt(); got != want {
		t.Errorf("halt: got %q, want %q", got, want)
	}
}

func TestOfTwoProcessesOneMakesALook(t *testing.T) {
	t.Parallel()
	r := newReserves(t)
	for i, want := range []bool{true, false} {
		due, err := r.store.Due(t.Context(), chain.Base, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if due != want {
			t.Errorf("look %d: due: got %t, want %t", i, due, want)
		}
	}
}
