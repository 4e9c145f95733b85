package provider

import (
	"context"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/siwe"
)

// ProposalKind is what a proposal changes.
type ProposalKind string

// The kinds of proposals.
const (
	// ProposedOwner changes whose wallet owns the account.
	ProposedOwner ProposalKind = "owner"
	// ProposedBeneficiary changes where earnings go.
	ProposedBeneficiary ProposalKind = "beneficiary"
)

// effects are the history's names of proposals that took effect.
var effects = map[ProposalKind]string{ProposedOwner: OwnerProven, ProposedBeneficiary: BeneficiaryChanged}

// askings are the history's names of proposals that were made.
var askings = map[ProposalKind]string{ProposedOwner: OwnerProposed, ProposedBeneficiary: BeneficiaryProposed}

// Proposal is a change that a key alone asked for. A provider key lies on every machine
// and may have leaked, so the change counts for nothing until it takes effect. The zero
// value is none.
//
// A proposal takes effect when the account's user confirms it by its id, or, in an
// account without a user, 48 hours after it was made. The database computes that whenever
// an account is read (store/views/provider_proposal_now.sql), and a sweep only writes
// down what counts already. Another address of the same kind is another proposal, which
// waits anew; the same address is not. The address that counts already withdraws the
// proposal. Keys make at most MaxChanges within OftenWithin; what the user changes does
// not count with them.
//
// A proposal lapses when its key is revoked or expires before it takes effect (a
// rotation's older key, too), when the account is suspended or rejected, and when a
// wallet that has not signed it comes to own the account. A wallet whose proposals to own
// two providers fall due gets the first. Until a proposal takes effect, it is in the
// warning of the account's status. A new address is in the warning for 7 days.
type Proposal struct {
	ID      ids.ProposalID
	Kind    ProposalKind
	Address string
	// Signer is the wallet that signed beside the key; empty for a key alone.
	Signer string
	Key    ids.KeyID
	// At is when the proposal was made. TakesEffectAt is when it takes effect by itself;
	// zero where the account's user has to confirm it. Both are by the store's clock, and
	// zero until the store has kept the proposal.
	At, TakesEffectAt time.Time
	// Due reports that it took effect at TakesEffectAt, KeyEnded that its key ended
	// before, and Taken that the wallet belongs to another account. The store sets them.
	Due, KeyEnded, Taken bool
}

// Proposals are the proposals of an account, at most one of a kind.
type Proposals struct{ Owner, Beneficiary Proposal }

// All lists the proposals that there are.
func (p Proposals) All() []Proposal {
	var all []Proposal
	for _, q := range []Proposal{p.Owner, p.Beneficiary} {
		if !q.ID.IsZero() {
			all = append(all, q)
		}
	}
	return all
}

// Settled is the account as it counts now: proposals that fell due have taken effect, and
// lapsed ones are removed, whether or not the store has written that down.
func (a Account) Settled() Account {
	c := &change{account: &a}
	c.settle()
	return a
}

// settle applies the proposals that fell due, and drops the proposals that lapsed. The
// proposal with the earlier time is settled first.
func (c *change) settle() {
	p := &c.account.Proposed
	order := [2]*Proposal{&p.Owner, &p.Beneficiary}
	if p.Beneficiary.TakesEffectAt.Before(p.Owner.TakesEffectAt) {
		order[0], order[1] = order[1], order[0]
	}
	for _, q := range order {
		if q.ID.IsZero() {
			continue
		}
		if why := c.lapsed(q); why != "" {
			c.drop(q, ProposalLapsed, ByPlatform, why)
		} else if q.Due {
			c.effect(q, ByPlatform, q.TakesEffectAt)
		}
	}
}

// lapsed says why a proposal cannot take effect any more; empty where it can.
func (c *change) lapsed(q *Proposal) string {
	a := c.account
	switch {
	case q.KeyEnded:
		return "its key has ended"
	case !a.Status.MayConnect():
		return "the account is " + string(a.Status)
	case q.Kind == ProposedOwner && !a.OwnerProvenAt.IsZero():
		return "a wallet owns the account"
	case q.Kind == ProposedOwner && q.Taken:
		return "the wallet has another provider"
	case q.Kind == ProposedBeneficiary && !a.OwnerProvenAt.IsZero() && q.Signer != a.Owner:
		return "the owner's wallet has not signed"
	}
	return ""
}

