package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/pgtest"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/signer/internal/policy"
	"svc.internal/services/settlement/signer/internal/record"
	"svc.internal/services/settlement/signer/internal/store"
)

// bundle is a database with two replicas.
type bundle struct {
	pool, owner *pgxpool.Pool
	stores      [2]*store.Store
}

func setup(t *testing.T) *bundle {
	t.Helper()
	pool := pgtest.Pool(t, store.Schema, store.Role, store.Migrations)
	second := pgtest.Open(t, pool.Config().ConnString(), store.Schema, store.Role)
	owner := pgtest.Open(t, pool.Config().ConnString(), store.Schema, "")
	return &bundle{pool: pool, owner: owner, stores: [2]*store.Store{store.New(pool), store.New(second)}}
}

func tx(nonce uint64) policy.Transaction {
	return policy.Transaction{Chain: 254, Key: policy.Payout, Sender: chain.Address{19: 1}, Nonce: nonce}
}

func use(amount uint64) policy.Use {
	return policy.Use{Asset: chain.Address{19: 2}, Amount: chain.NewAmount(amount), Capped: true,
		Cap: policy.Cap{Day: chain.NewAmount(100)}, Fee: chain.NewAmount(5), FeesCap: policy.Cap{Day: chain.NewAmount(1000)}}
}

// record decides as the service does.
func (b *bundle) record(ctx context.Context, replica int, t policy.Transaction, u policy.Use, hash chain.Hash) error {
	return b.stores[replica].Record(ctx, t, u, hash, func(h record.History) (record.Entry, error) {
		return record.Decide(t, u, hash, h)
	})
}

func (b *bundle) mustRecord(t *testing.T, tx policy.Transaction, u policy.Use, hash chain.Hash) {
	t.Helper()
	if err := b.record(t.Context(), 0, tx, u, hash); err != nil {
		t.Fatalf("nonce %d: got the error %v, want none", tx.Nonce, err)
	}
}

// history reads what a decision would be made on.
func (b *bundle) history(t *testing.T, tx policy.Transaction, u policy.Use) record.History {
	t.Helper()
	var seen record.History
	stop := errors.New("enough")
	err := b.stores[1].Record(t.Context(), tx, u, chain.Hash{}, func(h record.History) (record.Entry, error) {
		seen = h
		return record.Entry{}, stop
	})
	if !errors.Is(err, stop) {
		t.Fatal(err)
	}
	return seen
}

func TestTheHistoryIsWhatWasSigned(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if h := b.history(t, tx(0), use(1)); h.Any || h.Cancelled || !h.Content.IsZero() {
		t.Errorf("at first: got %+v, want nothing signed", h)
	}
	b.mustRecord(t, tx(0), use(30), chain.Hash{1})
	b.mustRecord(t, tx(1), use(40), chain.Hash{2})
	dearer := use(30)
	dearer.Fee = chain.NewAmount(9)
	b.mustRecord(t, tx(0), dearer, chain.Hash{1})
	cancel := tx(1)
	cancel.Cancel = true
	b.mustRecord(t, cancel, policy.Use{Fee: chain.NewAmount(7), FeesCap: use(0).FeesCap}, chain.Hash{3})
	h := b.history(t, tx(0), use(30))
	for what, pair := range map[string][2]string{
		"the content": {h.Content.String(), chain.Hash{1}.String()}, "the ceiling": {h.Ceiling.String(), "9"},
		"what moved": {h.Moved.String(), "70"}, "the fees": {h.Fees.String(), "16"},
		"the highest": {fmt.Sprint(h.Highest, h.Any), "1 true"}, "the cancel": {fmt.Sprint(h.Cancelled), "false"},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: got %s, want %s", what, pair[0], pair[1])
		}
	}
	if h := b.history(t, tx(1), use(30)); !h.Cancelled || h.Content != (chain.Hash{2}) {
		t.Errorf("the cancelled nonce: got %+v, want its content and its cancel", h)
	}
	other := use(30)
	other.Asset = chain.Address{}
	if h := b.history(t, tx(0), other); !h.Moved.IsZero() {
		t.Errorf("of another token: got %s moved, want 0", h.Moved)
	}
	elsewhere := tx(0)
	elsewhere.Chain = 1
	if h := b.history(t, elsewhere, use(30)); h.Any || !h.Moved.IsZero() || !h.Fees.IsZero() {
		t.Errorf("on another chain: got %+v, want nothing", h)
	}
	if highest, signed, err := b.stores[1].Highest(t.Context(), 254, chain.Address{19: 1}); highest != 1 || !signed || err != nil {
		t.Errorf("the highest: got %d %t (%v), want 1", highest, signed, err)
	}
	if _, signed, err := b.stores[1].Highest(t.Context(), 1, chain.Address{19: 1}); signed || err != nil {
		t.Errorf("on another chain: got one %t (%v), want none", signed, err)
	}
}

