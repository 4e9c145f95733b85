package payoutsim

import (
	"context"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/payout"
	"svc.internal/services/settlement/internal/payoutsim/memory"
	"svc.internal/services/settlement/internal/sending"
)

// calls is the database as the pipeline of one process has it. The process may die before and after what changes it.
type calls struct {
	*memory.DB
	*runner
	world *world
}

// around runs a transaction between two steps.
func around[T any](a *runner, do func() (T, error)) (T, error) {
	a.pause()
	out, err := do()
	a.pause()
	return out, err
}

func (c calls) Waiting(ctx context.Context, id chain.ID, limit int) ([]sending.Status, error) {
	c.pause()
	return c.DB.Waiting(ctx, id, limit)
}

func (c calls) Halt(ctx context.Context, id chain.ID, cause sending.Cause, detail string) error {
	c.pause()
	if c.world.plant == Unreported && cause == sending.FinalReorged {
		return nil
	}
	return c.DB.Halt(ctx, id, cause, detail)
}

func (c calls) AddSigned(ctx context.Context, of sending.Call, s sending.Signed) error {
	_, err := around(c.runner, func() (struct{}, error) { return struct{}{}, c.DB.AddSigned(ctx, of, s) })
	return err
}

func (c calls) AddEnd(ctx context.Context, at sending.Place, e sending.End) error {
	_, err := around(c.runner, func() (struct{}, error) { return struct{}{}, c.DB.AddEnd(ctx, at, e) })
	return err
}

func (c calls) FixGas(ctx context.Context, s sending.Spent) (sending.Spent, error) {
	return around(c.runner, func() (sending.Spent, error) { return c.DB.FixGas(ctx, s) })
}

func (c calls) GasPosted(ctx context.Context, at sending.Place, entry ids.EntryID) error {
	_, err := around(c.runner, func() (struct{}, error) { return struct{}{}, c.DB.GasPosted(ctx, at, entry) })
	return err
}

// rows is the database as the keeper of one process has it.
type rows struct {
	memory.Payouts
	world  *world
	runner *runner
}

func (r rows) Insert(
	ctx context.Context, d payout.Draft, op payout.Operation, may func(chain.ID) error,
) (p payout.Payout, fresh bool, err error) {
	p, err = around(r.runner, func() (payout.Payout, error) {
		p, fresh, err = r.Payouts.Insert(ctx, d, op, may)
		return p, err
	})
	return p, fresh, err
}

func (r rows) Get(ctx context.Context, id payout.ID) (payout.Payout, error) {
	r.runner.pause()
	return r.Payouts.Get(ctx, id)
}

func (r rows) Change(
	ctx context.Context, id payout.ID, apply func(*payout.Payout) (payout.Step, error),
) (payout.Payout, error) {
	return around(r.runner, func() (payout.Payout, error) { return r.Payouts.Change(ctx, id, apply) })
}

func (r rows) EndConversion(ctx context.Context, c payout.Conversion) (payout.Conversion, error) {
	return around(r.runner, func() (payout.Conversion, error) { return r.Payouts.EndConversion(ctx, c) })
}

// timeOut is what the planted fault TimeOut waits.
const timeOut = 12 * time.Minute

func (r rows) Call(ctx context.Context, id payout.ID) (sending.Status, bool, error) {
	r.runner.pause()
	s, ok, err := r.Payouts.Call(ctx, id)
	if r.world.plant == TimeOut && ok && s.End == nil && len(s.Signed) > 0 && s.Now.Sub(s.Signed[0].At) > timeOut {
		end := sending.End{Outcome: sending.Reverted, Transaction: s.Signed[0].Hash}
		if err := r.AddEnd(ctx, s.Call.Place(), end); err != nil {
			return s, ok, err
		}
		s.End = &end
	}
	return s, ok, err
}