// enter adds an entry of a proposal.
func (c *change) enter(q *Proposal, what string, by Actor, at time.Time, why string) {
	from := ""
	if q.Kind == ProposedBeneficiary && what != ProposalLapsed && what != ProposalDropped {
		from = c.account.Beneficiary
	}
	c.entries = append(c.entries, Entry{
		At: at, What: what, From: c.account.Status, To: c.account.Status, By: by, Reason: why,
		Payout: Payout{From: from, To: q.Address, Key: q.Key}, Proposal: q.ID,
	})
}

// drop ends a proposal without effect.
func (c *change) drop(q *Proposal, what string, by Actor, why string) {
	if q.ID.IsZero() {
		return
	}
	c.enter(q, what, by, c.now, why)
	*q = Proposal{}
}

// effect applies a proposal.
func (c *change) effect(q *Proposal, by Actor, at time.Time) {
	c.enter(q, effects[q.Kind], by, at, "")
	switch a := c.account; q.Kind {
	case ProposedOwner:
		a.bind(q.Address, at)
	case ProposedBeneficiary:
		a.payTo(q.Address, at)
	}
	*q = Proposal{}
}

// propose puts a proposal in the place of the earlier proposal of its kind. The same
// proposal again does not wait anew.
func (c *change) propose(want Proposal) {
	p := &c.account.Proposed
	q := &p.Owner
	if want.Kind == ProposedBeneficiary {
		q = &p.Beneficiary
	}
	if q.Address == want.Address && q.Signer == want.Signer {
		return
	}
	*q = want
	c.enter(q, askings[q.Kind], c.by, c.now, "")
}

// proposal finds a waiting proposal by its id; nil for none.
func (c *change) proposal(id ids.ProposalID) *Proposal {
	for _, q := range []*Proposal{&c.account.Proposed.Owner, &c.account.Proposed.Beneficiary} {
		if q.ID == id && !id.IsZero() {
			return q
		}
	}
	return nil
}

// own binds the account for good to a wallet that has signed, in the name of the
// account's user.
func (c *change) own(address siwe.Address) error {
	a := c.account
	switch {
	case a.Proven(address):
		return nil
	case !a.OwnerProvenAt.IsZero():
		return ownedByAnother()
	}
	a.bind(address.String(), c.now)
	c.note(OwnerProven)
	c.settle() // proposals that another wallet signed, or none, lapse
	return nil
}

// proposeOwner proposes that a wallet that has signed own the account.
func (c *change) proposeOwner(want Proposal) error {
	switch a := c.account; {
	case a.OwnerProvenAt.IsZero():
		c.propose(want)
		return nil
	case a.Owner == want.Address:
		return nil
	default:
		return ownedByAnother()
	}
}

func ownedByAnother() error {
	return fault.New(fault.Conflict, fault.AlreadyExists, "this provider belongs to another wallet already").On(
		"owner_address")
}

// pay proposes that earnings go to an address. If the account's user asks, or the wallet that
// owns the account has signed, they go there at once. In an account that a wallet owns, nobody
// changes the address without the wallet. The address to which earnings go already withdraws
// the proposal.
func (c *change) pay(want Proposal) error {
	a := c.account
	switch {
	case want.Address == a.Beneficiary:
		c.drop(&a.Proposed.Beneficiary, ProposalDropped, c.by, "")
	case a.OwnerProvenAt.IsZero() && c.by != ByUser:
		c.propose(want)
	case !a.OwnerProvenAt.IsZero() && want.Signer != a.Owner:
		return fault.New(fault.Denied, fault.InvalidAPIKey,
			"the owner's wallet must sign a fresh challenge for earnings to go to another address").On("signature")
	default:
		c.drop(&a.Proposed.Beneficiary, ProposalDropped, c.by, "")
		what := BeneficiaryChanged
		if c.by == ByUser {
			what = BeneficiarySet
		}
		c.entries = append(c.entries, Entry{
			At: c.now, What: what, From: a.Status, To: a.Status, By: c.by,
			Payout: Payout{From: a.Beneficiary, To: want.Address, Key: want.Key},
		})
		a.payTo(want.Address, c.now)
	}
	return nil
}

// proposalStore is what proposals need of a store.
type proposalStore interface {
	// Became reads the last entry of a proposal in a provider's history; empty for none.
	Became(ctx context.Context, id ids.ProviderID, proposal ids.ProposalID) (what string, err error)
	// DueOwners reads the providers for which a wallet's proposal to own them fell due,
	// the earliest first, at most a handful.
	DueOwners(ctx context.Context, address string) ([]ids.ProviderID, error)
}

