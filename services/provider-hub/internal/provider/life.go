package provider

import (
	"context"
	"strings"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/services/provider-hub/internal/uptime"
)

// Actor is who changed a provider.
type Actor string

// operatorKey is the key of the operator's name in a context.
type operatorKey struct{}

// WithOperator records what operators do in ctx under a name. An empty name changes
// nothing.
func WithOperator(ctx context.Context, name string) context.Context {
	if name == "" {
		return ctx
	}
	return context.WithValue(ctx, operatorKey{}, name)
}

// named is the actor with the operator's name, where the name is known.
func (a Actor) named(ctx context.Context) Actor {
	if name, ok := ctx.Value(operatorKey{}).(string); ok && a == ByOperator {
		return ByOperator + ":" + Actor(name)
	}
	return a
}

// The actors. An operator whose name is known is operator:name.
const (
	ByOperator Actor = "operator"
	ByProvider Actor = "provider"
	ByUser     Actor = "user"
	ByPlatform Actor = "platform"
)

// What happens to a provider beside the triggers of the status table.
const (
	CollateralWithdrawn = "collateral_withdrawn"
	BenchmarkConfirmed  = "benchmark_confirmed"
	BenchmarkWithdrawn  = "benchmark_withdrawn"
	GPUWaived           = "gpu_waived"
	GPUWaiverWithdrawn  = "gpu_waiver_withdrawn"
	ReferenceSet        = "reference_set"
	ReferenceCleared    = "reference_cleared"
	VendorRegistered    = "vendor_registered"
	VendorRenamed       = "vendor_renamed"
	VerdictReversed     = "verdict_reversed"
	ProbationPassed     = "probation_passed"
	OwnerProven         = "owner_proven"
	OwnerProposed       = "owner_proposed"
	OwnerUnbound        = "owner_unbound"
	BeneficiaryChanged  = "beneficiary"
	// BeneficiarySet is BeneficiaryChanged by the account's user, who needs no key.
	BeneficiarySet      = "beneficiary_set"
	BeneficiaryProposed = "beneficiary_proposed"
	BeneficiaryUnbound  = "beneficiary_unbound"
	BeneficiaryAtSignUp = "beneficiary_at_signup"
	ProposalDropped     = "proposal_dropped"
	ProposalLapsed      = "proposal_lapsed"
	// SuspensionBegun is a further cause of a suspension, or one of a provider that is
	// rejected; SuspensionEnded is the end of a cause that ends no suspension.
	SuspensionBegun = "suspension_cause_begun"
	SuspensionEnded = "suspension_cause_ended"
)

// Entry is one line of a provider's history. In a confirmation From and To are equal.
type Entry struct {
	At       time.Time
	What     string
	From, To Status
	By       Actor
	Reason   string
	// Payout is set in an entry of an address: where earnings go, whose wallet owns the
	// account, or a proposal of either.
	Payout Payout
	// Proposal is the proposal that was made, took effect or ended; zero for none.
	Proposal ids.ProposalID
	// Verdict is the verdict that removed the provider or was reversed; zero for none.
	Verdict VerdictID
	// Cause is the cause of a suspension that began or ended; empty for none.
	Cause Cause
}

// Payout is a change of an address, by the holder of a key: from one or none, to another
// or none.
type Payout struct {
	From, To string
	Key      ids.KeyID
}

// Said is what changed, and the reason of the entry.
func (e Entry) Said() string {
	var words []string
	if e.Payout.From != "" {
		words = append(words, "from "+e.Payout.From)
	}
	if e.Payout.To != "" {
		words = append(words, "to "+e.Payout.To)
	}
	if !e.Payout.Key.IsZero() {
		words = append(words, "by key "+e.Payout.Key.String())
	}
	if !e.Verdict.IsZero() {
		words = append(words, "verdict "+e.Verdict.String())
	}
	text := strings.Join(words, " ")
	switch {
	case text == "":
		return e.Reason
	case e.Reason == "":
		return text
	default:
		return text + ": " + e.Reason
	}
}

