package payout

import (
	"context"
	"slices"
	"time"

	"svc.internal/pkg/actor"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/printable"
)

// Request asks for a payout of a provider's earnings. want is the chain that the owner names, which must be the
// provider's settlement chain; 0 names none. The same operation again returns its payout as it stands. It fails with
// below_minimum, invalid_value, beneficiary_missing, beneficiary_cooling, insufficient_earnings, payout_pending,
// payout_too_frequent, refund_open, chain_halted and idempotency_key_reused.
func (k *Keeper) Request(ctx context.Context, op Operation, gross money.NanoUSD, want chain.ID) (Payout, error) {
	if err := checkGross(gross); err != nil {
		return Payout{}, err
	}
	if p, ok, err := k.deps.Store.Known(ctx, op); ok || err != nil {
		return p, err
	}
	payee, err := k.payable(ctx, op.ProviderID, gross)
	if err != nil {
		return Payout{}, err
	}
	id, err := ids.New[kindOfID](k.deps.Clock.Now(), k.deps.Random)
	if err != nil {
		return Payout{}, err
	}
	d := Draft{ID: id, ProviderID: op.ProviderID, Gross: gross, Fee: Fee, Address: payee.Address}
	may := func(settles chain.ID) error { return k.paysOn(settles, want, d.Address) }
	p, fresh, err := k.deps.Store.Insert(ctx, d, op, may)
	if err != nil || !fresh {
		return p, err
	}
	return k.Advance(ctx, p.ID)
}

func checkGross(gross money.NanoUSD) error {
	switch {
	case gross < Minimum:
		return fault.New(fault.Precondition, fault.BelowMinimum, "a payout is at least $%s", Minimum).On("amount_usd")
	case gross > maximum:
		return fault.New(fault.Invalid, fault.InvalidValue, "a payout is at most $%s", money.NanoUSD(maximum)).On(
			"amount_usd")
	case gross%nanoPerMicro != 0:
		return fault.New(fault.Invalid, fault.InvalidValue, "a payout is in whole millionths of a dollar").On("amount_usd")
	}
	return nil
}

// payable finds out whether a provider can be paid an amount now.
func (k *Keeper) payable(ctx context.Context, id ids.ProviderID, gross money.NanoUSD) (Payee, error) {
	payee, err := k.deps.Payees.Payee(ctx, id)
	switch {
	case err != nil:
		return Payee{}, err
	case payee.Address.IsZero():
		return Payee{}, fault.New(fault.Precondition, fault.BeneficiaryMissing, "the provider has no beneficiary address").On(
			"beneficiary_address")
	}
	now, err := k.deps.Store.Now(ctx)
	if err != nil {
		return Payee{}, err
	}
	if wait := payee.CoolingUntil.Sub(now); wait > 0 {
		return Payee{}, fault.New(fault.Conflict, fault.BeneficiaryCooling,
			"the beneficiary address is new: nothing is paid before %s",
			payee.CoolingUntil.UTC().Format(time.RFC3339)).After(wait)
	}
	payable, _, err := k.deps.Ledger.Balances(ctx, id)
	switch {
	case err != nil:
		return Payee{}, err
	case payable < gross:
		return Payee{}, insufficient(payable)
	}
	return payee, nil
}

func insufficient(payable money.NanoUSD) error {
	return fault.New(fault.Precondition, fault.InsufficientEarnings, "$%s may be paid out", payable).On("amount_usd")
}

// paysOn fails unless providers are paid on a chain.
func (k *Keeper) paysOn(settles, want chain.ID, to chain.Address) error {
	asset, ok := k.cfg.Assets[settles]
	switch {
	case want != 0 && want != settles:
		return fault.New(fault.Invalid, fault.InvalidValue, "the provider is paid on chain %s", settles).On("chain_id")
	case !ok:
		return fault.New(fault.Unavailable, fault.ChainHalted, "nothing is paid on chain %s now", settles).On("chain_id")
	case to == asset.Contract:
		return fault.New(fault.Invalid, fault.InvalidValue, "the beneficiary address is the token's own contract").On(
			"beneficiary_address")
	case slices.Contains(k.cfg.Own[settles], to):
		return fault.New(fault.Invalid, fault.InvalidValue, "the beneficiary address is the platform's own").On(
			"beneficiary_address")
	}
	return nil
}

