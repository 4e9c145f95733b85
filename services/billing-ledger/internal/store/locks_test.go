package store_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/account"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/key"
	"svc.internal/services/billing-ledger/internal/orphan"
	"svc.internal/services/billing-ledger/internal/plan"
	"svc.internal/services/billing-ledger/internal/store"
	"svc.internal/services/billing-ledger/internal/usage"
)

// crowd is every kind of transaction on few accounts, with leases so short that
// holds are over while others work on them.
type crowd struct {
	*env
	t         testing.TB
	consumers []consumer
	// unknown usage is put aside by several at once.
	unknown []usage.Delivery

	mu     sync.Mutex
	claims []hold.Reservation // all that were admitted
	// contested requests are admitted by several at once and for any account,
	// each asked for so many times.
	contested [2]ids.RequestID
	asked     int
	// pinned is how many requests owners of slices admitted.
	pinned atomic.Int64
}

// admitted are some of the last claims that were admitted, in any order.
func (c *crowd) admitted(r *rand.Rand, maxClaims int) []hold.Reservation {
	c.mu.Lock()
	defer c.mu.Unlock()
	from := max(len(c.claims)-40, 0)
	var out []hold.Reservation
	for _, i := range r.Perm(len(c.claims) - from)[:min(len(c.claims)-from, 1+r.IntN(maxClaims))] {
		out = append(out, c.claims[from+i])
	}
	return out
}

func (c *crowd) contest() [2]ids.RequestID {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked++; c.asked%4 == 1 {
		c.contested = [2]ids.RequestID{request(c.t), request(c.t)}
	}
	return c.contested
}

func (c *crowd) admit(r *rand.Rand) error {
	var claims []hold.Reservation
	for range r.IntN(3) {
		reservation := c.reservation(c.t, c.consumers[r.IntN(len(c.consumers))], int64(r.IntN(3)))
		reservation.Tier = plan.Tier(r.IntN(4))
		claims = append(claims, reservation)
	}
	for _, contested := range c.contest() {
		reservation := c.reservation(c.t, c.consumers[r.IntN(len(c.consumers))], 1)
		reservation.Request = contested
		claims = append(claims, reservation)
	}
	verdicts, err := c.store.Admit(c.t.Context(), claims)
	var open hold.SliceOpen
	if errors.As(err, &open) {
		return c.recalls(c.t.Context(), open)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, v := range verdicts {
		if v.Outcome == hold.Admitted {
			c.claims = append(c.claims, claims[i])
		}
	}
	return err
}

func (c *crowd) settleSome(r *rand.Rand) error {
	var batch []usage.Delivery
	for _, reservation := range c.admitted(r, 8) {
		d := c.served(c.t, reservation, min(reservation.MaxCompletionTokens, int64(r.IntN(3))))
		if r.IntN(8) == 0 {
			d.Event.Billable.Prompt = 5 // more than is held
		}
		batch = append(batch, d)
	}
	for _, i := range r.Perm(len(c.unknown))[:r.IntN(3)] {
		batch = append(batch, c.unknown[i])
	}
	_, err := c.settler.Settle(c.t.Context(), batch, nil)
	return err
}

func (c *crowd) conclude(r *rand.Rand) error {
	var all []hold.RequestReport
	for _, reservation := range c.admitted(r, 8) {
		w := servedWord(reservation.Request, int64(r.IntN(3)))
		if r.IntN(3) == 0 {
			w = hold.RequestReport{Request: reservation.Request, Outcome: "failed", Attempts: []hold.Attempt{}}
		}
		all = append(all, w)
	}
	_, _, err := c.store.Conclude(c.t.Context(), all)
	return err
}

func (c *crowd) renew(r *rand.Rand) error {
	var all []hold.Renewal
	for _, reservation := range c.admitted(r, 8) {
		all = append(all, running(reservation.Request, int64(r.IntN(3))))
	}
	_, _, err := c.store.Renew(c.t.Context(), all)
	return err
}

func (c *crowd) claimWork(r *rand.Rand) error {
	var all []orphan.WorkReceipt
	for _, reservation := range c.admitted(r, 8) {
		all = append(all, signed(reservation, int64(1+r.IntN(3)),
			func(s *orphan.WorkReceipt) { s.Attempt = uint32(1 + r.IntN(2)) }))
	}
	return c.store.KeepWorkReceipts(c.t.Context(), all, func(s orphan.WorkReceipt, q *orphan.Request) orphan.Verdict {
		if q == nil {
			return orphan.Verdict{Outcome: orphan.Refused}
		}
		return q.Judge(s)
	})
}

func (c *crowd) lookAfter(r *rand.Rand) error {
	var err error
	switch r.IntN(3) {
	case 0:
		_, err = c.store.ExpireHolds(c.t.Context(), ever, 5)
	case 1:
		_, _, err = c.store.OpenReviews(c.t.Context(), 5)
	case 2:
		_, err = c.store.SettledReviews(c.t.Context(), 5)
	}
	return err
}

func (c *crowd) administer(r *rand.Rand, round int) error {
	of := c.consumers[r.IntN(len(c.consumers))].account
	var err error
	switch r.IntN(7) {
	case 0:
		_, _, err = c.accounts.Grant(c.t.Context(), of, cent, request(c.t).String(), "test")
	case 1:
		_, _, err = c.keys.Issue(c.t.Context(), key.IssueRequest{Account: of})
	case 2:
		_, err = c.store.EnsurePartitions(c.t.Context(), 3, 1+round%20)
	case 3:
		err = c.store.Subscribe(c.t.Context(), of, []string{"", "pro"}[r.IntN(2)], time.Time{})
	case 4:
		_, err = c.accounts.SetState(c.t.Context(), of, []account.State{account.Open, account.Open,
			account.Frozen}[r.IntN(3)], "test")
	case 5:
		for _, reservation := range c.admitted(r, 3) {
			_, err = c.store.Refund(c.t.Context(), entryID(c.t), reservation.Request, usage.ProviderFault, "")
			if errors.Is(err, usage.ErrNothingCharged) || errors.Is(err, usage.ErrPaidInPart) {
				err = nil
			}
		}
	case 6:
		err = c.postAndUndo(r)
	}
	return err
}

func (c *crowd) act(r *rand.Rand, round int) error {
	switch r.IntN(16) {
	case 0, 1, 2, 3:
		return c.admit(r)
	case 12, 13, 14:
		return c.turns(r)
	case 15:
		return c.upsetSlices(r)
	case 4, 5, 6:
		return c.settleSome(r)
	case 7, 8:
		return c.conclude(r)
	case 9:
		return c.renew(r)
	case 10:
		if r.IntN(2) == 0 {
			return c.claimWork(r)
		}
		return c.lookAfter(r)
	}
	return c.administer(r, round)
}

// deadlocks keeps every deadlock that the database ended, although the store
// repeats the transaction.
type deadlocks struct {
	mu    sync.Mutex
	found []*pgconn.PgError
}

func (d *deadlocks) saw(err error) {
	var pe *pgconn.PgError
	if errors.As(err, &pe) && pe.Code == "40P01" {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.found = append(d.found, pe)
	}
}

func (d *deadlocks) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}

