package connection

import (
	"context"
	"errors"
	"time"

	"svc.internal/pkg/fingerprint"
	agentv2 "svc.internal/proto/svc/agent/v2"
)

// proveTimeout bounds one challenge. A local disk needs less than a second, and files 50 ms
// away 14 s.
const proveTimeout = 30 * time.Second

var (
	errBusy     = errors.New("busy: another challenge is being answered")
	errNoProofs = errors.New("the agent does not take challenges")
)

// Prove answers a challenge of the files of a model, which is valid. It returns once ctx
// has ended, and its answer names no path of the machine.
type Prove func(ctx context.Context, modelID string, c fingerprint.Challenge) fingerprint.Result

// prover answers challenges, one at a time over all sessions. It is safe for concurrent
// use.
type prover struct {
	prove Prove
	turn  chan struct{} // holds one while a challenge is answered
}

func newProver(prove Prove) *prover { return &prover{prove: prove, turn: make(chan struct{}, 1)} }

// enter takes the turn, which answer gives back. It reports whether the turn was free.
func (p *prover) enter() bool {
	select {
	case p.turn <- struct{}{}:
		return true
	default:
		return false
	}
}

func (p *prover) answer(ctx context.Context, model string, c fingerprint.Challenge) fingerprint.Result {
	defer func() { <-p.turn }()
	ctx, cancel := context.WithTimeout(ctx, proveTimeout)
	defer cancel()
	return p.prove(ctx, model, c)
}

// onChallengeLocked has a challenge answered beside all requests. A session that is about
// to end does not wait for the answer, and the answer ends with its session: a challenge
// without an answer harms nobody.
func (s *session) onChallengeLocked(c *agentv2.Challenge) {
	refuse := func(why error) {
		s.pushLocked(challengeResult(c, fingerprint.Failed(why.Error())))
	}
	asked := challengeOf(c)
	if s.prover == nil {
		refuse(errNoProofs)
		return
	}
	if err := asked.Validate(); err != nil {
		refuse(err)
		return
	}
	switch {
	case !s.slots.offered(c.GetModelId()):
		refuse(errNotServed)
	case !s.prover.enter():
		refuse(errBusy)
	default:
		s.work.Go(func() {
			r := s.prover.answer(s.ctx, c.GetModelId(), asked)
			s.mu.Lock()
			defer s.mu.Unlock()
			s.pushLocked(challengeResult(c, r))
		})
	}
}

func challengeOf(c *agentv2.Challenge) fingerprint.Challenge {
	asked := fingerprint.Challenge{ID: c.GetChallengeId(), Nonce: c.GetNonce(), Blocks: int(c.GetChainLength())}
	for _, r := range c.GetRanges() {
		asked.Ranges = append(asked.Ranges, fingerprint.Range{
			File: r.GetFile(), Offset: r.GetOffset(), Length: int(r.GetLength()),
		})
	}
	for _, f := range c.GetChainFiles() {
		asked.Files = append(asked.Files, fingerprint.File{Name: f.GetFile(), Size: f.GetSize()})
	}
	return asked
}

func challengeResult(c *agentv2.Challenge, r fingerprint.Result) *agentv2.Frame {
	return &agentv2.Frame{Body: &agentv2.Frame_ChallengeResult{ChallengeResult: &agentv2.ChallengeResult{
		ChallengeId: cut(clean(c.GetChallengeId()), fingerprint.MaxID),
		Digests:     r.Digests, ChainDigest: r.Chain, Error: cut(clean(r.Error), maxError),
	}}}
}
