package connection

import (
	"errors"

	"svc.internal/pkg/fingerprint"
	agentv2 "svc.internal/proto/svc/agent/v2"
)

var (
	errBusy     = errors.New("busy: another challenge is being answered")
	errNoProofs = errors.New("the agent does not take challenges")
)

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