// Facts are what automatic activation depends on. A zero time means not confirmed.
type Facts struct {
	CollateralAt, BenchmarkAt, GPUWaivedAt time.Time
	// BenchmarkRevision and CollateralRevision number the last words of the verifier and
	// of settlement; 0 for none.
	BenchmarkRevision, CollateralRevision int64
	// GPUEligible reports whether a machine that was seen in the last 30 days fulfils the
	// GPU rule. GPUShortfall says why the machine that was seen last does not.
	GPUEligible  bool
	GPUShortfall string
}

// BenchmarkExpires is when the benchmark expires; zero for none.
func (f Facts) BenchmarkExpires() time.Time {
	if f.BenchmarkAt.IsZero() {
		return time.Time{}
	}
	return f.BenchmarkAt.Add(BenchmarkValidity)
}

// BenchmarkPassed reports whether a passed benchmark counts at a time.
func (f Facts) BenchmarkPassed(now time.Time) bool { return now.Before(f.BenchmarkExpires()) }

// GPU reports whether the GPU rule is fulfilled or waived.
func (f Facts) GPU() bool { return f.GPUEligible || !f.GPUWaivedAt.IsZero() }

// Qualified reports whether everything that activation needs holds at a time: confirmed
// collateral, a machine that fulfils the GPU rule or a waiver of it, and a benchmark that
// was passed within BenchmarkValidity.
func (f Facts) Qualified(now time.Time) bool { return len(f.Missing(now)) == 0 }

// Missing names what activation needs and does not have at a time.
func (f Facts) Missing(now time.Time) []string {
	var missing []string
	if f.CollateralAt.IsZero() {
		missing = append(missing, "confirmed collateral")
	}
	if !f.BenchmarkPassed(now) {
		missing = append(missing, "a benchmark that was passed within 30 days")
	}
	if !f.GPU() {
		missing = append(missing, "a machine that fulfils the GPU rule, or a waiver of it")
	}
	return missing
}

// InProbation reports whether the first 24 hours of an activation are not yet
// judged.
func (a *Account) InProbation() bool { return a.Status == Active && !a.ProbationEndsAt.IsZero() }

// probationRest is what would be left of the probation if the activation ended now. seen
// is the uptime of this activation by now.
func (a *Account) probationRest(now time.Time, seen uptime.Uptime) ProbationRest {
	switch {
	case a.Status != Active:
		rest := a.Rest.at(now)
		rest.Until = time.Time{}
		return rest
	case !a.InProbation():
		return ProbationRest{Known: true}
	}
	// A probation that is over and not judged yet has a moment left, behind which it is.
	return ProbationRest{
		Known: true, Left: min(max(a.ProbationEndsAt.Sub(now), time.Millisecond), Probation),
		Before: a.Rest.Before.Plus(seen),
	}
}

// change is one change of an account whose row is locked. Each part of it leaves an
// entry, and what follows by itself is done too.
type change struct {
	account *Account
	by      Actor
	reason  string
	now     time.Time
	entries []Entry
	// verdict is named in the entries of a change that it makes, and so is cause; zero for
	// none.
	verdict VerdictID
	cause   Cause
	// seen is the uptime of the activation that began at seenSince, by now.
	seen      uptime.Uptime
	seenSince time.Time
}

// note adds an entry without a move.
func (c *change) note(what string) {
	c.entries = append(c.entries, Entry{
		At: c.now, What: what, From: c.account.Status, To: c.account.Status, By: c.by, Reason: c.reason,
		Verdict: c.verdict, Cause: c.cause,
	})
}

// fire applies a trigger by the table, and sets what belongs to the status that follows.
// Where the status stays, nothing happens.
func (c *change) fire(t Trigger) error {
	a := c.account
	to, err := a.Status.After(t)
	if err != nil || to == a.Status {
		return err
	}
	if a.Status == Rejected && t != Reinstate {
		c.endRemoval()
	}
	rest := a.probationRest(c.now, c.seenOf(a))
	c.entries = append(c.entries, Entry{At: c.now, What: string(t), From: a.Status, To: to, By: c.by, Reason: c.reason,
		Verdict: c.verdict, Cause: c.cause})
	was := a.Status
	a.Status = to
	a.ActiveSince, a.ProbationEndsAt = time.Time{}, time.Time{}
	if was == Active {
		a.Rest = ProbationRest{}
	}
	switch t {
	case Qualify:
		rest := a.Rest.at(c.now)
		a.ActiveSince, a.ProbationEndsAt = c.now, rest.endsAt(c.now)
		if a.Vendor {
			a.ProbationEndsAt = time.Time{}
		}
		a.Rest = ProbationRest{}
		if rest.Known && a.InProbation() {
			a.Rest.Before = rest.Before
		}
	case RequestReview:
		a.ReviewRequestedAt = c.now
	case Reject:
		a.RejectedAt = c.now
		c.settle() // proposals lapse
	case Expel:
		a.RejectedAt, a.Rest = c.now, rest
		c.settle()
	case Suspend:
		a.Rest = ProbationRest{}
		c.settle()
	case FailProbation, Lift:
		// The facts of the last activation still hold. Without a fresh benchmark the next
		// activation would follow at once.
		a.Facts.BenchmarkAt = time.Time{}
	case Reinstate:
		if a.Rest.Known {
			a.Rest.Until = c.now.Add(RestKept)
		}
	case Approve, ConfirmCollateral, ExpireBenchmark, Withdraw:
	}
	return nil
}

