// Package pick chooses who serves a request. It returns up to three providers in the
// order in which they are tried, with a slot booked on the first.
//
// A seat is one session's offer of a model. A seat is eligible if its provider is online
// for the model, has not failed this request already, declares what the request needs,
// takes a body of that size, has an effective window (package contextwindow) that holds
// the prompt and the explicit max_tokens, is not behind an open breaker, and is not shut by
// the verifier (package trust). A seat that is shut serves nobody, and says nothing of the
// windows and bodies that are taken. While no window is known every prompt fits, because
// the engine itself refuses a prompt that does not fit.
//
// Two of the eligible seats with a free slot are drawn at random, and the seat with the
// higher score (package score) is taken: power of two choices. Scores within TieShare of
// each other count as equal, and then a seat on the caller's own hub wins. Alternates are
// drawn the same way from the other providers. A model with more than sampleAbove seats
// is sampled instead of walked, so that a choice costs the same however many seats there
// are. Only a refusal walks all of them; any other walk ends once enough is found.
//
// The probe lane holds degraded providers, providers whose breaker is half open, and
// providers that the verifier gives probes only, which are treated as degraded. They
// come first in one of ProbeOneIn choices and last in all others. They serve normally
// where no other provider is eligible.
//
// Preferences narrow who is eligible, and may take the place of the score. Providers
// named in an order come first, in that order. A sort by a measured figure leaves nothing
// to chance. With either, no probe leads. Named providers are looked up instead of
// searched for. A sort compares all free seats up to sortAmong, and of more it compares
// as many from a random place on.
//
// Seats are in two tiers (presence.Tier): sessions that agents hold by WebSocket, and all
// others, such as servers that hubs call. The second tier leads where the first alone would
// refuse the request or have it wait, and its alternates come after all of the first. A seat
// of the second never competes with one of the first, and all else said here applies within
// each tier. A pin is to a provider, whatever its tier; of a provider with both, the
// WebSocket is tried first. Providers in an order keep their places in it, and so count as
// of the first tier. An only, an ignore and a sort change no tier.
//
// A caller waits for up to MaxWait while all eligible providers are busy. Callers with
// priority look before the others each time a slot is free. At most
// MaxWaiters callers wait at a time; further ones are refused at once. Nobody waits for
// providers that only the requests of others keep busy while the probe lane can serve,
// because no request of ours can end there, and the provider's word is all that is known
// of the others.
package pick

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/services/router/internal/contextwindow"
	"svc.internal/services/router/internal/health"
	"svc.internal/services/router/internal/presence"
	"svc.internal/services/router/internal/retry"
	"svc.internal/services/router/internal/tag"
	"svc.internal/services/router/internal/trust"
	"svc.internal/services/router/internal/warmup"
)

const (
	// MaxCandidates bounds an answer: a primary and two alternates.
	MaxCandidates = 3
	// MaxWait is how long a request waits for a free slot.
	MaxWait = 2 * time.Second
	// MaxWaiters bounds the requests that wait at a time.
	MaxWaiters = 1024
	// ProbeOneIn is the share of choices that the probe lane leads.
	ProbeOneIn = 32
	// TieShare is how far apart two scores may lie, as a share of the higher, and still
	// count as equal.
	TieShare = 0.05
	// answerMargin is the part of the caller's deadline that is kept for the answer.
	answerMargin = 50 * time.Millisecond
)

// Request is what a choice is made for.
type Request struct {
	ID    string
	Model string
	// Account is the account whose request it is.
	Account tag.Account
	// Priority puts the request ahead of those without while all eligible providers are busy.
	Priority bool
	// PromptTokens is the estimate without its margin. MaxTokens is 0 unless the caller
	// set it.
	PromptTokens int64
	MaxTokens    int64
	BodyBytes    int64
	Capabilities []string
	// Pin is the id of the provider that the request asks for; empty without a pin.
	Pin            string
	AllowFallbacks bool
	NearHub        string
	// Exclude lists providers that have failed this request.
	Exclude []string
	Prefer  Preferences
}

// Candidate is one provider to try.
type Candidate struct {
	Seat *presence.Seat
	// Window is the effective window in tokens; 0 where it is not known.
	Window int64
	Source contextwindow.Source
}

// Fallback says why a pin was not honoured.
type Fallback uint8

// The reasons for a fallback.
const (
	NoFallback Fallback = iota
	PinUnavailable
	PinFailed
)

