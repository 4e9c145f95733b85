package flow

import (
	"time"

	"svc.internal/services/verifier/internal/judge"
	"svc.internal/services/verifier/internal/probe"
)

// Drawn is a host that was drawn to score.
type Drawn struct {
	Host, Alternative string
	Second            bool
}

// Draw returns the hosts that score a plan, in the order in which they are tried.
func (r *Runner) Draw(plan probe.Plan) []Drawn {
	p := &passage{Runner: r, rec: judge.Record{Plan: plan}}
	var all []Drawn
	for _, d := range p.draw() {
		all = append(all, Drawn{d.host, d.alternative, d.second})
	}
	return all
}

// ScoringBody is what a reference is asked.
func ScoringBody(plan probe.Plan, request []byte, answer string) ([]byte, error) {
	return scoringBody(plan, request, answer)
}

// AnswerTime is how long the answer to a plan may take.
func AnswerTime(plan probe.Plan) time.Duration { return answerTime(plan) }

// AnswerBytes is how many bytes of the answer to a plan are kept.
func AnswerBytes(plan probe.Plan) int { return answerBytes(plan) }

// WithModel names another model in a body, and Unstreamed asks for a whole answer.
var (
	WithModel  = withModel
	Unstreamed = unstreamed
	Framed     = framed
)

// Capture takes a body in pieces, and returns what is kept of it.
func Capture(pieces [][]byte, limit int, streamed bool, hangUp int) (raw []byte, whole, failed, left bool) {
	c := newCapture(time.Time{}, nil, limit, streamed, hangUp)
	for i, piece := range pieces {
		if !c.take(piece, time.Duration(i)) {
			return c.raw, c.whole(), c.failed(), c.left
		}
	}
	c.end()
	return c.raw, c.whole(), c.failed(), c.left
}