// seenOf is the uptime of the activation that ends, where it was measured.
func (c *change) seenOf(a *Account) uptime.Uptime {
	if !a.ActiveSince.Equal(c.seenSince) {
		return uptime.Uptime{}
	}
	return c.seen
}

// endRemoval ends a removal whose verdicts were not reversed. The benchmark is from
// before it, so the next activation wants another one.
func (c *change) endRemoval() {
	a := c.account
	if !a.Removal.Any() {
		return
	}
	a.Removal, a.Rest = Removal{}, ProbationRest{}
	a.Facts.BenchmarkAt = time.Time{}
}

// collateral confirms collateral or withdraws it.
func (c *change) collateral(there bool) error {
	f := &c.account.Facts
	switch {
	case there && f.CollateralAt.IsZero():
		f.CollateralAt = c.now
		before := c.account.Status
		if err := c.fire(ConfirmCollateral); err != nil {
			return err
		}
		if c.account.Status == before {
			c.note(string(ConfirmCollateral))
		}
	case !there && !f.CollateralAt.IsZero():
		f.CollateralAt = time.Time{}
		c.note(CollateralWithdrawn)
		return c.withdraw()
	}
	return nil
}

// benchmark records when a benchmark was passed that counts, which may renew one, or
// withdraws the benchmark for the zero time.
func (c *change) benchmark(passedAt time.Time) error {
	f := &c.account.Facts
	if f.BenchmarkAt.Equal(passedAt) {
		return nil
	}
	f.BenchmarkAt = passedAt
	if !passedAt.IsZero() {
		c.note(BenchmarkConfirmed)
		return nil
	}
	c.note(BenchmarkWithdrawn)
	return c.withdraw()
}

// waiver waives the GPU rule or withdraws the waiver, which matters only where no machine
// fulfils the rule.
func (c *change) waiver(waived bool) error {
	f := &c.account.Facts
	switch {
	case waived && f.GPUWaivedAt.IsZero():
		f.GPUWaivedAt = c.now
		c.note(GPUWaived)
	case !waived && !f.GPUWaivedAt.IsZero():
		f.GPUWaivedAt = time.Time{}
		c.note(GPUWaiverWithdrawn)
		if c.account.Status == Active && !f.GPUEligible {
			return c.withdraw()
		}
	}
	return nil
}

// withdraw ends the status that rested on a withdrawn fact. Where no status rested on it,
// only the facts have changed.
func (c *change) withdraw() error {
	if _, rests := transitions[c.account.Status][Withdraw]; !rests {
		return nil
	}
	return c.fire(Withdraw)
}

// judge ends a probation whose time is over. up is the part of it in which a node was
// connected. It is nil where nothing could be measured, and then the probation is passed.
func (c *change) judge(up *float64) error {
	a := c.account
	if !a.InProbation() || c.now.Before(a.ProbationEndsAt) {
		return nil
	}
	if up != nil && *up < PassingUptime {
		return c.fire(FailProbation)
	}
	a.ProbationEndsAt = time.Time{}
	c.note(ProbationPassed)
	return nil
}

// expire ends an activation whose benchmark has expired.
func (c *change) expire() error {
	if c.account.Status != Active || c.account.Vendor || c.account.Facts.BenchmarkPassed(c.now) {
		return nil
	}
	return c.fire(ExpireBenchmark)
}
