package chaos

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"svc.internal/pkg/clock"
	"svc.internal/services/proving/internal/chaos/plan"
	"svc.internal/services/proving/internal/fleet"
)

// recovered is what an operator does after that. The chains whose payouts were lost must be found halted, before
// anybody is paid again.
func (m *market) recovered(ctx context.Context, lost []int64) error {
	ctx, cancel := context.WithTimeout(ctx, restoreBound)
	defer cancel()
	err := m.look(ctx, "chains are halted whose nonces were lost", func() error { return m.found(ctx, lost) })
	if err != nil {
		return err
	}
	for _, c := range m.paying.All {
		id := strconv.FormatUint(c.ID(), 10)
		if err := m.look(ctx, "what chain "+id+" has is adopted", func() error { return m.adopt(ctx, id) }); err != nil {
			return err
		}
	}
	return m.look(ctx, "payments go on", func() error { return m.goOn(ctx) })
}

// look repeats a step until it is done.
func (*market) look(ctx context.Context, what string, step func() error) error {
	var last error
	err := every(ctx, idleInterval, func() (bool, error) {
		last = step()
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("after settlement's database was set back, %s: %w", what, errors.Join(err, last))
	}
	return nil
}

// found fails until the chains are halted, because others know nonces that the database does not.
func (m *market) found(ctx context.Context, lost []int64) error {
	var halts struct {
		List []struct {
			ID    int64  `json:"chain_id"`
			Cause string `json:"cause"`
		} `json:"list"`
	}
	if err := m.fleet.Admin(ctx, http.MethodGet, "sending-halts", nil, &halts); err != nil {
		return err
	}
	for _, one := range halts.List {
		if one.Cause == "nonce_ahead" {
			lost = slices.DeleteFunc(slices.Clone(lost), func(id int64) bool { return id == one.ID })
		}
	}
	if len(lost) > 0 {
		return fmt.Errorf("chains %v are not halted", lost)
	}
	return nil
}

// adoption is a plan of what is adopted.
type adoption struct {
	Adoption struct {
		Calls, Payouts []struct {
			Action string `json:"action"`
			Detail string `json:"detail"`
		}
		More bool `json:"more"`
	} `json:"adoption"`
}

// adopt fails until nothing is left to adopt of a chain. Nothing may need an operator's word: nobody but the platform
// has sent anything.
func (m *market) adopt(ctx context.Context, chain string) error {
	var left adoption
	if err := m.fleet.Admin(ctx, http.MethodGet, "chains/"+chain+"/adoption", nil, &left); err != nil {
		return err
	}
	todo := left.Adoption
	if len(todo.Calls)+len(todo.Payouts) == 0 && !todo.More {
		return nil
	}
	body := object{"reason": "the database was set back to a copy"}
	if err := m.fleet.Admin(ctx, http.MethodPost, "chains/"+chain+"/adoption", body, nil); err != nil {
		return err
	}
	return fmt.Errorf("it is adopted once more: %+v", todo)
}

// goOn lifts the halts that are left, and fails until none is and no payout is open.
func (m *market) goOn(ctx context.Context) error {
	_, open, err := m.liftHalts(ctx)
	if err != nil || open > 0 {
		return errors.Join(fmt.Errorf("%d halts are open", open), err)
	}
	left, err := m.books.Unpaid(ctx)
	if err == nil && (!left.None() || left.Halts > 0) {
		err = fmt.Errorf("there are %+v", left)
	}
	return err
}

// setBack puts the copy of settlement's database in its place, as a restored backup would be. The signer, the books,
// the hub and the chains keep what they have. An operator adopts what was lost; lines are filled in from the books.
func (m *market) setBack(ctx context.Context, f plan.Fault, hurt func()) error {
	if !m.kept {
		return errMissed
	}
	m.kept = false
	lost, err := m.books.Lost(ctx)
	if err != nil {
		return err
	}
	if len(lost) == 0 {
		return errMissed
	}
	hurt()
	names := m.fleet.Replicas(fleet.Settlement)
	for _, name := range names {
		if err := m.fleet.Kill(name); err != nil {
			return err
		}
	}
	if err := m.books.PutBack(ctx); err != nil {
		return err
	}
	if err := clock.Sleep(ctx, f.Away); err != nil {
		return err
	}
	if err := m.restore(ctx, names); err != nil {
		return err
	}
	return m.recovered(ctx, lost)
}
