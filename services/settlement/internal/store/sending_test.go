package store_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"svc.internal/pkg/pgtest"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/sending"
	"svc.internal/services/settlement/internal/store"
)

var sender = chain.Address{19: 7}

// sent is a database with a sender on chain 8453.
type sent struct {
	pool  *pgxpool.Pool
	store store.Sending
}

func newSent(t *testing.T) sent {
	t.Helper()
	pool := pgtest.Pool(t, store.Schema, store.Role, store.Migrations)
	s := sent{pool, store.Sending{Store: store.New(pool)}}
	if _, err := s.store.Next(t.Context(), chain.Base, sender, sending.Operator); err != nil {
		t.Fatal(err)
	}
	return s
}

func prepared(ref string, next uint64) sending.Prepared {
	return sending.Prepared{Request: sending.Request{Chain: chain.Base, Key: sending.Operator, Purpose: "test", Ref: ref,
		To: chain.Address{1}, Data: []byte(ref)}, Sender: sender, Gas: 50_000, Next: next}
}

func (s sent) enqueue(ctx context.Context, p sending.Prepared) (c sending.Call, err error) {
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		c, err = s.store.Enqueue(ctx, tx, p)
		return err
	})
	return c, err
}

// must enqueues a call.
func (s sent) must(t *testing.T, ref string) sending.Call {
	t.Helper()
	c, err := s.enqueue(t.Context(), prepared(ref, 0))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// sign stores a transaction of a call.
func (s sent) sign(t *testing.T, c sending.Call, try int, cancels bool) sending.Signed {
	t.Helper()
	tx := sending.Signed{Hash: chain.Hash{byte(c.Nonce), byte(try), 9}, Try: try, Cancels: cancels, Raw: []byte{2},
		Fees: chain.Fees{Max: chain.NewAmount(9), Tip: chain.NewAmount(1)}}
	if err := s.store.AddSigned(t.Context(), c, tx); err != nil {
		t.Fatal(err)
	}
	return tx
}

func (s sent) end(t *testing.T, c sending.Call, tx sending.Signed, o sending.Outcome) {
	t.Helper()
	if err := s.store.AddEnd(t.Context(), c.Place(), sending.End{Outcome: o, Transaction: tx.Hash}); err != nil {
		t.Fatal(err)
	}
}

func TestCallsTakeTheNoncesOfASenderOneByOne(t *testing.T) {
	t.Parallel()
	s := newSent(t)
	group, ctx := errgroup.WithContext(t.Context())
	for _, ref := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		for range 2 { // both processes ask for each
			group.Go(func() error {
				_, err := s.enqueue(ctx, prepared(ref, 0))
				return err
			})
		}
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	var nonces string
	if err := s.pool.QueryRow(t.Context(), `SELECT string_agg(nonce::text, ' ' ORDER BY nonce) FROM chain_call`).Scan(
		&nonces); err != nil {
		t.Fatal(err)
	}
	if want := "0 1 2 3 4 5 6 7"; nonces != want {
		t.Errorf("nonces: got %q, want %q", nonces, want)
	}
	if next, err := s.store.Next(t.Context(), chain.Base, sender, sending.Operator); err != nil {
		t.Errorf("next: got the error %v, want none", err)
	} else if next != 8 {
		t.Errorf("next: got %d, want 8", next)
	}
}

func TestOfAPurposeAndRefThereIsOneCall(t *testing.T) {
	t.Parallel()
	s := newSent(t)
	first := s.must(t, "a")
	s.must(t, "b")
	if again := s.must(t, "a"); again.Nonce != first.Nonce {
		t.Errorf("again: got nonce %d, want %d", again.Nonce, first.Nonce)
	} else if again.Hash != first.Hash {
		t.Errorf("again: got the hash %s, want %s", again.Hash, first.Hash)
	}
	other := prepared("a", 0)
	other.Data = []byte("other")
	if c, err := s.enqueue(t.Context(), other); err == nil {
		t.Errorf("another content: got nonce %d, want an error", c.Nonce)
	}
}

func TestNothingIsEnqueuedBehindWhatTheWorldKnows(t *testing.T) {
	t.Parallel()
	s := newSent(t)
	s.must(t, "a")
	if _, err := s.enqueue(t.Context(), prepared("b", 2)); !errors.Is(err, sending.ErrHalted) {
		t.Errorf("a nonce is known that the database does not have: got the error %v, want %v", err, sending.ErrHalted)
	}
	if err := s.store.Halt(t.Context(), chain.Base, sending.NonceAhead, "test"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.enqueue(t.Context(), prepared("b", 1)); !errors.Is(err, sending.ErrHalted) {
		t.Errorf("halted: got the error %v, want %v", err, sending.ErrHalted)
	}
	if err := s.store.Lift(t.Context(), chain.Base, sending.NonceAhead, "operator:ann", "looked"); err != nil {
		t.Fatal(err)
	}
	wantActs(t, s.pool, "operator:ann lift_sending_halt 8453")
	if _, err := s.enqueue(t.Context(), prepared("b", 1)); err != nil {
		t.Errorf("lifted: got the error %v, want none", err)
	}
}

func TestAtMostSixteenCallsOfASenderWait(t *testing.T) {
	t.Parallel()
	s := newSent(t)
	first := s.must(t, "0")
	for i := range sending.MaxUnmined - 1 {
		s.must(t, strings.Repeat("x", i+1))
	}
	if _, err := s.enqueue(t.Context(), prepared("more", 0)); !errors.Is(err, sending.ErrBusy) {
		t.Errorf("one more: got the error %v, want %v", err, sending.ErrBusy)
	}
	s.end(t, first, s.sign(t, first, 0, false), sending.Succeeded)
	if _, err := s.enqueue(t.Context(), prepared("more", 0)); err != nil {
		t.Errorf("once one has ended: got the error %v, want none", err)
	}
}

func TestACallIsReadWithAllThatCameOfIt(t *testing.T) {
	t.Parallel()
	s := newSent(t)
	c := s.must(t, "a")
	s.sign(t, c, 0, false)
	err := pgx.BeginFunc(t.Context(), s.pool, func(tx pgx.Tx) error {
		return s.store.CancelCall(t.Context(), tx, c.Place(), "operator:ann", "wrong address")
	})
	if err != nil {
		t.Fatal(err)
	}
	wantActs(t, s.pool, "operator:ann cancel_call a")
	cancel := s.sign(t, c, 1, true)
	waiting, err := s.store.Waiting(t.Context(), chain.Base, 10)
	if err != nil {
		t.Fatalf("waiting: got the error %v, want none", err)
	}
	if len(waiting) != 1 {
		t.Fatalf("waiting: got %d, want 1", len(waiting))
	}
	s.end(t, c, cancel, sending.Cancelled)
	got, ok, err := s.store.Call(t.Context(), "test", "a")
	if err != nil {
		t.Fatalf("got the error %v, want none", err)
	}
	if !ok {
		t.Fatalf("got %t, want the call", ok)
	}
	if len(got.Signed) != 2 {
		t.Errorf("got %d transactions, want the first and its cancel", len(got.Signed))
	} else if !got.Signed[1].Cancels {
		t.Errorf("got %+v, want a cancel at the end", got.Signed)
	} else if got.Signed[0].Cancels {
		t.Errorf("got %+v, want no cancel at the beginning", got.Signed)
	} else if !got.CancelAsked {
		t.Error("got a call whose cancel nobody asked for, want one asked for")
	}
	if got.End == nil {
		t.Errorf("end: got none, want cancelled by %s", cancel.Hash)
	} else if got.End.Outcome != sending.Cancelled {
		t.Errorf("end: got %s, want %s", got.End.Outcome, sending.Cancelled)
	} else if got.End.Transaction != cancel.Hash {
		t.Errorf("end: got the transaction %s, want %s", got.End.Transaction, cancel.Hash)
	}
	if err := s.store.AddSigned(t.Context(), c, sending.Signed{Hash: chain.Hash{1}, Try: 2, Raw: []byte{1},
		Fees: chain.Fees{Max: chain.NewAmount(1)}}); !errors.Is(err, sending.ErrOther) {
		t.Errorf("a transaction of an ended call: got the error %v, want %v", err, sending.ErrOther)
	}
	if late, err := s.store.Late(t.Context(), chain.Base, sending.Place{}, 10); err != nil {
		t.Errorf("ended lately: got the error %v, want none", err)
	} else if len(late) != 1 {
		t.Errorf("ended lately: got %d, want 1", len(late))
	}
}

func TestTheDatabaseKeepsNoncesAndContents(t *testing.T) {
	t.Parallel()
	s := newSent(t)
	c := s.must(t, "a")
	tx := s.sign(t, c, 0, false)
	owner := pgtest.Owner(t, s.pool)
	const call = `INSERT INTO chain_call (chain_id, sender, nonce, purpose, ref, recipient, value, data, gas_limit,
		call_hash)
		VALUES (8453, '\x0000000000000000000000000000000000000007', %nonce, 'test', %ref,
		'\x0100000000000000000000000000000000000000', 0, '', 21000, decode(repeat('00', 32), 'hex'))`
	const signed = `INSERT INTO signed_tx (hash, chain_id, sender, nonce, try, call_hash, raw, max_fee, tip) VALUES
		(decode(repeat('aa', 32), 'hex'), 8453, '\x0000000000000000000000000000000000000007', 0, %try,
		decode(repeat('bb', 32), 'hex'), '\x01', 1, 1)`
	for name, attack := range map[string]struct {
		asOwner bool
		sql     string
		says    string
	}{
		"a nonce twice":            {false, put(call, "%nonce", "0", "%ref", "'b'"), "does not follow"},
		"a nonce beyond":           {false, put(call, "%nonce", "2", "%ref", "'b'"), "does not follow"},
		"a call without its count": {false, put(call, "%nonce", "1", "%ref", "'b'"), "each nonce"},
		"a ref twice":              {false, put(call, "%nonce", "1", "%ref", "'a'"), "chain_call_once"},
		"a count without a call":   {false, `UPDATE sender SET next = next + 1`, "each nonce"},
		"a count back":             {false, `UPDATE sender SET next = 0`, "one by one"},
		"a sender that begins later": {true, `INSERT INTO sender (chain_id, address, key, next)
			VALUES (1, '\x0000000000000000000000000000000000000007', 'payout', 3)`, "each nonce"},
		"another content":         {true, `UPDATE chain_call SET value = 1`, "kept"},
		"a call that is deleted":  {true, `DELETE FROM chain_call`, "kept"},
		"another signed content":  {false, put(signed, "%try", "1"), "signed_tx_content"},
		"a try twice":             {false, put(signed, "%try", "0"), "signed_tx_try"},
		"bytes that are changed":  {true, `UPDATE signed_tx SET raw = '\x03'`, "kept"},
		"bytes that are deleted":  {true, `DELETE FROM signed_tx`, "kept"},
		"all bytes deleted":       {true, `TRUNCATE signed_tx CASCADE`, "kept"},
		"an end without bytes":    {false, endOf("succeeded", "ff"), "call_end_fits|is not that|foreign key"},
		"a cancel by the content": {false, endOf("cancelled", ""), "is not that of the transaction"},
		"a sender's other key":    {true, `UPDATE sender SET key = 'gas', next = next + 1`, "one by one"},
		"a key that there is not": {false, `INSERT INTO sender (chain_id, address, key)
			VALUES (1, decode(repeat('01', 20), 'hex'), 'root')`, "violates check"},
	} {
		pool := s.pool
		if attack.asOwner {
			pool = owner
		}
		_, err := pool.Exec(t.Context(), attack.sql)
		if !refused(err, attack.says) {
			t.Errorf("%s: got the error %v, want one with %q", name, err, attack.says)
		}
	}
	s.end(t, c, tx, sending.Succeeded)
	for _, sql := range []string{`UPDATE call_end SET outcome = 'reverted'`, `DELETE FROM call_end`} {
		if _, err := owner.Exec(t.Context(), sql); !refused(err, "kept") {
			t.Errorf("%s: got the error %v, want a refusal", sql, err)
		}
	}
}

func TestAHaltedChainTakesNoCallInTheDatabaseToo(t *testing.T) {
	t.Parallel()
	s := newSent(t)
	if err := s.store.Halt(t.Context(), chain.Base, sending.FinalReorged, "test"); err != nil {
		t.Fatal(err)
	}
	_, err := s.pool.Exec(t.Context(), `INSERT INTO chain_call (chain_id, sender, nonce, purpose, ref, recipient, value,
		data, gas_limit, call_hash) VALUES (8453, '\x0000000000000000000000000000000000000007', 0, 'test', 'a',
		'\x0100000000000000000000000000000000000000', 0, '', 21000, decode(repeat('00', 32), 'hex'))`)
	if !refused(err, "chain_call_halted|halted chain") {
		t.Errorf("got the error %v, want a refusal", err)
	}
	lifted := func(detail string, want bool) {
		t.Helper()
		got, err := s.store.Lifted(t.Context(), chain.Base, sending.FinalReorged, detail)
		if err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("a halt %q was lifted: got %t, want %t", detail, got, want)
		}
	}
	lifted("test", false)
	defer func() {
		if err := s.store.Lift(t.Context(), chain.Base, sending.FinalReorged, "operator:ann", "known"); err != nil {
			t.Fatal(err)
		}
		lifted("test", true)
		lifted("another", false)
	}()
	_, err = s.pool.Exec(t.Context(), `UPDATE sending_halt SET lifted_at = now()`)
	if !refused(err, "sending_halt_lifted") {
		t.Errorf("lifted by nobody: got the error %v, want a refusal", err)
	}
}

// endOf is the statement that ends the first call by its transaction, or by another.
func endOf(outcome, hash string) string {
	of := `(SELECT hash FROM signed_tx LIMIT 1)`
	if hash != "" {
		of = `decode(repeat('` + hash + `', 32), 'hex')`
	}
	return `INSERT INTO call_end (chain_id, sender, nonce, outcome, hash, block, block_hash, cost) VALUES (8453,
		'\x0000000000000000000000000000000000000007', 0, '` + outcome + `', ` + of + `, 1,
		decode(repeat('00', 32), 'hex'), 0)`
}

func put(sql string, pairs ...string) string { return strings.NewReplacer(pairs...).Replace(sql) }

// refused reports whether an error has one of some texts, which are parted by bars.
func refused(err error, says string) bool {
	for text := range strings.SplitSeq(says, "|") {
		if err != nil && strings.Contains(err.Error(), text) {
			return true
		}
	}
	return false
}
