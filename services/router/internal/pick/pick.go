// Package pick chooses who serves a request: an ordered handful of providers,
// with a slot booked on the first.
//
// A seat (one session's offer of a model) is eligible when its provider is
// online for the model, has not failed this request already, declares what the
// request needs, takes a body of that size, has a window that holds the prompt
// and the explicit max_tokens, and is not behind an open breaker. The effective
// window is the reported one, but never more than the catalog's, because nobody
// has measured it, and the catalog's when none is reported; while
// neither is known every prompt fits, because the engine itself will tell.
//
// Of the eligible seats with a free slot two are drawn at random and the one
// with the higher score (package score) is taken: power of two choices. Scores
// within TieShare of each other are equal, and then a seat on the caller's own
// hub wins. Alternates are drawn the same way from the other providers. Models
// with more than sampleAbove seats are sampled instead of walked, so that a
// choice costs the same however many there are. Only a refusal needs the walk of
// all; another one ends once enough is found.
//
// Degraded providers and those whose breaker is half open form the probe lane:
// they come first in one of ProbeOneIn choices, otherwise behind all others, and
// they serve normally when nobody else is eligible.
//
// Preferences narrow who is eligible and may take the place of the score:
// providers named in an order come first in that order, and a sort by a measured
// figure leaves nothing to chance. Then no probe leads. Whoever is named is looked
// up and not searched for; a sort is one of all seats up to sortAmong that are
// free, and beyond that one of as many from a random place on.
//
// When all that are eligible are busy the caller waits for up to MaxWait. At
// most MaxWaiters wait at a time; beyond that they are told so at once. Nobody
// waits for providers that are busy with the requests of others alone while the
// probe lane can serve: nothing of ours can end there, and what they say of
// others is only their word.
package pick

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/services/router/internal/health"
	"svc.internal/services/router/internal/presence"
	"svc.internal/services/router/internal/retry"
	"svc.internal/services/router/internal/tag"
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
	// TieShare is how far two scores may lie apart and still be equal.
	TieShare = 0.05
	// answerMargin is kept of the caller's deadline for the answer.
	answerMargin = 50 * time.Millisecond
)

// Request is what a choice is made for.
type Request struct {
	ID    string
	Model string
	// Account is whose request it is.
	Account tag.Account
	// PromptTokens is the estimate without margin; MaxTokens is 0 unless
	// the caller set it.
	PromptTokens int64
	MaxTokens    int64
	BodyBytes    int64
	Capabilities []string
	// Pin is the id of the provider asked for; empty without a pin.
	Pin            string
	AllowFallbacks bool
	NearHub        string
	// Exclude lists providers that have failed this request.
	Exclude []string
	Prefer  Preferences
}

// Source says where a window comes from.
type Source uint8

// The sources of a window.
const (
	FromProvider Source = iota
	FromCatalog
)

// Candidate is one provider to try.
type Candidate struct {
	Seat *presence.Seat
	// Window is the effective one in tokens; 0 when it is not known.
	Window int64
	Source Source
}

// Fallback says why a pin was not honoured.
type Fallback uint8

// The reasons for a fallback.
const (
	NoFallback Fallback = iota
	PinUnavailable
	PinFailed
)

// Choice is who to try, in this order.
type Choice struct {
	Candidates []Candidate
	Fallback   Fallback
	// UsualFirstContent is the model's at the prompt's length; 0 when it is not
	// known.
	UsualFirstContent time.Duration
	// Single says that the request gets one attempt, because too many of its
	// account have failed. Then there is one candidate.
	Single bool
}

// Directory reports whether a provider exists.
type Directory interface {
	// Exists may answer from memory. An error means that it cannot tell now.
	Exists(ctx context.Context, provider string) (bool, error)
}

// Deps are what a Picker works with.
type Deps struct {
	View      *presence.View
	Health    *health.Registry
	Directory Directory
	Clock     clock.Clock
	// Windows gives the catalog's window of a model; 0 when it is not known.
	Windows func(model string) int64
	// Seed starts the random choices.
	Seed [2]uint64
	// Waitlist wakes those who wait; the view rings it too.
	Waitlist *Waitlist
	// Stats counts who was chosen, and who was passed over and why.
	Stats *Stats
	// Warm hears what is asked for, what there is too little of, and whom to look at.
	Warm *warmup.Planner
	// Retries counts what fails of each account.
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

// Select makes the choice. Its faults are those of the Select RPC.
func (p *Picker) Select(ctx context.Context, req *Request) (Choice, error) {
	// A name that neither catalog nor provider knows is no demand: anybody can
	// make up as many as there is room for.
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
	return p.await(ctx, req.Model, func(last bool) (Choice, error) {
		choice, err := p.look(req, last)
		if !told && errors.Is(err, errBusy) {
			told = true
			p.deps.Warm.Short(req.Model)
		}
		return choice, err
	})
}

// look tries once. It returns errBusy when waiting may help.
func (p *Picker) look(req *Request, last bool) (Choice, error) {
	s := p.begin(req)
	defer p.end(s)
	s.amongWanted()
	if s.sample() {
		if c := s.choose(); len(c) > 0 {
			return Choice{Candidates: c}, nil
		}
	}
	s.walk()
	if len(s.main) == 0 && s.busy > 0 && !last {
		return Choice{}, errBusy // the probe lane does not take what overflows
	}
	if c := s.choose(); len(c) > 0 {
		return Choice{Candidates: c}, nil
	}
	return Choice{}, s.refusal()
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