// OfUser is the account of a user. It fails with provider_not_found.
func (d *Directory) OfUser(ctx context.Context, user string) (Account, error) {
	a, ok, err := d.store.OfUser(ctx, user)
	if err == nil && !ok {
		err = fault.New(fault.NotFound, fault.ProviderNotFound, "this user has no provider")
	}
	return a, err
}

// ConfirmProposal applies a proposal in the name of the account's user. A second call
// changes nothing. A proposal that took its place needs a confirmation of its own. It
// fails with proposal_not_found and account_frozen.
func (d *Directory) ConfirmProposal(ctx context.Context, user string, id ids.ProposalID) (Account, error) {
	return d.decide(ctx, user, id, func(became string) bool {
		return became == OwnerProven ||
			became == BeneficiaryChanged
	},
		func(c *change, q *Proposal) {
			c.effect(q, c.by, c.now)
			c.settle() // proposals that the wallet which now owns the account has not signed lapse
		})
}

// RefuseProposal drops a proposal in the name of the account's user. A second call
// changes nothing. It fails with proposal_not_found and account_frozen.
func (d *Directory) RefuseProposal(ctx context.Context, user string, id ids.ProposalID) (Account, error) {
	return d.decide(ctx, user, id, func(became string) bool {
		return became == ProposalDropped ||
			became == ProposalLapsed
	},
		func(c *change, q *Proposal) { c.drop(q, ProposalDropped, c.by, "") })
}

// decide applies a user's decision on a proposal, unless done reports that the proposal
// already ended as the user wants.
func (d *Directory) decide(
	ctx context.Context, user string, id ids.ProposalID, done func(became string) bool, what func(*change, *Proposal),
) (Account, error) {
	a, ok, err := d.store.OfUser(ctx, user)
	if err != nil {
		return Account{}, err
	}
	if !ok {
		return Account{}, NoProposal()
	}
	got, err := d.change(ctx, a.ID, ByUser, "", func(c *change) error {
		if err := c.account.Status.Admits(); err != nil {
			return err
		}
		q := c.proposal(id)
		if q == nil {
			return NoProposal()
		}
		what(c, q)
		return nil
	})
	if !fault.Is(err, fault.ProposalNotFound) {
		return got, err
	}
	became, lookErr := d.store.Became(ctx, a.ID, id)
	if lookErr != nil {
		return Account{}, lookErr
	}
	if !done(became) {
		return Account{}, err
	}
	return d.store.Get(ctx, a.ID)
}

// NoProposal is the error of a proposal that is not the caller's, or does not wait any
// more.
func NoProposal() error {
	return fault.New(fault.NotFound, fault.ProposalNotFound,
		"no such proposal: it is not this account's, was replaced or withdrawn, or has lapsed").On("proposal_id")
}

// settleOwner writes to the store which account a wallet owns because its proposal fell
// due, so that the wallet is found, and belongs to nobody else.
func (d *Directory) settleOwner(ctx context.Context, address siwe.Address) error {
	due, err := d.store.DueOwners(ctx, address.String())
	if err != nil {
		return err
	}
	for _, id := range due {
		if _, _, err := d.follow(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// Unbinding says what an operator takes from a provider.
type Unbinding struct{ Wallet, Beneficiary, Proposals bool }

// Unbind takes from an account its wallet, the address of its earnings, or its proposals.
// What is not there is ignored. It fails with provider_not_found and invalid_value.
func (d *Directory) Unbind(ctx context.Context, id ids.ProviderID, what Unbinding, reason string) (Account, error) {
	if what == (Unbinding{}) {
		return Account{}, fault.New(fault.Invalid, fault.InvalidValue, "wallet, beneficiary or proposals must be true").On(
			"wallet")
	}
	return d.change(ctx, id, ByOperator, reason, func(c *change) error {
		a := c.account
		if what.Proposals || what.Wallet {
			c.drop(&a.Proposed.Owner, ProposalDropped, c.by, reason)
		}
		if what.Proposals || what.Beneficiary {
			c.drop(&a.Proposed.Beneficiary, ProposalDropped, c.by, reason)
		}
		if what.Wallet && !a.OwnerProvenAt.IsZero() {
			c.unbound(OwnerUnbound, a.Owner)
			a.bind("", time.Time{})
		}
		if what.Beneficiary && a.Beneficiary != "" {
			c.unbound(BeneficiaryUnbound, a.Beneficiary)
			a.payTo("", c.now)
		}
		return nil
	})
}

// unbound adds an entry of an address that was taken away.
func (c *change) unbound(what, address string) {
	c.note(what)
	c.entries[len(c.entries)-1].Payout = Payout{From: address}
}
