package statistic

import (
	"slices"
	"strconv"

	"svc.internal/services/verifier/internal/exact"
)

// Content adds the log-probabilities of an OpenAI chat completion, or of one event of its
// stream, to dst: choices[0].logprobs.content[]. A body without them adds nothing. The
// positions of a stream are bounded together, because dst counts.
//
// A token is the text of its `bytes` where the engine states them, because `token` cannot
// hold a part of a character. The end of an answer, whose token some engines list last
// without text in the answer, stays in the list.
func Content(dst []Position, body []byte) ([]Position, Void) {
	w, err := newWalker(body)
	if err != nil {
		return nil, reason(err)
	}
	_, err = w.object([]string{"choices"}, func(name string) error {
		if name != "choices" {
			return w.skip()
		}
		_, err := w.array(1, func(int) error { return w.choice(&dst) })
		return err
	})
	if err == nil {
		err = w.end()
	}
	if v := reason(err); v != None {
		return nil, v
	}
	return dst, None
}

func (w *walker) choice(dst *[]Position) error {
	ok, err := w.object([]string{"logprobs"}, func(name string) error {
		if name != "logprobs" {
			return w.skip()
		}
		_, err := w.object([]string{"content"}, func(name string) error {
			if name != "content" {
				return w.skip()
			}
			_, err := w.array(MaxAnswerTokens-len(*dst), func(int) error {
				p, err := w.position()
				*dst = append(*dst, p)
				return err
			})
			return err
		})
		return err
	})
	if err == nil && !ok {
		return errMalformed
	}
	return err
}

// position reads one element of content.
func (w *walker) position() (Position, error) {
	var p Position
	own, err := w.entry(func() error {
		_, err := w.array(MaxEntries, func(int) error {
			e, err := w.entry(w.skip)
			p.Top = append(p.Top, e)
			return err
		})
		return err
	})
	p.Own = own
	slices.SortStableFunc(p.Top, byLogprob)
	p.Top = slices.Clip(p.Top[:min(len(p.Top), MaxTop)])
	return p, err
}

// entry reads {token, logprob, bytes, top_logprobs}. top reads the value of the last.
func (w *walker) entry(top func() error) (Entry, error) {
	var (
		e      Entry
		stated bool
		raw    []byte
	)
	ok, err := w.object([]string{"token", "logprob", "bytes", "top_logprobs"}, func(name string) (err error) {
		switch name {
		case "token":
			e.Token, err = w.text(MaxTokenBytes)
		case "logprob":
			stated = true
			e.Logprob, err = w.logprob()
		case "bytes":
			raw, err = w.bytes()
		case "top_logprobs":
			err = top()
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
	if raw != nil {
		e.Token = string(raw)
	}
	return e, nil
}

// bytes reads a list of bytes, or null.
func (w *walker) bytes() ([]byte, error) {
	var raw []byte
	_, err := w.array(MaxTokenBytes, func(int) error {
		n, err := w.number()
		if err != nil {
			return err
		}
		b, err := strconv.ParseUint(n, 10, 8)
		if err != nil {
			return errMalformed
		}
		raw = append(raw, byte(b))
		return nil
	})
	return raw, err
}

// EndOf returns the largest log-probability of a position and that of the likeliest of the
// end tokens there. An end token that is not listed is taken for as probable as the last
// listed token, which favours the provider. It reports false for a position without a
// list.
func EndOf(p Position, ends []string) (best, end exact.Logprob, ok bool) {
	return endOf(p, func(token string) bool { return slices.Contains(ends, token) })
}

// endOf is EndOf by a rule for end tokens.
func endOf(p Position, ends func(string) bool) (best, end exact.Logprob, ok bool) {
	if len(p.Top) == 0 || checkPosition(p) != None {
		return 0, 0, false
	}
	end = p.Top[len(p.Top)-1].Logprob
	for _, e := range p.Top {
		if ends(e.Token) {
			end = max(end, e.Logprob)
		}
	}
	return p.Top[0].Logprob, end, true
}
