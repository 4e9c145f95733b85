package provider

import (
	"fmt"
	"strings"
	"time"
)

// The steps to activation. A provider is shown the next one.
const (
	stepConnect = iota + 2
	stepBenchmark
	stepCollateral
	stepActive

	// reviewLabel is shown instead of the step's name while only an operator's decision is
	// missing.
	reviewLabel = "Review"

	// payoutShown is how long a provider is warned that earnings go elsewhere.
	payoutShown = 7 * day
	// benchmarkShown is how long before its end a provider is warned that its benchmark
	// expires.
	benchmarkShown = 7 * day

	// Offline is shown instead of active when no node is connected.
	Offline = "offline"
)

// StatusView is a provider's status as its owner sees it.
type StatusView struct {
	// Status is the status' name, or Offline. Label is the same for people.
	Status, Label string
	// Step counts 1 account, 2 connect, 3 benchmark, 4 collateral, 5 active. It is 4, with the
	// label Review, where only an operator's decision is missing.
	Step      int
	StepLabel string
	NextSteps []string
	// Warning is what the owner should look at; empty for nothing.
	Warning string
	// AnsweredAs are the names that its engines gave models of late.
	AnsweredAs []AnsweredAs
}

var labels = map[Status]string{
	Pending: "Pending", UnderReview: "Under Review", Approved: "Approved", Activating: "Activating",
	Active: "Active", Suspended: "Suspended", Rejected: "Rejected",
}

var stepLabels = map[int]string{
	1: "Account", stepConnect: "Connect", stepBenchmark: "Benchmark", stepCollateral: "Collateral", stepActive: "Active",
}

// Show returns a provider's status as its owner sees it. keyExpires is when the shown key
// expires; zero for never.
func (d Detail) Show(now, keyExpires time.Time) StatusView {
	s := StatusView{Status: string(d.Status), Label: labels[d.Status], Warning: d.warning(now, keyExpires),
		AnsweredAs: d.lately(now)}
	s.Step, s.NextSteps = d.next(now)
	s.StepLabel = stepLabels[s.Step]
	if d.Status == UnderReview && s.Step == stepActive {
		s.Step, s.StepLabel = stepCollateral, reviewLabel
	}
	switch {
	case d.Removal.Any():
		s.Label = "Removed"
	case d.Status == Active && !d.Online:
		s.Status, s.Label = Offline, "Offline"
	case d.InProbation():
		s.Label = "Active (Probation)"
	}
	return s
}

// next is the next step and, in words, all steps that are due.
func (d Detail) next(now time.Time) (step int, words []string) {
	switch d.Status {
	case Suspended:
		for _, cause := range d.Suspensions.Hold() {
			words = append(words, cause.Meaning())
		}
		return 1, words
	case Rejected:
		if d.Removal.Any() {
			words = append(words, "If the removal is wrong, appeal against its penalty while that can be appealed: "+
				"an appeal that is won lets the provider back in, with its keys.")
		}
		return 1, append(words,
			"Ask for another review from "+d.RejectedAt.Add(ReapplyAfter).UTC().Format(time.RFC3339)+" on.")
	case Active:
		switch {
		case d.Online:
		case d.EndpointsOnly:
			words = append(words, "Look at the external endpoints: none is served, and the last_error of each says why.")
		default:
			words = append(words, "Start the agent: no machine is connected.")
		}
		if d.InProbation() {
			words = append(words,
				fmt.Sprintf("Stay connected for at least %.0f %% of the time until %s, when the probation ends.",
					100*PassingUptime, d.ProbationEndsAt.UTC().Format(time.RFC3339)))
		}
		return stepActive, words
	case Pending, UnderReview, Approved, Activating:
	}
	step = stepActive
	due := func(at int, text string) {
		step = min(step, at)
		words = append(words, text)
	}
	switch f := d.Facts; {
	case d.EndpointsOnly && !f.GPU():
		due(stepConnect, "Ask the operators to waive the GPU rule, because an external endpoint reports no GPU.")
	case d.EndpointsOnly && !d.Online:
		due(stepConnect, "Look at the external endpoints: none is served, and the last_error of each says why.")
	case d.EndpointsOnly:
	case !d.Online && len(d.Nodes) == 0:
		due(stepConnect, "Start the agent so that a machine connects.")
	case !f.GPU():
		due(stepConnect, "Connect a machine that fulfils the GPU rule: "+f.GPUShortfall+".")
	}
	if !d.Facts.BenchmarkPassed(now) {
		what := "a machine connected"
		if d.EndpointsOnly {
			what = "an external endpoint healthy"
		}
		due(stepBenchmark, "Keep "+what+" until its benchmark is passed.")
	}
	if d.Facts.CollateralAt.IsZero() {
		due(stepCollateral, "Provide the collateral that is due.")
	}
	switch {
	case d.Status == UnderReview:
		words = append(words, "Wait for the operators, who look at the application.")
	case step == stepActive && !d.Reference:
		words = append(words, "Nothing is missing: the account becomes active by itself within a minute.")
	}
	return step, words
}

