// Package claims bounds what providers are paid on their own word. An engine's
// count of its tokens is believed as far as the text that it delivered can
// account for it: over the last Window answers of a provider and model, what is
// billed on claims is at most a tenth above what honest vocabularies plausibly make
// of those texts, and Slack tokens an answer for what leaves no text; or Opening in all,
// while that is more. Within one
// answer a claim may be further off, since texts differ: honest answers leave room
// for each other. What is above is not billed; nobody is blamed for it.
//
// The reference is openai.Counter's own measure, not what other providers claim, so
// that no number of accounts that lie alike can move it.
//
// Prompts are held to their estimates likewise. Those with media have a Tracker of their
// own, because of a picture or sound only the hold is certain: what honest claims of
// media leave of it would be room for false claims of text.
//
// A Tracker is one hub's: a provider that comes to another hub, or back to one that
// was started anew, begins with an empty window, which has Opening to spare.
package claims

import (
	"slices"
	"sync"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/lru"
)

const (
	// Window is how many answers are looked back on, in steps of a tenth.
	Window = 1000
	steps  = 10
	// Slack is how many tokens an answer may have that leave no text: ends of
	// turns, marks of calls and of channels.
	Slack = 8
	// Opening is how many tokens above their texts the first answers may have, until
	// the tenth and the Slack come to more: few answers say little of a provider.
	Opening = 256
	// MaxAccounts bounds how many pairs of a provider and a model are
	// remembered. The one that was heard of longest ago goes first.
	MaxAccounts = 16384
)

// Tracker keeps the accounts. It is safe for concurrent use.
type Tracker struct {
	mu       sync.Mutex
	accounts *lru.Map[pair, *account]
}

type pair struct {
	provider ids.ProviderID
	model    string
}

// sums are of a number of answers, in tokens.
type sums struct{ answers, text, estimate, claimed, billed int64 }

func (s *sums) add(o sums) {
	s.answers += o.answers
	s.text += o.text
	s.estimate += o.estimate
	s.claimed += o.claimed
	s.billed += o.billed
}

// allowed is how much of the claims may be billed.
func (s *sums) allowed() int64 { return s.text + max(s.text/10+Slack*s.answers, Opening) }

type account struct {
	step [steps]sums // a ring; the one at next is being filled
	next int
}

// NewTracker returns a tracker without accounts.
func NewTracker() *Tracker { return &Tracker{accounts: lru.New[pair, *account](MaxAccounts, nil)} }

// Bill takes one whole answer, of which the text is plausibly so many tokens and
// for which the provider claims others. It returns how much of that is billed: at
// least the smaller of the two.
func (b *Tracker) Bill(provider ids.ProviderID, model string, text, claimed int64) int64 {
	return b.BillPrompt(provider, model, text, text, claimed)
}

// BillPrompt is Bill for a prompt that was estimated at so many tokens, of which an
// honest engine may make text. Its ratio is that of the claims to the estimates.
func (b *Tracker) BillPrompt(provider ids.ProviderID, model string, estimate, text, claimed int64) int64 {
	estimate, text, claimed = max(estimate, 0), max(text, 0), max(claimed, 0)
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.account(pair{provider, model})
	all := a.sum()
	all.add(sums{answers: 1, text: text})
	billed := min(claimed, max(text, all.allowed()-all.billed))
	a.add(sums{answers: 1, text: text, estimate: estimate, claimed: claimed, billed: billed})
	return billed
}

// account finds or makes the account of a pair.
func (b *Tracker) account(p pair) *account {
	if a, ok := b.accounts.Get(p); ok {
		return a
	}
	a := &account{}
	b.accounts.Add(p, a)
	return a
}

func (a *account) sum() (all sums) {
	for _, s := range a.step {
		all.add(s)
	}
	return all
}

func (a *account) add(s sums) {
	if a.step[a.next].answers == Window/steps {
		a.next = (a.next + 1) % steps
		a.step[a.next] = sums{}
	}
	a.step[a.next].add(s)
}

// Ratio is what a provider claims of its answers of a model, to what their texts
// account for, or of its prompts, to their estimates.
type Ratio struct {
	Provider ids.ProviderID
	Model    string
	Ratio    float64
	Answers  int64
}

// Highest returns the highest ratios, at most n, of those with as many answers as
// a step of the window.
func (b *Tracker) Highest(n int) []Ratio {
	b.mu.Lock()
	var all []Ratio
	for _, of := range b.accounts.Keys() {
		a, _ := b.accounts.Peek(of)
		if s := a.sum(); s.answers >= Window/steps && s.estimate > 0 {
			all = append(all, Ratio{of.provider, of.model, float64(s.claimed) / float64(s.estimate), s.answers})
		}
	}
	b.mu.Unlock()
	slices.SortFunc(all, func(x, y Ratio) int {
		switch {
		case x.Ratio > y.Ratio:
			return -1
		case x.Ratio < y.Ratio:
			return 1
		}
		return 0
	})
	return all[:min(n, len(all))]
}