// Choice names the candidates, in the order in which they are tried.
type Choice struct {
	Candidates []Candidate
	Fallback   Fallback
	// UsualFirstContent is the model's usual time to first content for a prompt of this
	// length; 0 where it is not known.
	UsualFirstContent time.Duration
	// PassedOver counts by reason how often the choice passed a seat over. Where not all seats
	// are looked at, only the seats that are drawn, named or walked past count, and one that is
	// drawn twice counts twice. An alternate may have been passed over as the first.
	PassedOver []PassedOver
	// Single reports whether the request gets one attempt only, because too many requests
	// of its account have failed. Then there is one candidate.
	Single bool
}

// PassedOver is how many seats a choice passed over for a reason.
type PassedOver struct {
	Reason Reason
	Count  int
}

// Directory reports whether a provider exists.
type Directory interface {
	// Exists may answer from memory. An error means that the directory cannot answer now.
	Exists(ctx context.Context, provider string) (bool, error)
}

// Deps are what a Picker works with.
type Deps struct {
	View   *presence.View
	Health *health.Registry
	// Trust knows what the verifier says of providers.
	Trust     *trust.Registry
	Directory Directory
	Clock     clock.Clock
	// Windows returns the catalog's window of a model in tokens; 0 where it is not known.
	Windows func(model string) int64
	// Seed starts the random choices.
	Seed [2]uint64
	// Waitlist wakes the requests that wait. The view wakes them too.
	Waitlist *Waitlist
	// Stats counts which providers were chosen, and which were passed over and why.
	Stats *Stats
	// Warm hears which models are asked for, which have too few providers, and which
	// nodes to check.
	Warm *warmup.Planner
	// Retries counts the failed attempts of each account.
	Retries *retry.Budget
}

// Picker is safe for concurrent use.
type Picker struct {
	deps Deps

	mu     sync.Mutex
	source *rand.PCG

	searches sync.Pool // of *search
}

// New makes a picker.
func New(deps Deps) *Picker {
	p := &Picker{deps: deps, source: rand.NewPCG(deps.Seed[0], deps.Seed[1])}
	p.searches.New = func() any {
		s := &search{picker: p}
		s.random = rand.New(&s.source) //nolint:gosec // spreads load, guards nothing
		return s
	}
	return p
}

// Select makes the choice. Its faults are the faults of the Select RPC.
func (p *Picker) Select(ctx context.Context, req *Request) (Choice, error) {
	// A model that neither the catalog nor a provider knows is no demand, because anybody
	// can make up names until there is no room left.
	if p.deps.Windows(req.Model) > 0 || len(p.deps.View.Seats(req.Model)) > 0 {
		p.deps.Warm.Asked(req.Model, p.deps.Clock.Now())
	}
	choose := p.auto
	if req.Pin != "" {
		choose = p.pinned
	}
	choice, err := choose(ctx, req)
	if err != nil {
		return choice, err
	}
	choice.UsualFirstContent = p.deps.Health.Pace(req.Model).At(req.PromptTokens)
	if p.deps.Retries.Spent(req.Account, p.deps.Clock.Now()) {
		choice.Single, choice.Candidates = true, choice.Candidates[:1]
	}
	return choice, nil
}

// auto chooses among all providers, waiting while they are busy.
func (p *Picker) auto(ctx context.Context, req *Request) (Choice, error) {
	told := false
	return p.await(ctx, req, func(last bool) (Choice, error) {
		choice, err := p.look(req, last)
		if !told && errors.Is(err, errBusy) {
			told = true
			p.deps.Warm.Short(req.Model)
		}
		return choice, err
	})
}

// look tries once, tier by tier. It returns errBusy where waiting may help.
func (p *Picker) look(req *Request, last bool) (Choice, error) {
	s := p.begin(req)
	defer p.end(s)
	for _, t := range presence.Tiers() {
		s.enter(t)
		switch {
		case len(s.chosen) > 0:
			s.fill()
		case s.lead(last) && t > presence.FirstTier && s.earlier.busy > 0:
			p.deps.Warm.Short(req.Model) // the second tier has taken what overflows
		}
	}
	if len(s.chosen) == 0 {
		return Choice{}, s.refusal()
	}
	return s.choice(), nil
}

func (p *Picker) begin(req *Request) *search {
	s := p.searches.Get().(*search)
	s.begin(req, p.deps.Windows(req.Model), p.deps.Clock.Now())
	p.mu.Lock()
	hi, lo := p.source.Uint64(), p.source.Uint64()
	p.mu.Unlock()
	s.reseed(hi, lo)
	return s
}

func (p *Picker) end(s *search) {
	s.release()
	p.searches.Put(s)
}