// CancelOwn takes a payout of a provider back that has no nonce yet. It fails with payout_not_found for a payout that
// is not the provider's, and with transition_not_allowed.
func (k *Keeper) CancelOwn(ctx context.Context, id ID, provider ids.ProviderID, by string) (Payout, error) {
	return k.cancel(ctx, id, by, "cancelled by its owner", func(p *Payout) error {
		if p.ProviderID != provider {
			return notFound()
		}
		return nil
	})
}

// CancelAny is an operator's CancelOwn of any payout.
func (k *Keeper) CancelAny(ctx context.Context, id ID, reason string) (Payout, error) {
	if err := checkReason(reason); err != nil {
		return Payout{}, err
	}
	return k.cancel(ctx, id, actor.OfOperator(ctx), reason, func(*Payout) error { return nil })
}

func (k *Keeper) cancel(ctx context.Context, id ID, by, reason string, may func(*Payout) error) (Payout, error) {
	p, err := k.deps.Store.Change(ctx, id, func(p *Payout) (Step, error) {
		if err := may(p); err != nil {
			return Step{}, err
		}
		if p.EndsAs == Cancelled || p.State == Cancelled {
			return Step{}, nil
		}
		if p.EndsAs != "" {
			return Step{}, notAllowed("the payout is failing")
		}
		step, err := p.take(Cancel, by, reason)
		if err == nil {
			p.EndsAs, p.Reason = Cancelled, reason
		}
		return step, err
	})
	if err != nil || p.State.Final() {
		return p, err
	}
	return k.Advance(ctx, id)
}

// CancelOnChain has a transaction that does nothing take the place of a payout's, which may still win. It fails with
// transition_not_allowed.
func (k *Keeper) CancelOnChain(ctx context.Context, id ID, reason string) (Payout, error) {
	if err := checkReason(reason); err != nil {
		return Payout{}, err
	}
	p, err := k.deps.Store.Get(ctx, id)
	switch {
	case err != nil:
		return Payout{}, err
	case p.State != Signing && p.State != Submitted:
		return Payout{}, notAllowed("a payout that is %s has no transaction that can be cancelled", p.State)
	}
	if err := k.deps.Store.CancelCall(ctx, id, actor.OfOperator(ctx), reason); err != nil {
		return Payout{}, err
	}
	return k.deps.Store.Get(ctx, id)
}

// Approve is an operator's consent. A payout above One needs two different operators who signed in; a machine does not
// count. It fails with invalid_value and transition_not_allowed.
func (k *Keeper) Approve(ctx context.Context, id ID, reason string) (Payout, error) {
	if err := checkReason(reason); err != nil {
		return Payout{}, err
	}
	by := actor.OfOperator(ctx)
	if by == actor.Operator {
		return Payout{}, fault.New(fault.Invalid, fault.InvalidValue, "who approves must have a name").On("operator")
	}
	return k.deps.Store.Change(ctx, id, func(p *Payout) (Step, error) {
		switch {
		case p.EndsAs != "":
			return Step{}, notAllowed("the payout is ending")
		case p.Reserved.IsZero():
			return Step{}, notAllowed("the books have not set the money aside yet")
		}
		if p.Gross > One && !actor.IsPerson(by) {
			return Step{}, notAllowed("a payout above $%s needs two operators who signed in; a machine cannot approve it", One)
		}
		if slices.ContainsFunc(p.Consents, func(a Approval) bool { return a.Operator == by }) {
			return Step{}, nil
		}
		cause := Approve
		if p.Gross > One && len(p.Approvals()) == 0 {
			cause = Consent
		}
		step, err := p.take(cause, by, reason)
		step.Consents = true
		p.Consents = append(p.Consents, Approval{Operator: by})
		return step, err
	})
}

// checkReason requires 1 to maxReason printable characters.
func checkReason(reason string) error {
	if !printable.Within(reason, maxReason) {
		return fault.New(fault.Invalid, fault.InvalidValue, "reason must be 1 to %d printable characters", maxReason).On(
			"reason")
	}
	return nil
}