func (d *deadlocks) TraceQueryEnd(_ context.Context, _ *pgx.Conn, end pgx.TraceQueryEndData) {
	d.saw(end.Err)
}

func (d *deadlocks) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

func (d *deadlocks) TraceBatchQuery(_ context.Context, _ *pgx.Conn, q pgx.TraceBatchQueryData) {
	d.saw(q.Err)
}

func (d *deadlocks) TraceBatchEnd(_ context.Context, _ *pgx.Conn, end pgx.TraceBatchEndData) {
	d.saw(end.Err)
}

func TestNoTwoTransactionsEverWaitForEachOther(t *testing.T) {
	e := setup(t, unlimited)
	var seen deadlocks
	cfg := e.pool.Config()
	cfg.ConnConfig.Tracer = &seen
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	st := store.New(pool, unlimited, store.Terms{Lease: 30 * time.Millisecond, Orphan: 30 * time.Millisecond,
		MaxHold: time.Second})
	e.store, e.settler, e.accounts.Store, e.keys.Store = st, &usage.Settler{Store: st}, st, st
	c := &crowd{env: e, t: t}
	st.OnRecall(c.recalls)
	for range 4 {
		one := e.consumer(t, 3*money.USD)
		c.consumers = append(c.consumers, one, e.issue(t, one.account, key.IssueRequest{}))
	}
	const rounds, workers = 60, 8
	for range 5 {
		c.unknown = append(c.unknown, e.served(t, e.reservation(t, c.consumers[0], 1), 1))
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var all sync.WaitGroup
	for worker := range workers {
		all.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(worker)))
			for round := range rounds {
				if err := c.act(r, round); err != nil {
					t.Errorf("round %d: %v", round, err)
					return
				}
			}
		})
	}
	all.Wait()
	for _, d := range seen.found {
		t.Errorf("%v: %s; %s", d, d.Detail, d.Where)
	}
	t.Logf("%d requests were admitted, %d of them from slices", len(c.claims), c.pinned.Load())
	if c.pinned.Load() == 0 {
		t.Error("requests that were admitted from slices: got none, want some")
	}
	e.sound(t)
}