// What was moved yesterday does not count today, and a bump of yesterday's nonce counts its
// increase today.
func TestADayEndsAtMidnight(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.mustRecord(t, tx(0), use(100), chain.Hash{1})
	if _, err := b.owner.Exec(t.Context(), `
		ALTER TABLE signed_nonce DISABLE TRIGGER USER; ALTER TABLE signed_fee DISABLE TRIGGER USER;
		UPDATE signed_nonce SET day = day - 1, signed_at = signed_at - interval '1 day';
		UPDATE signed_fee SET day = day - 1, signed_at = signed_at - interval '1 day';
		ALTER TABLE signed_nonce ENABLE TRIGGER USER; ALTER TABLE signed_fee ENABLE TRIGGER USER`); err != nil {
		t.Fatal(err)
	}
	h := b.history(t, tx(0), use(100))
	if !h.Moved.IsZero() || !h.Fees.IsZero() {
		t.Errorf("got %s moved for %s today, want 0 and 0", h.Moved, h.Fees)
	}
	b.mustRecord(t, tx(1), use(100), chain.Hash{2})
	dearer := use(100)
	dearer.Fee = chain.NewAmount(8)
	b.mustRecord(t, tx(0), dearer, chain.Hash{1})
	if got := b.history(t, tx(0), use(100)).Fees.String(); got != "8" {
		t.Errorf("the fees of today: got %s, want 5 of the new nonce and 3 more of the old one", got)
	}
}

// Two replicas are asked for two contents of each nonce, all at once.
func TestOfTwoContentsAtOnceOneIsRecorded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var mu sync.Mutex
	won := map[uint64]int{}
	var wg sync.WaitGroup
	for nonce := range uint64(8) {
		for replica := range 2 {
			wg.Go(func() {
				err := b.record(t.Context(), replica, tx(nonce), use(1), chain.Hash{byte(nonce), byte(replica + 1)})
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					won[nonce]++
				} else if !fault.Is(err, fault.NonceUsed) {
					t.Errorf("nonce %d: got the error %v, want %s", nonce, err, fault.NonceUsed)
				}
			})
		}
	}
	wg.Wait()
	for nonce := range uint64(8) {
		if won[nonce] != 1 {
			t.Errorf("nonce %d: got %d contents, want 1", nonce, won[nonce])
		}
	}
}

// Many calls at once on two replicas do not move more than the day's cap together.
func TestManyAtOnceStayBelowTheDaysCap(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var mu sync.Mutex
	moved := 0
	var wg sync.WaitGroup
	for nonce := range uint64(16) {
		wg.Go(func() {
			err := b.record(t.Context(), int(nonce%2), tx(nonce), use(9), chain.Hash{byte(nonce + 1)})
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				moved += 9
			} else if !fault.Is(err, fault.CapExceeded) {
				t.Errorf("got the error %v, want %s", err, fault.CapExceeded)
			}
		})
	}
	wg.Wait()
	if moved != 99 {
		t.Errorf("got %d moved, want 99: the most in steps of 9 below 100", moved)
	}
}

