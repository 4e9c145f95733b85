package flow

import (
	"context"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/fingerprint"
	"svc.internal/pkg/ids"
	"svc.internal/services/verifier/internal/claims"
	"svc.internal/services/verifier/internal/dice"
	"svc.internal/services/verifier/internal/house"
	"svc.internal/services/verifier/internal/judge"
	"svc.internal/services/verifier/internal/offers"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/prompt"
)

// MaxRecord bounds the bytes of request, answer and scores together. Evidence keeps them
// in base64, in pieces of 32 MiB.
const MaxRecord = 22 << 20

// Writer writes the request of a plan, and returns the digits of its needles.
type Writer interface {
	Body(plan probe.Plan) (body []byte, needles []string, err error)
}

// Claims knows the usage events.
type Claims interface {
	// Wait returns the claim of a request, and waits for its usage event until ctx ends.
	Wait(ctx context.Context, request ids.RequestID) (claims.Claim, error)
}

// Keys chooses house keys.
type Keys interface {
	// Choose returns the key for a probe.
	Choose(id probe.ID) (house.Key, error)
	// Refused hears of a key that the gateway does not take.
	Refused(key house.Key)
}

// Calibrations returns the calibrations that judge a plan, in their binary forms, by the
// names of families.
type Calibrations interface {
	Of(ctx context.Context, plan probe.Plan) (map[string][]byte, error)
}

// Earlier returns the answer to an earlier probe, as its record has it; nil where it is not
// kept.
type Earlier interface {
	Answer(ctx context.Context, id probe.ID) ([]byte, error)
}

// File is a file of a model's weights.
type File struct {
	Name  string
	Bytes int64
}

// Files names the files of a model.
type Files interface {
	Files(ctx context.Context, model string) ([]File, error)
}

// Deps are what a Runner needs. Every field must be set.
type Deps struct {
	Offers       *offers.View
	Hubs         Hubs
	Edge         *Edge
	Keys         Keys
	Writer       Writer
	Claims       Claims
	Calibrations Calibrations
	Earlier      Earlier
	Files        Files
	// Siblings returns the smaller model of the same series; empty for none.
	Siblings func(model string) string
	// Now is the database's clock.
	Now    func(ctx context.Context) (time.Time, error)
	Secret prompt.Secret
}

// Config are the times of a Runner.
type Config struct {
	// AnswerTimeout bounds a whole answer, however many tokens it is asked for.
	AnswerTimeout time.Duration
	// ClaimTimeout is how long the usage event of a hidden probe is waited for.
	ClaimTimeout time.Duration
	// ScoreTimeout bounds all scores of a probe, and the waits for references that are
	// busy.
	ScoreTimeout time.Duration
	// ScreenTimeout bounds the screening of a probe; 0 screens none.
	ScreenTimeout time.Duration
}

// DefaultConfig has the times of production. The gateway gives a request ten minutes, and
// the queue of probes gives a replica fifteen.
func DefaultConfig() Config {
	return Config{
		AnswerTimeout: 11 * time.Minute, ClaimTimeout: 15 * time.Second, ScoreTimeout: 3 * time.Minute,
		ScreenTimeout: 30 * time.Second,
	}
}

// Runner carries out plans. It is safe for concurrent use.
type Runner struct {
	cfg Config
	Deps
}

// passage is one plan under way.
type passage struct {
	*Runner
	seat func() (offers.Seat, bool)
	rec  judge.Record
	// asked is the host that a visible probe asks.
	asked string
	// scorers are the hosts that score, drawn before anything is sent.
	scorers []scorer
	// files is the fingerprint that is asked for.
	files fingerprint.Challenge
	// left reports that the answer was left where the plan leaves it.
	left bool
}

// scorer is a host that scores. Several of one role stand in the order in which they are
// tried.
type scorer struct {
	host, model string
	class       uint8
	// owner stands for the owner of the host's account.
	account, owner ids.ProviderID
	// alternative is what the host stands for; empty for the model itself.
	alternative string
	// second marks the hosts of the second score, which the guard compares.
	second bool
}

// room returns how many bytes the record may still grow by.
func (p *passage) room() int {
	used := len(p.rec.Request) + len(p.rec.Answer.Raw) + len(p.rec.Earlier) + len(p.rec.Expected)
	for _, s := range p.rec.Scores {
		used += len(s.Raw)
	}
	return MaxRecord - used
}

// within is ctx with a timeout of its own.
func within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, d)
}

// pause waits, or returns the error of ctx.
func pause(ctx context.Context, d time.Duration) error { return clock.Sleep(ctx, d) }

// oneIn reports whether a plan is one of every n, by its id.
func (p *passage) oneIn(purpose string, n int) bool {
	return dice.New(p.Secret, purpose, p.rec.Plan.ID[:]).IntN(n) == 0
}
