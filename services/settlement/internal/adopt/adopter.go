package adopt

import (
	"context"
	"fmt"
	"time"
	"unicode"
	"unicode/utf8"

	"svc.internal/pkg/crash"
	"svc.internal/pkg/fault"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/sending"
)

// The reasons of this package's faults.
const (
	NotConfigured fault.Reason = "chain_not_configured"
	ChainHalted   fault.Reason = "chain_halted"
)

// maxReason bounds why an operator adopts, in characters.
const maxReason = 500

// New makes an adopter.
func New(deps Deps) *Adopter { return &Adopter{deps} }

func (a *Adopter) chain(id chain.ID) (Chain, error) {
	for _, c := range a.deps.Chains {
		if c.ID == id {
			return c, nil
		}
	}
	return Chain{}, fault.New(fault.NotFound, NotConfigured, "chain %s is not configured", id).On("chain_id")
}

// Plan says what the database lost of a chain, and what would be done. A since of zero is Since ago.
func (a *Adopter) Plan(ctx context.Context, id chain.ID, since time.Time, w Words) (Plan, error) {
	c, err := a.chain(id)
	if err != nil {
		return Plan{}, err
	}
	if since.IsZero() {
		now, err := a.deps.Store.Now(ctx)
		if err != nil {
			return Plan{}, err
		}
		since = now.Add(-Since)
	}
	f, err := a.facts(ctx, c, since)
	if err != nil {
		return Plan{}, err
	}
	return Decide(f, w), nil
}

// Adopt does what a plan says, as far as it goes now, and returns the plan. Made again it goes on where it can.
func (a *Adopter) Adopt(ctx context.Context, id chain.ID, since time.Time, w Words, by By) (Plan, error) {
	if err := by.check(w); err != nil {
		return Plan{}, err
	}
	halted, err := a.deps.Store.Halted(ctx, id)
	if err != nil {
		return Plan{}, err
	}
	if halted {
		return Plan{}, fault.New(fault.Precondition, ChainHalted,
			"the reading of chain %s is halted: its halt is lifted first", id)
	}
	p, err := a.Plan(ctx, id, since, w)
	if err != nil {
		return Plan{}, err
	}
	if err := a.deps.Store.Adopt(ctx, p, by); err != nil {
		return Plan{}, err
	}
	crash.At("settlement.adoption.committed")
	c, err := a.chain(id)
	if err != nil {
		return Plan{}, err
	}
	for i := range p.Calls {
		if l := &p.Calls[i]; l.Action == SignCancel {
			if err := a.cancel(ctx, c, l); err != nil {
				return Plan{}, err
			}
		}
	}
	return p, nil
}

// CheckReason fails with invalid_value for a reason that the database does not keep.
func CheckReason(reason string) error {
	n := utf8.RuneCountInString(reason)
	bad := !utf8.ValidString(reason) || n < 1 || n > maxReason
	for _, r := range reason {
		bad = bad || !unicode.IsPrint(r)
	}
	if bad {
		return fault.New(fault.Invalid, fault.InvalidValue, "reason must have 1 to %d printable characters", maxReason).On(
			"reason")
	}
	return nil
}

func (b By) check(w Words) error {
	if err := CheckReason(b.Reason); err != nil {
		return err
	}
	if len(w.Accept) > maxWords || len(w.Match) > maxWords || len(w.GiveBack) > maxWords {
		return fault.New(fault.Invalid, fault.InvalidValue, "there are at most %d words of one kind", maxWords)
	}
	return nil
}

// cancel takes a nonce on the chain whose content nobody knows. The bytes are not stored: whatever a final block has of
// the nonce is adopted from there. Twice what the chain suggests is offered, because the lost transaction may wait in a
// node's pool.
func (a *Adopter) cancel(ctx context.Context, c Chain, l *CallLine) error {
	fees, err := c.Node.SuggestFees(ctx)
	if err != nil {
		return fmt.Errorf("read the fees of the chain: %w", err)
	}
	fees = doubled(fees, c.MaxGasPrice)
	n := l.Nonce
	call := sending.Call{Request: sending.Request{Chain: c.ID, Key: n.Key, To: n.Sender}, Sender: n.Sender, Nonce: n.Nonce,
		Gas: cancelGas}
	signature, err := a.deps.Signer.Sign(ctx, call, true, fees)
	if err != nil {
		return fmt.Errorf("sign the cancel of nonce %d of %s: %w", n.Nonce, n.Sender, err)
	}
	outcome, err := c.Node.Broadcast(ctx, signature.Raw)
	if err != nil {
		l.Detail += "; its cancel was refused: " + err.Error()
		return nil
	}
	l.Detail += "; its cancel " + signature.Hash.String() + ": " + string(outcome)
	return nil
}

// doubled returns twice the fees that a chain suggests, at most the bound. Nodes take no tip above the whole fee.
func doubled(suggested chain.Fees, bound chain.Amount) chain.Fees {
	highest := twice(suggested.Max, bound)
	return chain.Fees{Max: highest, Tip: twice(suggested.Tip, highest)}
}

// twice returns two times an amount, at most a bound.
func twice(a, bound chain.Amount) chain.Amount {
	if double, ok := a.MulDiv(2, 1); ok && double.Cmp(bound) < 0 {
		return double
	}
	return bound
}