func TestTheDatabaseRefusesWhatTheDomainWouldNotDo(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.mustRecord(t, tx(5), use(10), chain.Hash{1})
	cancel := tx(6)
	cancel.Cancel = true
	b.mustRecord(t, cancel, policy.Use{Fee: chain.NewAmount(7), FeesCap: use(0).FeesCap}, chain.Hash{3})
	const (
		today = `(clock_timestamp() AT TIME ZONE 'UTC')::date`
		hash  = `decode(repeat('07', 32), 'hex')`
		from  = `decode('0000000000000000000000000000000000000001', 'hex')`
		asset = `decode(repeat('00', 20), 'hex')`
	)
	nonce := func(values string) string {
		return `INSERT INTO signed_nonce (chain_id, sender, nonce, cancel, call_hash, key, asset, amount, capped, day)
			VALUES (` + values + `)`
	}
	fee := func(values string) string {
		return `INSERT INTO signed_fee (chain_id, sender, nonce, ceiling, increase, key, day) VALUES (` + values + `)`
	}
	of := func(n int, cancel bool, key string, amount int, day string) string {
		return nonce(fmt.Sprintf(`254, %s, %d, %t, %s, '%s', %s, %d, true, %s`, from, n, cancel, hash, key, asset, amount, day))
	}
	for name, tc := range map[string]struct {
		asOwner   bool
		sql, says string
	}{
		"a second content":               {false, of(5, false, "payout", 1, today), "signed_nonce_pkey"},
		"a second cancel":                {false, nonce("254, " + from + ", 6, true, " + hash + ", 'payout', " + asset + ", 0, false, " + today), "signed_nonce_pkey"},
		"a content after a cancel":       {false, of(6, false, "payout", 1, today), "signed_nonce_cancelled|was cancelled"},
		"a gap":                          {false, of(23, false, "payout", 1, today), "leaves a gap"},
		"another key's sender":           {false, of(7, false, "gas", 1, today), "one sender has one key"},
		"a key that signs none":          {false, of(7, false, "statement", 1, today), "signed_nonce_key_check|one sender"},
		"a cancel that moves":            {false, of(7, true, "payout", 1, today), "signed_nonce_cancel_moves_nothing"},
		"less than nothing":              {false, of(7, false, "payout", -1, today), "signed_nonce_amount_check"},
		"yesterday":                      {false, of(7, false, "payout", 1, today+" - 1"), "signed_nonce_day"},
		"tomorrow":                       {false, of(7, false, "payout", 1, today+" + 1"), "signed_nonce_day"},
		"a short hash":                   {false, nonce("254, " + from + ", 7, false, 'x', 'payout', " + asset + ", 1, true, " + today), "call_hash_check"},
		"a time of its own":              {false, `INSERT INTO signed_nonce (signed_at) VALUES (now())`, "permission denied"},
		"another content, changed":       {false, `UPDATE signed_nonce SET call_hash = ` + hash, "permission denied"},
		"another content, by the owner":  {true, `UPDATE signed_nonce SET call_hash = ` + hash, "are kept"},
		"a nonce forgotten":              {false, `DELETE FROM signed_nonce`, "permission denied"},
		"a nonce forgotten by the owner": {true, `DELETE FROM signed_nonce`, "are kept"},
		"all forgotten":                  {true, `TRUNCATE signed_nonce`, "are kept"},
		"fees of no nonce":               {false, fee(`254, ` + from + `, 9, 8, 8, 'payout', ` + today), "is not recorded"},
		"fees of another key":            {false, fee(`254, ` + from + `, 5, 8, 3, 'gas', ` + today), "is not recorded"},
		"fees that fall":                 {false, fee(`254, ` + from + `, 5, 4, 4, 'payout', ` + today), "do not rise"},
		"an increase too small":          {false, fee(`254, ` + from + `, 5, 8, 2, 'payout', ` + today), "do not rise"},
		"fees of yesterday":              {false, fee(`254, ` + from + `, 5, 8, 3, 'payout', ` + today + ` - 1`), "signed_fee_day"},
		"fees changed":                   {false, `UPDATE signed_fee SET increase = 1`, "permission denied"},
		"fees changed by the owner":      {true, `UPDATE signed_fee SET increase = 1`, "are kept"},
		"fees forgotten":                 {true, `DELETE FROM signed_fee`, "are kept"},
		"all fees forgotten":             {true, `TRUNCATE signed_fee`, "are kept"},
	} {
		pool := b.pool
		if tc.asOwner {
			pool = b.owner
		}
		_, err := pool.Exec(t.Context(), tc.sql)
		refused := false
		for text := range strings.SplitSeq(tc.says, "|") {
			refused = refused || err != nil && strings.Contains(err.Error(), text)
		}
		if !refused {
			t.Errorf("%s: got the error %v, want %q", name, err, tc.says)
		}
	}
	if h := b.history(t, tx(5), use(1)); h.Content != (chain.Hash{1}) || h.Highest != 6 {
		t.Errorf("after all: got %+v, want what was recorded before", h)
	}
}
