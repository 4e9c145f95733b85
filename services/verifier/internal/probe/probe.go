// Package probe names what the verifier asks of offers: which offer, what kind of
// question, by which way, and how the question is put. A Plan is made before anything is
// sent. It decides everything that may influence the evidence, so that no choice is made
// by somebody who has seen the answer.
package probe

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/services/verifier/internal/calibration"
	"svc.internal/services/verifier/internal/evidence"
)

type (
	probe   struct{}
	run     struct{}
	verdict struct{}
)

type (
	// ID names a probe.
	ID = ids.Of[probe]
	// RunID names a benchmark run.
	RunID = ids.Of[run]
	// VerdictID names a verdict.
	VerdictID = ids.Of[verdict]
)

// Offer is a model of a provider.
type Offer struct {
	Provider ids.ProviderID
	Model    string
}

// String returns the offer in the form of logs.
func (o Offer) String() string { return o.Provider.String() + "/" + o.Model }

// Kind is what a probe asks.
type Kind string

// The kinds. The letters are the families of evidence that a hidden probe feeds.
const (
	// Greedy asks for a chat at temperature 0: B and U.
	Greedy Kind = "greedy"
	// Sampled asks for a chat at temperature 1: R and U.
	Sampled Kind = "sampled"
	// Logprobs asks for a chat with log-probabilities: C, U, and B or R.
	Logprobs Kind = "logprobs"
	// Recall asks for needles at a size that the stated window holds: D and U.
	Recall Kind = "recall"
	// Replay asks the same as an earlier sampled probe: U, by the comparison alone.
	Replay Kind = "replay"
	// Measure asks for needles where the posterior of the window is undecided. It moves
	// the measurement and no family.
	Measure Kind = "measure"
	// Check asks for needles within a measured window. It moves the measurement, and no
	// family.
	Check Kind = "check"
	// Embedding asks for a vector: B.
	Embedding Kind = "embedding"
	// Fingerprint asks for digests of the model's files: E. It is always visible.
	Fingerprint Kind = "fingerprint"
)

// Kinds returns every kind.
func Kinds() []Kind {
	return []Kind{Greedy, Sampled, Logprobs, Recall, Replay, Measure, Check, Embedding, Fingerprint}
}

// Flow is the way that a probe takes.
type Flow string

// The flows.
const (
	// Hidden is a consumer's request to the public API, pinned to the provider. Neither
	// the hub nor the provider can tell it from others.
	Hidden Flow = "hidden"
	// Visible is a challenge on the provider's session. It feeds V, files E.
	Visible Flow = "visible"
)

// Purpose is what a probe is for.
type Purpose string

// The purposes.
const (
	// Evidence probes move an offer's standing.
	Evidence Purpose = "evidence"
	// Benchmark probes are questions of a benchmark run. They move the run alone, but for
	// the observation that each feeds V.
	Benchmark Purpose = "benchmark"
	// Calibration probes ask honest hosts. They move nothing but the calibration.
	Calibration Purpose = "calibration"
)

