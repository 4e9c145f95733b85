package chainaudit

import (
	"context"
	"errors"
	"fmt"

	"svc.internal/services/settlement/internal/audit"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/reserve"
)

// Audit makes all checks. It fails where settlement's own rows cannot be read.
func (a *Auditor) Audit(ctx context.Context) ([]audit.Invariant, error) {
	var all []audit.Invariant
	for _, check := range []struct {
		name string
		run  func(context.Context, *audit.Invariant) error
	}{
		{"nonces are the chain's", a.nonces},
		{"transactions ended as stored, and payouts arrived", a.ended},
		{"positions are the contract's", a.positions},
		{"events are on the chain", a.events},
		{"credited deposits are on the chain", a.deposits},
		{"reserves are held", a.reserves},
	} {
		found := audit.Invariant{Name: fmt.Sprintf("chain %s: %s", a.Config.ID, check.name)}
		err := check.run(ctx, &found)
		if err != nil && !unknown(err) {
			return nil, fmt.Errorf("check that %s: %w", found.Name, err)
		}
		if err != nil {
			found.Unknown = err.Error()
		}
		all = append(all, found)
	}
	return all, nil
}

// unknown reports whether an error says that the chain is not known.
func unknown(err error) bool {
	var revert *chain.Revert
	return errors.Is(err, chain.ErrDisagree) || errors.Is(err, chain.ErrUnavailable) ||
		errors.Is(err, reserve.ErrBehind) || errors.As(err, &revert)
}

func (a *Auditor) reserves(ctx context.Context, found *audit.Invariant) error {
	looker := reserve.Looker{Rows: a.Rows, Node: a.Node, Config: a.Config}
	readings, err := looker.Tokens(ctx, func(ctx context.Context) (map[string]int64, error) {
		return a.Rows.Booked(ctx, a.Config)
	})
	if err != nil {
		return err
	}
	contract, ok, err := looker.Contract(ctx)
	if ok {
		readings = append(readings, contract)
	}
	for _, r := range readings {
		if found.Checked++; r.Short() {
			found.Found("%s", r)
		}
	}
	return err
}