// warning is what the owner should look at, the worst first.
func (d Detail) warning(now, keyExpires time.Time) string {
	var all []string
	if d.Removal.Any() {
		all = append(all, d.Removal.warning())
	}
	if d.Rejection != "" {
		all = append(all, "Rejected at "+d.RejectedAt.UTC().Format(time.RFC3339)+": "+
			strings.TrimSuffix(d.Rejection, ".")+".")
	}
	for _, cause := range d.Suspensions.Hold() {
		all = append(all, d.Suspensions.Of(cause).warning(cause))
	}
	for _, p := range d.Proposed.All() {
		all = append(all, p.warning())
	}
	if text := d.TakenOut.warning(); text != "" {
		all = append(all, text)
	}
	if at := d.BeneficiaryAt; !at.IsZero() && now.Sub(at) < payoutShown {
		to := "earnings go to " + d.Beneficiary
		if d.Beneficiary == "" {
			to = "earnings go nowhere until an address takes effect"
		}
		all = append(all, "The beneficiary changed at "+at.UTC().Format(time.RFC3339)+": "+to+"."+d.cooling(now))
	}
	if ends := d.Facts.BenchmarkExpires(); d.Status == Active && ends.Sub(now) <= benchmarkShown {
		all = append(all, "The benchmark expires at "+ends.UTC().Format(time.RFC3339)+
			": pass another one before, to stay active.")
	}
	for _, n := range d.Nodes {
		if n.Replaced >= replacedOften && now.Sub(n.ReplacedAt) < replacedShown {
			all = append(all,
				fmt.Sprintf("Two machines seem to share node id %s: their connections replaced each other %d times.", n.ID,
					n.Replaced))
		}
	}
	for _, n := range d.Nodes {
		if n.WarmUpError != "" {
			all = append(all, fmt.Sprintf("Node %s could not load a model when it was asked to: %s.", n.ID,
				strings.TrimSuffix(n.WarmUpError, ".")))
		}
	}
	for _, n := range d.Nodes {
		if n.Online && n.Cut != "" {
			all = append(all, fmt.Sprintf("Node %s: %s.", n.ID, n.Cut))
		}
	}
	if !keyExpires.IsZero() {
		all = append(all, "This provider key ends at "+keyExpires.UTC().Format(time.RFC3339)+"; another one followed it.")
	}
	const most = 4
	return strings.Join(all[:min(len(all), most)], " ")
}

// cooling says until when nothing is paid out to an address that is new, while there is time to find a thief out.
func (d Detail) cooling(now time.Time) string {
	until := d.CoolingUntil()
	if !now.Before(until) {
		return ""
	}
	return " Nothing is paid out before " + until.UTC().Format(time.RFC3339) +
		". If you did not make this change, change your password and contact the operators."
}

// warning says why a provider was removed.
func (r Removal) warning() string {
	if r.Reason == "" {
		return "Removed from the network."
	}
	return "Removed from the network: " + strings.TrimSuffix(r.Reason, ".") + "."
}

// warning says why a provider is suspended. An operator's reason is no reading for the
// provider.
func (s Suspension) warning(cause Cause) string {
	text := "Suspended since " + s.Since.UTC().Format(time.RFC3339)
	if cause.BySettlement() && s.Reason != "" {
		text += " (" + strings.TrimSuffix(s.Reason, ".") + ")"
	}
	return text + ": " + cause.Meaning()
}

// warning warns an owner of a proposal that may be a thief's.
func (p Proposal) warning() string {
	what := "that earnings go to " + p.Address
	if p.Kind == ProposedOwner {
		what = "that wallet " + p.Address + " own this account"
	}
	when := "It counts once the account's user confirms it."
	if !p.TakesEffectAt.IsZero() {
		when = "It takes effect at " + p.TakesEffectAt.UTC().Format(time.RFC3339) + "."
	}
	return fmt.Sprintf(
		"Key %s proposed at %s %s. %s If you did not make this proposal, replace that key and contact the operators.",
		p.Key, p.At.UTC().Format(time.RFC3339), what, when)
}

// probationReason says what a judgement of a probation rests on.
func probationReason(up *float64) string {
	if up == nil {
		return "nothing could be measured"
	}
	return fmt.Sprintf("connected for %.2f %% of the time", 100**up)
}