// Plan is a probe before it is sent.
type Plan struct {
	ID      ID      `json:"id"`
	Offer   Offer   `json:"offer"`
	Kind    Kind    `json:"kind"`
	Flow    Flow    `json:"flow"`
	Purpose Purpose `json:"purpose"`
	// Run is the benchmark run of a benchmark probe.
	Run RunID `json:"run"`
	// DueAt is when the probe is to be sent.
	DueAt time.Time `json:"due_at"`
	// Feeds is the family that a visible probe's observation is taken from and that V is
	// fed by; 0 for hidden probes, which feed the families of their kind, and for
	// fingerprints, which feed E.
	Feeds evidence.Family `json:"feeds,omitempty"`
	// Greedy is temperature 0, for the kinds that allow both.
	Greedy bool `json:"greedy,omitempty"`
	// Streamed asks for a stream, and HangUp leaves it after so many events; 0 stays.
	Streamed bool `json:"streamed,omitempty"`
	HangUp   int  `json:"hang_up,omitempty"`
	// TopLogprobs is how many log-probabilities are asked for; 0 asks for none.
	TopLogprobs int    `json:"top_logprobs,omitempty"`
	Seed        *int64 `json:"seed,omitempty"`
	// PromptTokens is about how long the prompt is to be, and MaxTokens bounds the answer.
	PromptTokens int `json:"prompt_tokens"`
	MaxTokens    int `json:"max_tokens"`
	// Unbounded does not say MaxTokens in the request, as many consumers do. MaxTokens is
	// then what the answer is expected to stay within.
	Unbounded bool `json:"unbounded,omitempty"`
	// BytesPerToken is how many bytes of prompts a token of the model has, as references
	// count them; 0 is 4, which is usual of English text.
	BytesPerToken float64 `json:"bytes_per_token,omitempty"`
	// FromEnd are the needles' distances from the prompt's end in tokens.
	FromEnd []int `json:"from_end,omitempty"`
	// Asked are the indexes of the needles that are asked for.
	Asked []int `json:"asked,omitempty"`
	// Draw is which of the probe's prompts is asked. Earlier ones were drawn and not used,
	// because a reference answered them so that nobody could judge the answer (package flow).
	Draw int `json:"draw,omitempty"`
	// Repeats is the probe that a Replay repeats.
	Repeats ID `json:"repeats"`
	// Alternatives are what family R weighs the answer against.
	Alternatives []evidence.Alternative `json:"alternatives,omitempty"`
	// Stratum is what the answer is judged by, with the class of the statement.
	Stratum calibration.Stratum `json:"stratum"`
	// AvoidHost is a reference host that must not score the answer: while an offer is in
	// confirm, the host whose scores led to the notice.
	AvoidHost string `json:"avoid_host,omitempty"`
	// AvoidAccounts are the accounts of that host's owner. None of their hosts scores the
	// answer while one of another owner could.
	AvoidAccounts []ids.ProviderID `json:"avoid_accounts,omitempty"`
}

// ErrPlan is the error for a plan that cannot be carried out.
var ErrPlan = errors.New("not a plan of a probe")

// MaxPromptTokens, MaxAnswerTokens, MaxAvoidAccounts and MaxDraws bound a plan.
const (
	MaxPromptTokens  = 1 << 21
	MaxAnswerTokens  = 1024
	MaxAvoidAccounts = 64
	// MaxDraws is how many prompts a probe has at most.
	MaxDraws = 4
)

// Check returns ErrPlan with what is wrong.
func (p Plan) Check() error {
	switch {
	case p.ID == (ID{}), p.Offer.Model == "":
		return fmt.Errorf("%w: it has no id or no model", ErrPlan)
	case p.PromptTokens < 1 || p.PromptTokens > MaxPromptTokens, p.MaxTokens < 0 || p.MaxTokens > MaxAnswerTokens:
		return fmt.Errorf("%w: %d and %d tokens", ErrPlan, p.PromptTokens, p.MaxTokens)
	case p.Kind == Fingerprint && p.Flow != Visible:
		return fmt.Errorf("%w: a fingerprint is always visible", ErrPlan)
	case p.Flow == Visible && p.Purpose == Evidence && p.Kind != Fingerprint && p.Feeds == evidence.NoFamily:
		return fmt.Errorf("%w: a visible probe must know what feeds V", ErrPlan)
	case p.Kind == Replay && p.Repeats == (ID{}):
		return fmt.Errorf("%w: it repeats nothing", ErrPlan)
	case p.Draw < 0 || p.Draw >= MaxDraws || p.Draw > 0 && p.Kind != Greedy && p.Kind != Logprobs:
		return fmt.Errorf("%w: prompt %d of a %s probe", ErrPlan, p.Draw, p.Kind)
	case len(p.AvoidAccounts) > MaxAvoidAccounts:
		return fmt.Errorf("%w: %d accounts to avoid", ErrPlan, len(p.AvoidAccounts))
	case len(p.FromEnd) > 16 || len(p.Asked) > len(p.FromEnd):
		return fmt.Errorf("%w: %d needles, %d asked", ErrPlan, len(p.FromEnd), len(p.Asked))
	}
	return nil
}

// Digest identifies bytes in logs, which never hold prompts or answers.
func Digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}
