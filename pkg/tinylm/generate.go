package tinylm

import (
	"context"
	"math/rand/v2"

	"svc.internal/pkg/tinylm/internal/transcript"
	"svc.internal/pkg/tinylm/internal/weights"
)

// Params decide how an answer is written.
type Params struct {
	// Temperature divides the logits before sampling. At 0 the likeliest byte is
	// taken (of equally likely bytes, the lowest), without TopP and Seed.
	Temperature float64
	// TopP limits sampling to the fewest likeliest bytes that hold this much of the
	// probability. At 1 all bytes are sampled; at 0 the likeliest is always taken.
	TopP float64
	// Seed and Choice fix the random numbers. Each choice of a seed has random
	// numbers of its own.
	Seed   uint64
	Choice int
	// MaxTokens bounds the tokens written; the context bounds them too.
	MaxTokens int
	// Stop holds stop strings. The answer ends before the first stop string that it
	// would contain. No stop string may be empty.
	Stop []string
	// TopLogprobs is how many of the likeliest bytes each Token lists.
	TopLogprobs int
}

// Token is one written byte.
type Token struct {
	Byte byte
	// Logprob is the natural logarithm of the probability that the model gave
	// the byte, at temperature 1 and before TopP, among the bytes that may
	// follow here.
	Logprob float64
	// Top lists the likeliest bytes, likeliest first. It is shorter than
	// Params.TopLogprobs where fewer bytes may follow.
	Top []Candidate
}

// Candidate is a byte that could have been written. The byte 4 stands for the
// end of the answer.
type Candidate struct {
	Byte    byte
	Logprob float64
}

// Finish says why an answer ended.
type Finish string

// The reasons, spelled as the API does.
const (
	FinishStop   Finish = "stop"   // the model ended its answer, or a stop string would have come
	FinishLength Finish = "length" // MaxTokens or the context ran out
)

// Generate continues s and hands each token to emit, in order. Tokens that may
// begin a stop string are held back until it is clear that they do not. The
// bytes handed over are valid UTF-8, except that FinishLength can cut the last
// character short.
//
// Generate returns emit's error as soon as there is one, and ctx's error within
// one token of its end.
func (s *State) Generate(ctx context.Context, p Params, emit func(Token) error) (Finish, error) {
	s = s.clone()
	if forced := s.model.variant.Temperature; forced != nil {
		p.Temperature = *forced
	}
	g := generation{
		params: p, emit: emit, stops: newStops(p.Stop),
		dice: rand.New(rand.NewPCG(p.Seed, uint64(p.Choice))), //nolint:gosec // a seed must give the same answer again
	}
	scratch := make([]float32, 3*s.model.set.Hidden)
	for range min(p.MaxTokens, ContextTokens-s.tokens) {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		s.logits(g.dist.logits[:])
		token := g.choose()
		if token.Byte == transcript.End {
			return FinishStop, g.release(len(g.held))
		}
		stopped, err := g.accept(token)
		if stopped || err != nil {
			return FinishStop, err
		}
		s.read(token.Byte, scratch)
	}
	return FinishLength, g.release(len(g.held))
}

// generation is the state of one Generate besides the network's.
type generation struct {
	params Params
	emit   func(Token) error
	stops  stops
	dice   *rand.Rand
	dist   distribution
	next   following
	held   []Token // written, not yet handed over
}

// choose picks the next token from the logits.
func (g *generation) choose() Token {
	g.dist.normalize(g.next.allowed())
	choice := g.dist.best()
	if g.params.Temperature > 0 && g.params.TopP > 0 {
		choice = g.dist.sample(g.params.Temperature, g.params.TopP, g.dice.Float64())
	}
	token := Token{Byte: choice, Logprob: g.dist.logprob(choice)}
	if g.params.TopLogprobs > 0 {
		token.Top = g.dist.top(min(g.params.TopLogprobs, weights.Vocabulary))
	}
	return token
}

// accept takes in a token and hands over the tokens that cannot belong to a stop
// string. It reports whether the token completed a stop string, whose tokens are
// then not handed over.
func (g *generation) accept(token Token) (stopped bool, err error) {
	g.next.take(token.Byte)
	g.held = append(g.held, token)
	if matched := g.stops.take(token.Byte); matched > 0 {
		return true, g.release(len(g.held) - matched)
	}
	return false, g.release(len(g.held) - g.stops.pending())
}

// release hands over the first n held tokens.
func (g *generation) release(n int) error {
	for _, token := range g.held[:n] {
		if err := g.emit(token); err != nil {
			return err
		}
	}
	g.held = append(g.held[:0], g.held[n:]...)
	return nil
}
