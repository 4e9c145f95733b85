package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

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

// stripped is a history without its time.
func stripped(h record.History) record.History {
	h.Now = time.Time{}
	return h
}

func TestTheHistoryIsWhatWasSigned(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if got, want := b.history(t, tx(0), use(1)), (record.History{}); stripped(got) != want {
		t.Errorf("at first: got %+v, want nothing signed", got)
	}
	b.mustRecord(t, tx(0), use(30), chain.Hash{1})
	b.mustRecord(t, tx(1), use(40), chain.Hash{2})
	dearer := use(30)
	dearer.Fee = chain.NewAmount(9)
	b.mustRecord(t, tx(0), dearer, chain.Hash{1})
	cancel := tx(1)
	cancel.Cancel = true
	b.mustRecord(t, cancel, policy.Use{Fee: chain.NewAmount(7), FeesCap: use(0).FeesCap}, chain.Hash{3})
	uncapped := use(1_000)
	uncapped.Capped, uncapped.Fee = false, chain.Amount{}
	b.mustRecord(t, tx(2), uncapped, chain.Hash{4})
	h := b.history(t, tx(0), use(30))
	for what, pair := range map[string][2]string{
		"the content": {h.Content.String(), chain.Hash{1}.String()}, "the ceiling": {h.Ceiling.String(), "9"},
		"what moved": {h.Moved.String(), "70"}, "the fees": {h.Fees.String(), "16"},
		"the highest": {fmt.Sprint(h.Highest, h.Any), "2 true"}, "the cancel": {fmt.Sprint(h.Cancelled), "false"},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: got %s, want %s", what, pair[0], pair[1])
		}
	}
	h = b.history(t, tx(1), use(30))
	if !h.Cancelled {
		t.Error("the cancelled nonce: got no cancel, want one")
	}
	if h.Content != (chain.Hash{2}) {
		t.Errorf("the cancelled nonce: got the content %s, want its own", h.Content)
	}
	other := use(30)
	other.Asset = chain.Address{}
	if h := b.history(t, tx(0), other); !h.Moved.IsZero() {
		t.Errorf("of another token: got %s moved, want 0", h.Moved)
	}
	elsewhere := tx(0)
	elsewhere.Chain = 1
	if got, want := b.history(t, elsewhere, use(30)), (record.History{}); stripped(got) != want {
		t.Errorf("on another chain: got %+v, want nothing", got)
	}
	for id, want := range map[chain.ID]string{254: "2 true <nil>", 1: "0 false <nil>"} {
		highest, signed, err := b.stores[1].Highest(t.Context(), id, chain.Address{19: 1})
		if got := fmt.Sprint(highest, signed, err); got != want {
			t.Errorf("the highest on chain %s: got %s, want %s", id, got, want)
		}
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
	if got := h.Moved.String() + " for " + h.Fees.String(); got != "0 for 0" {
		t.Errorf("moved today: got %s, want 0 for 0", got)
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

// Values of the attacks, in SQL.
const (
	today = `(clock_timestamp() AT TIME ZONE 'UTC')::date`
	hash  = `decode(repeat('07', 32), 'hex')`
	from  = `decode('0000000000000000000000000000000000000001', 'hex')`
	asset = `decode(repeat('00', 20), 'hex')`
)

func nonce(n int, cancel bool, hash, key string, amount int, capped bool, day string) string {
	return fmt.Sprintf(`
		INSERT INTO signed_nonce (chain_id, sender, nonce, cancel, call_hash, key, asset, amount, capped, day)
		VALUES (254, %s, %d, %t, %s, '%s', %s, %d, %t, %s)`, from, n, cancel, hash, key, asset, amount, capped, day)
}

func fee(n, ceiling, increase int, key, day string) string {
	return fmt.Sprintf(`INSERT INTO signed_fee (chain_id, sender, nonce, ceiling, increase, key, day)
		VALUES (254, %s, %d, %d, %d, '%s', %s)`, from, n, ceiling, increase, key, day)
}

// attacks are what a faulty program would do, as the service's role or as the owner.
var attacks = map[string]struct {
	asOwner   bool
	sql, says string
}{
	"a second content":               {false, nonce(5, false, hash, "payout", 1, true, today), "signed_nonce_pkey"},
	"a second cancel":                {false, nonce(6, true, hash, "payout", 0, false, today), "signed_nonce_pkey"},
	"a content after a cancel":       {false, nonce(6, false, hash, "payout", 1, true, today), "was cancelled"},
	"a gap":                          {false, nonce(23, false, hash, "payout", 1, true, today), "leaves a gap"},
	"another key's sender":           {false, nonce(7, false, hash, "gas", 1, true, today), "one sender has one key"},
	"a key that signs none":          {false, nonce(7, false, hash, "statement", 1, true, today), "one sender"},
	"a cancel that moves":            {false, nonce(7, true, hash, "payout", 1, true, today), "moves_nothing"},
	"less than nothing":              {false, nonce(7, false, hash, "payout", -1, true, today), "amount_check"},
	"yesterday":                      {false, nonce(7, false, hash, "payout", 1, true, today+" - 1"), "signed_nonce_day"},
	"tomorrow":                       {false, nonce(7, false, hash, "payout", 1, true, today+" + 1"), "signed_nonce_day"},
	"a short hash":                   {false, nonce(7, false, "'x'", "payout", 1, true, today), "call_hash_check"},
	"a time of its own":              {false, `INSERT INTO signed_nonce (signed_at) VALUES (now())`, "permission denied"},
	"another content, changed":       {false, `UPDATE signed_nonce SET call_hash = ` + hash, "permission denied"},
	"other content, by the owner":    {true, `UPDATE signed_nonce SET call_hash = ` + hash, "are kept"},
	"a nonce forgotten":              {false, `DELETE FROM signed_nonce`, "permission denied"},
	"a nonce forgotten by the owner": {true, `DELETE FROM signed_nonce`, "are kept"},
	"all forgotten":                  {true, `TRUNCATE signed_nonce`, "are kept"},
	"fees of no nonce":               {false, fee(9, 8, 8, "payout", today), "is not recorded"},
	"fees of another key":            {false, fee(5, 8, 3, "gas", today), "is not recorded"},
	"fees that fall":                 {false, fee(5, 4, 4, "payout", today), "do not rise"},
	"an increase too small":          {false, fee(5, 8, 2, "payout", today), "do not rise"},
	"fees of yesterday":              {false, fee(5, 8, 3, "payout", today+" - 1"), "fee_day"},
	"fees changed":                   {false, `UPDATE signed_fee SET increase = 1`, "permission denied"},
	"fees changed by the owner":      {true, `UPDATE signed_fee SET increase = 1`, "are kept"},
	"fees forgotten":                 {true, `DELETE FROM signed_fee`, "are kept"},
	"all fees forgotten":             {true, `TRUNCATE signed_fee`, "are kept"},
}

func TestTheDatabaseRefusesWhatTheDomainWouldNotDo(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.mustRecord(t, tx(5), use(10), chain.Hash{1})
	cancel := tx(6)
	cancel.Cancel = true
	b.mustRecord(t, cancel, policy.Use{Fee: chain.NewAmount(7), FeesCap: use(0).FeesCap}, chain.Hash{3})
	for name, tc := range attacks {
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
	h := b.history(t, tx(5), use(1))
	if got, want := fmt.Sprint(h.Content, h.Highest), fmt.Sprint(chain.Hash{1}, 6); got != want {
		t.Errorf("after all: got %s, want %s", got, want)
	}
}
