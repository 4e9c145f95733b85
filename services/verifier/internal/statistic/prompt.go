package statistic

import (
	"slices"

	"svc.internal/services/verifier/internal/exact"
)

// Prompt returns what a reference says of the answer, from a vLLM response with
// prompt_logprobs: a list over the prompt's positions, null for the first, each a map from
// token id to {logprob, rank, decoded_token}. vLLM writes the prompt's own token first in
// each map, and the likeliest tokens behind it. A reference that writes its maps in
// another order finds its tokens not joined.
//
// The answer is the end of the prompt (continue_final_message). Its tokens are found from
// the end of the list: their decoded texts must join to the answer exactly, with no token
// that begins before the answer. An answer to which they do not join is the provider's
// doing, because references join what engines write. Only the last MaxAnswerTokens positions are kept while
// the list is read.
func Prompt(body []byte, answer string) ([]Position, Void) {
	switch {
	case len(answer) > MaxAnswerBytes:
		return nil, TooLarge
	case answer == "":
		return nil, TooShort
	}
	ring, n, v := promptTail(body)
	if v != None {
		return nil, v
	}
	return tail(ring, n, answer)
}

// promptTail returns the last positions of a list, at most MaxAnswerTokens in a ring, and how
// many were read.
func promptTail(body []byte) (ring []Position, n int, v Void) {
	w, err := newWalker(body)
	if err != nil {
		return nil, 0, ofReference(reason(err))
	}
	ring = make([]Position, 0, 256)
	found := false
	_, err = w.object([]string{"prompt_logprobs"}, func(name string) error {
		if name != "prompt_logprobs" {
			return w.skip()
		}
		var err error
		found, err = w.array(MaxPromptPositions, func(int) error {
			p, err := w.promptPosition()
			if len(ring) < MaxAnswerTokens {
				ring = append(ring, p)
			} else {
				ring[n%MaxAnswerTokens] = p
			}
			n++
			return err
		})
		return err
	})
	if err == nil {
		err = w.end()
	}
	if v := reason(err); v != None {
		return nil, 0, ofReference(v)
	}
	if !found {
		return nil, 0, NoReference
	}
	return ring, n, None
}

// tail returns the positions at the end of the ring, of which n were written, that join to
// the answer.
func tail(ring []Position, n int, answer string) ([]Position, Void) {
	var back []Position
	left := len(answer)
	for i := 1; left > 0; i++ {
		if i > len(ring) {
			return nil, NotJoined
		}
		p := ring[(n-i)%MaxAnswerTokens]
		from := left - len(p.Own.Token)
		if p.Top == nil || from < 0 || answer[from:left] != p.Own.Token {
			return nil, NotJoined
		}
		left = from
		back = append(back, p)
	}
	slices.Reverse(back)
	if v := check(back); v != None {
		return nil, ofReference(v)
	}
	return back, None
}

// promptPosition reads one map. A null is a position without a list.
func (w *walker) promptPosition() (Position, error) {
	var (
		p   Position
		ids = make(map[string]bool, MaxTop+1)
	)
	_, err := w.object(nil, func(id string) error {
		if len(ids) == MaxEntries {
			return errTooLarge
		}
		if ids[id] {
			return errMalformed
		}
		ids[id] = true
		e, err := w.promptEntry()
		if len(ids) == 1 {
			p.Own = e
		}
		p.Top = append(p.Top, e)
		return err
	})
	slices.SortStableFunc(p.Top, byLogprob)
	p.Top = slices.Clip(p.Top[:min(len(p.Top), MaxTop)])
	return p, err
}

// promptEntry reads {logprob, rank, decoded_token}.
func (w *walker) promptEntry() (Entry, error) {
	var (
		e      Entry
		stated bool
	)
	ok, err := w.object([]string{"logprob", "decoded_token"}, func(name string) (err error) {
		switch name {
		case "logprob":
			stated = true
			e.Logprob, err = w.logprob()
		case "decoded_token":
			e.Token, err = w.text(MaxTokenBytes)
		default:
			err = w.skip()
		}
		return err
	})
	if err != nil {
		return Entry{}, err
	}
	if !ok || !stated {
		return Entry{}, errMalformed
	}
	return e, nil
}

// Total is the logarithm of the probability that the reference gives to the whole
// answer: the sum of ℓ_t(a_t). A replayed answer is improbable twice (family U).
func Total(positions []Position) (exact.Logprob, Void) {
	if v := check(positions); v != None {
		return 0, v
	}
	var sum exact.Logprob
	for _, p := range positions {
		sum += p.Own.Logprob
	}
	return sum, None
}

// replayed is the logarithm of a probability that honest sampling does not hit twice.
const replayed = -16 * exact.Nats

// Replayed reports whether a sampled answer that equals the answer to an earlier asking of
// the same prompt is b = 1 of family U: ℓ sums to −16 or less.
func Replayed(earlier, answer string, sum exact.Logprob) bool {
	return answer != "" && earlier == answer && sum <= replayed
}
