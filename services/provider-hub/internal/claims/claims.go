// Package claims bounds what providers are paid on their own word. An engine's count of
// its tokens is believed as far as the delivered text accounts for it. Over the last
// Window answers of a provider and model, the tokens billed on claims are at most a tenth
// above what honest vocabularies plausibly make of those texts, and Slack tokens more for
// each answer, because ends of turns leave no text. While Opening is more than that,
// Opening is the bound. Within one answer a claim may be further off, because texts
// differ: package meter bounds it to 2.5 times the recount and 8 tokens. Tokens above the
// bound are not billed, and nobody is blamed for them.
//
// The reference is openai.Counter's own measure. It is not what other providers claim, so
// no number of accounts that lie alike can move it.
//
// Prompts are held to their estimates likewise, with a quarter more for scripts and
// templates (meter.PlausiblePrompt). Prompts with media have a Tracker of their own: of a
// picture or a sound only the hold is certain, so the room that honest claims of media
// leave would be room for false claims of text.
//
// Models whose catalog entry has the capability hidden_reasoning are exempt from both
// bounds of answers, because their text does not bound their tokens.
//
// A Tracker is one hub's. A provider that comes to another hub, or back to a hub that
// restarted, begins with an empty window, which has Opening to spare.
package claims

import (
	"slices"
	"sync"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/lru"
)

const (
	// Window is how many answers count, in steps of a tenth.
	Window = 1000
	steps  = 10
	// Slack is how many tokens of an answer may leave no text, such as ends of turns and
	// marks of calls and of channels.
	Slack = 8
	// Opening is how many tokens above their texts the first answers may have, until the
	// tenth and the Slack come to more. Few answers say little of a provider.
	Opening = 256
	// MaxAccounts bounds the pairs of provider and model that are remembered. The least
	// recent pair is forgotten first.
	MaxAccounts = 16384
)

// Tracker keeps one account for each pair of provider and model. It is safe for
// concurrent use.
type Tracker struct {
	mu       sync.Mutex
	accounts *lru.Map[pair, *account]
}

type pair struct {
	provider ids.ProviderID
	model    string
}

// sums are the totals of a number of answers, in tokens.
type sums struct{ answers, text, estimate, claimed, billed int64 }

func (s *sums) add(o sums) {
	s.answers += o.answers
	s.text += o.text
	s.estimate += o.estimate
	s.claimed += o.claimed
	s.billed += o.billed
}

// allowed is how many of the claimed tokens may be billed.
func (s *sums) allowed() int64 { return s.text + max(s.text/10+Slack*s.answers, Opening) }

type account struct {
	step [steps]sums // a ring; next is the step that is being filled
	next int
}

// NewTracker returns a tracker without accounts.
func NewTracker() *Tracker { return &Tracker{accounts: lru.New[pair, *account](MaxAccounts, nil)} }

// Bill takes one whole answer, with the tokens that its text plausibly has and the tokens
// that the provider claims. It returns how many of the claimed tokens are billed: at
// least the smaller of the two numbers.
func (b *Tracker) Bill(provider ids.ProviderID, model string, text, claimed int64) int64 {
	return b.BillPrompt(provider, model, text, text, claimed)
}

// BillPrompt is Bill for a prompt that was estimated at so many tokens, of which an
// honest engine may make text. Its ratio compares the claims with the estimates.
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

// Ratio compares a provider's claims with the texts of its answers of a model, or with
// the estimates of its prompts.
type Ratio struct {
	Provider ids.ProviderID
	Model    string
	Ratio    float64
	Answers  int64
}

// Highest returns the n highest ratios, or fewer, of the pairs with as many answers as
// one step of the window.
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
