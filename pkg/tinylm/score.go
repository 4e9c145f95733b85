package tinylm

import (
	"context"
	"slices"

	"svc.internal/pkg/tinylm/internal/transcript"
)

// Impossible is the log-probability of a byte that cannot follow. It is the number
// that vLLM writes, because JSON has no infinity.
const Impossible = -9999

// End is the byte that ends an answer.
const End = transcript.End

// Position is one place of a scored text: the byte that stands there and the
// distribution from which the server samples there at temperature 1.
type Position struct {
	// Byte stands here.
	Byte byte
	dist distribution
}

// Logprob is the natural logarithm of the probability that b stands here. It is
// Impossible for a byte that the server never writes here.
func (p *Position) Logprob(b byte) float64 {
	if _, found := slices.BinarySearch(p.dist.members, b); !found {
		return Impossible
	}
	return p.dist.logprob(b)
}

// Best is the byte that is taken at temperature 0.
func (p *Position) Best() byte { return p.dist.best() }

// Top lists the n likeliest bytes, likeliest first.
func (p *Position) Top(n int) []Candidate { return p.dist.top(n) }

// Rank is the place of b among all bytes by likelihood, from 1. Bytes that cannot follow
// share the place behind all others.
func (p *Position) Rank(b byte) int {
	if p.Logprob(b) == Impossible {
		return len(p.dist.members) + 1
	}
	rank := 1
	for _, other := range p.dist.members {
		mine, its := p.dist.logits[b], p.dist.logits[other]
		if its > mine || its == mine && other < b {
			rank++
		}
	}
	return rank
}

// Scores says how likely a model finds an answer.
type Scores struct {
	// Answer holds one position for each byte of the answer.
	Answer []Position
	// End is the position behind the answer. Its byte is End.
	End Position
}

// Score reads a prompt, which Prompt has laid out, and then the answer, and returns
// the distribution at each byte of the answer. The distributions are those that
// Generate samples from at temperature 1, top_p 1.
//
// An answer may hold any bytes. The network does not read control characters other
// than tab and line feed, so that no answer can imitate a marker.
//
// Score fails as Read does, when prompt and answer together are too long or when ctx ends.
func (m *Model) Score(ctx context.Context, prompt, answer []byte) (*Scores, error) {
	if n := len(prompt) + len(answer); n >= ContextTokens {
		return nil, &ContextLengthError{Tokens: n}
	}
	state, err := m.Read(ctx, prompt)
	if err != nil {
		return nil, err
	}
	out := &Scores{Answer: make([]Position, 0, len(answer))}
	walk := newWalk(state)
	err = walk.answer(ctx, answer, func(p *Position) {
		kept := *p
		kept.dist.members = slices.Clone(p.dist.members)
		out.Answer = append(out.Answer, kept)
	})
	if err != nil {
		return nil, err
	}
	out.End = *walk.at(End)
	return out, nil
}

// walk reads a text and looks at the distribution before each byte.
type walk struct {
	state   *State
	next    following
	scratch []float32
	here    Position // overwritten at each byte
}

func newWalk(s *State) *walk { return &walk{state: s, scratch: make([]float32, 3*s.model.set.Hidden)} }

// at returns the place before b is read. It is valid until the next call.
func (w *walk) at(b byte) *Position {
	w.here.Byte = b
	w.state.logits(w.here.dist.logits[:])
	w.here.dist.normalize(w.next.allowed())
	return &w.here
}

// prompt shows and reads the tokens of a prompt. see may be nil.
func (w *walk) prompt(ctx context.Context, tokens []byte, see func(*Position)) error {
	for _, token := range tokens {
		if err := ctx.Err(); err != nil {
			return err
		}
		if see != nil {
			see(w.at(token))
		}
		if transcript.Printable(token) {
			w.next.pass(token)
		} else {
			w.next = following{} // a marker
		}
		w.state.read(token, w.scratch)
	}
	return nil
}

// answer shows and reads the bytes of an answer. see may be nil.
func (w *walk) answer(ctx context.Context, text []byte, see func(*Position)) error {
	for _, b := range text {
		if err := ctx.Err(); err != nil {
			return err
		}
		if see != nil {
			see(w.at(b))
		}
		if !transcript.Printable(b) {
			w.next = following{}
			w.state.tokens++ // counted, not read
			continue
		}
		w.next.pass(b)
		w.state.read(b, w.scratch)
	}
	return nil
}
