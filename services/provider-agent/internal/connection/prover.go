package connection

import (
	"context"
	"time"

	"svc.internal/pkg/fingerprint"
)

// proveTimeout bounds one challenge. A local disk needs less than a second, and files 50 ms
// away 14 s.
const proveTimeout = 30 * time.Second

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
