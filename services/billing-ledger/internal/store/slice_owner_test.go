package store_test

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/key"
	"svc.internal/services/billing-ledger/internal/limit"
	"svc.internal/services/billing-ledger/internal/slice"
	"svc.internal/services/billing-ledger/internal/usage"
)

// ownerReplica is a replica that admits from slices of its own.
type ownerReplica struct {
	owner    slice.Owner
	slices   *slice.Slices
	admitter *hold.Admitter
}

// ownerReplicas runs two replicas that recall each other's slices until stop is called.
func (e *env) ownerReplicas(t *testing.T) (all [2]*ownerReplica, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	var stops []func()
	for i := range all {
		r := &ownerReplica{owner: slice.Owner{ID: [16]byte{15: byte(i + 1)}}}
		r.slices = slice.New(slice.DefaultConfig(r.owner), slice.Deps{Keeper: e.store, Writer: e.store.WritePins,
			Clock: clock.System, Log: slog.New(slog.DiscardHandler), Observe: func(turned slice.Turned) {
				if turned.Err != nil {
					t.Errorf("a turn: %v", turned.Err)
				}
			}})
		r.admitter = hold.NewAdmitter(hold.Config{Batch: 64, Queue: 1024, Writers: 1, Timeout: 30 * time.Second},
			hold.Deps{Prices: pricesOf(e.price), Store: e.store, Slices: r.slices, Observe: func(hold.Outcome, int) {}})
		running.Go(func() { r.slices.Run(ctx) })
		stops = append(stops, runAdmitter(t, r.admitter))
		all[i] = r
	}
	e.store.OnRecall(func(ctx context.Context, open hold.SliceOpen) error {
		return all[open.Owner[15]-1].slices.Recall(ctx, open.Account)
	})
	return all, func() {
		cancel()
		running.Wait()
		for _, one := range stops {
			one()
		}
	}
}

// admitted is a request that a replica admitted.
type admitted struct {
	request hold.AdmitRequest
	hold.Admission
}

// fromSlices is how many requests of ownerCallers are admitted from slices.
const fromSlices = 400

// ownerCallers are callers of replicas that admit from slices. They go on until enough requests were admitted so.
type ownerCallers struct {
	*env
	replicas [2]*ownerReplica
	pinned   atomic.Int64
	work     sync.WaitGroup
	mu       sync.Mutex
	all      []admitted
}

// goesOn reports whether more requests are needed.
func (c *ownerCallers) goesOn(ctx context.Context) bool {
	return ctx.Err() == nil && c.pinned.Load() < fromSlices
}

// call admits requests of a key at the replica that owns its slice, and settles them at one of the replicas.
func (c *ownerCallers) call(ctx context.Context, t *testing.T, current *atomic.Pointer[ids.KeyID], at, settleAt int) {
	for c.goesOn(ctx) {
		ask := hold.AdmitRequest{Request: request(t), Key: *current.Load(), Model: "acme/large", MaxCompletionTokens: 1}
		a, err := c.replicas[at].admitter.Admit(ctx, ask)
		if open, ok := hold.AsSliceOpen(err); ok {
			a, err = c.replicas[open.Owner[15]-1].admitter.Admit(ctx, ask)
		}
		if err != nil {
			continue
		}
		if a.Pin != nil {
			c.pinned.Add(1)
		}
		one := admitted{request: ask, Admission: a}
		c.mu.Lock()
		c.all = append(c.all, one)
		c.mu.Unlock()
		c.settleAdmitted(t, c.replicas[settleAt], one)
	}
}

// changeKeys issues keys of an account one after the other, each for callers of the key before, which is revoked.
func (c *ownerCallers) changeKeys(
	ctx context.Context, t *testing.T, account ids.AccountID, current *atomic.Pointer[ids.KeyID],
) {
	for range clock.Every(ctx, 500*time.Millisecond) {
		if !c.goesOn(ctx) {
			return
		}
		old, fresh := *current.Load(), c.issue(t, account, key.IssueRequest{})
		if err := c.keys.Revoke(ctx, old); err != nil {
			t.Error(err)
		}
		if _, err := c.replicas[0].admitter.Admit(ctx, hold.AdmitRequest{Request: request(t), Key: old,
			Model: "acme/large", MaxCompletionTokens: 1}); err == nil {
			t.Error("a key that is revoked: got an admission, want a refusal")
		}
		current.Store(&fresh.key)
	}
}

// Two replicas admit requests of busy accounts and write their holds, while requests settle at either,
// keys come and go, and one account is near the end of its credit.
func TestReplicasWithSlicesAreExactTogether(t *testing.T) {
	t.Parallel()
	limits := unlimited
	limits.LLMPerMinute, limits.Concurrent = 2000, 30
	e := setup(t, limits)
	replicas, stop := e.ownerReplicas(t)
	callers := &ownerCallers{env: e, replicas: replicas}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for n, credit := range []money.NanoUSD{50 * money.USD, 50 * money.USD, 3 * money.USD} {
		c := e.consumer(t, credit)
		var current atomic.Pointer[ids.KeyID]
		current.Store(&c.key)
		for worker := range 4 {
			callers.work.Go(func() { callers.call(ctx, t, &current, (n+worker)%2, worker%2) })
		}
		if n == 0 {
			callers.work.Go(func() { callers.changeKeys(ctx, t, c.account, &current) })
		}
	}
	callers.work.Wait()
	stop()
	all, pinned := callers.all, callers.pinned.Load()
	if pinned < fromSlices {
		t.Errorf("got %d requests admitted from slices in 30 s, want %d", pinned, fromSlices)
	}
	t.Logf("slices admitted %d of %d requests", pinned, len(all))
	requests := make([][16]byte, len(all))
	for i, a := range all {
		requests[i] = a.request.Request
	}
	if n := scan[int](t, e, `SELECT count(*) FROM hold WHERE request_id = ANY ($1) AND amount = $2 AND state = 'settled'`,
		requests, int64(cent)); n != len(all) {
		t.Errorf("settled holds with their amount: got %d, want all %d that were admitted", n, len(all))
	}
	if n := scan[int](t, e, `SELECT count(*) FROM slice`); n != 0 {
		t.Errorf("slices after the end: got %d, want none", n)
	}
	e.sound(t)
}

// settleAdmitted settles a request at a replica, which writes its hold first.
func (e *env) settleAdmitted(t *testing.T, at *ownerReplica, a admitted) {
	t.Helper()
	if a.Pin != nil {
		if err := at.slices.Write(t.Context(), []hold.Pin{*a.Pin}); err != nil {
			t.Error(err)
		}
	}
	d := e.served(t, hold.Reservation{AdmitRequest: a.request, Class: limit.LLM, Price: a.Price, Rates: a.Rates}, 1)
	results, err := e.settler.Settle(t.Context(), []usage.Delivery{d}, nil)
	if err != nil {
		t.Errorf("settle: got the error %v, want none", err)
	}
	if want := []usage.Result{usage.Settled}; !slices.Equal(results, want) {
		t.Errorf("settle: got %v, want %v", results, want)
	}
}
