package statistic

import (
	"slices"
	"strings"
	"unicode/utf8"

	"svc.internal/services/verifier/internal/exact"
)

// Joined is an answer with the positions that a list of tokens has for it.
type Joined struct {
	Positions []Position
	// At is the byte of the whole answer at which each position begins, or −1 where the
	// tokens around it leave several.
	At []int
	// from and to bound the positions that are judged.
	from, to int
	// Blanks is how many characters were trimmed, Behind how many of them behind the answer.
	Blanks, Behind int
}

// Judged are the positions that are judged: all but a first and a last one beside trimmed
// blanks, which the provider may have written as one token with them.
func (j Joined) Judged() []Position {
	return j.Positions[min(j.from, j.to):j.to]
}

// Join returns what a reference says of the trimmed answer (Trim), which it must have been
// asked to score (Scored). See Prompt for the form of the body. Tokens that are parts of a character
// join although their texts do not tell their bytes (paths.go).
//
// A list that does not join to the answer, but does join to one of the texts of the
// question, was decoded as it should be, so that what the provider sent is to blame:
// NotJoined. Else the reference is: NoReference.
func Join(body []byte, answer string, question []string) (Joined, Void) {
	return join(body, answer, question, true)
}

// JoinFromText is Join without the tokens before the first one that has a text. A character
// of several tokens then begins with its last one. Judgements of version 2 rest on it.
func JoinFromText(body []byte, answer string, question []string) (Joined, Void) {
	return join(body, answer, question, false)
}

func join(body []byte, answer string, question []string, parts bool) (Joined, Void) {
	trimmed := Trim(answer)
	switch {
	case len(answer) > MaxAnswerBytes:
		return Joined{}, TooLarge
	case trimmed == "":
		return Joined{}, Blank
	}
	list, n, v := promptTail(body)
	if v != None {
		return Joined{}, v
	}
	before := 0
	if parts {
		before = partsBefore(trimmed)
	}
	positions, at := joinEnd(list, n, trimmed, before)
	switch {
	case positions == nil && decodes(body, question):
		return Joined{}, NotJoined
	case positions == nil:
		return Joined{}, NoReference
	}
	if v := check(positions); v != None {
		return Joined{}, ofReference(v)
	}
	return joined(answer, trimmed, positions, at), None
}

// joined puts offsets into the whole answer, and leaves positions beside blanks out.
func joined(answer, trimmed string, positions []Position, at []int) Joined {
	lead := strings.Index(answer, trimmed)
	for i := range at {
		if at[i] >= 0 {
			at[i] += lead
		}
	}
	j := Joined{Positions: positions, At: at, to: len(positions)}
	before, after := answer[:lead], answer[lead+len(trimmed):]
	if before != "" {
		j.from = 1
	}
	if after != "" {
		j.to--
	}
	j.Behind = len([]rune(after))
	j.Blanks = j.Behind + len([]rune(before))
	return j
}

// EndBehind is EndOf for the position behind a joined answer. Where blanks were trimmed there,
// the answer went on with a blank, so that blanks are ends too.
func (j Joined) EndBehind(p Position, ends []string) (best, end exact.Logprob, ok bool) {
	return endOf(p, func(token string) bool {
		return slices.Contains(ends, token) || j.Behind > 0 && isBlank(token)
	})
}

// partsBefore returns how many tokens without a text a text may begin with. Engines that
// write a character with its last token write nothing for the tokens before that one, and
// each of these has a byte of the character.
func partsBefore(text string) int {
	_, size := utf8.DecodeRuneInString(text)
	return max(0, size-1)
}

// joinEnd returns the positions at the end of a ring, of which n were written, that join to
// the text, and where each begins. At most so many of them as before says have no text and
// stand before the first one with a text.
func joinEnd(ring []Position, n int, text string, before int) ([]Position, []int) {
	var (
		back  []Position
		spots = [][]int{{len(text)}}
		found int
	)
	for i := 1; i <= len(ring); i++ {
		p := ring[(n-i)%MaxAnswerTokens]
		last := spots[len(spots)-1]
		if p.Top == nil {
			break // the answer has begun
		}
		if last[len(last)-1] == 0 {
			if before == 0 || p.Own.Token != "" {
				break // the answer has begun
			}
			before--
		}
		next := behind(text, p.Own.Token, last)
		if bare := strings.TrimLeftFunc(p.Own.Token, blank); len(next) == 0 && bare != "" &&
			slices.Contains(behind(text, bare, last), 0) {
			p.Own.Token, next = bare, []int{0} // a blank before the answer is in its first token
		}
		if len(next) == 0 {
			break
		}
		back, spots = append(back, p), append(spots, next)
		if next[0] == 0 {
			found = i
		}
	}
	if found == 0 {
		return nil, nil
	}
	back, spots = back[:found], spots[:found+1]
	slices.Reverse(back)
	slices.Reverse(spots)
	return back, through(text, back, spots)
}

// through returns where tokens begin that may begin at the spots, the first of them at 0.
func through(text string, tokens []Position, spots [][]int) []int {
	at, here := make([]int, len(tokens)), []int{0}
	for i, p := range tokens {
		at[i] = -1
		if len(here) == 1 {
			at[i] = here[0]
		}
		here = both(ahead(text, p.Own.Token, here), spots[i+1])
	}
	return at
}

// both returns the numbers that are in both ascending lists.
func both(a, b []int) []int {
	return slices.DeleteFunc(a, func(x int) bool {
		_, in := slices.BinarySearch(b, x)
		return !in
	})
}

// joinFront returns where each of the tokens begins that a provider declares for its text.
// Tokens behind the text's end are not among them, because engines keep the end of the
// answer, a stop string and half a character to themselves. It reports false where the
// tokens do not join.
func joinFront(declared []Position, text string) ([]int, bool) {
	spots, found := [][]int{{0}}, -1
	for i, p := range declared {
		here := spots[i]
		if here[0] == len(text) {
			break
		}
		next := ahead(text, p.Own.Token, here)
		if len(next) == 0 {
			if found < 0 && len(here) == 1 && strings.HasPrefix(p.Own.Token, text[here[0]:]) {
				return append(fromEnd(declared[:i], text, spots, here[0]), here[0]), true // a stop string cut it
			}
			break
		}
		spots = append(spots, next)
		if next[len(next)-1] == len(text) {
			found = i + 1
		}
	}
	if found < 0 {
		return nil, false
	}
	return fromEnd(declared[:found], text, spots, len(text)), true
}

// fromEnd returns where tokens begin that may begin at the spots, the last of which ends there.
func fromEnd(tokens []Position, text string, spots [][]int, end int) []int {
	at, here := make([]int, len(tokens)), []int{end}
	for i := len(tokens) - 1; i >= 0; i-- {
		here = both(behind(text, tokens[i].Own.Token, here), spots[i])
		at[i] = -1
		if len(here) == 1 {
			at[i] = here[0]
		}
	}
	return at
}

// minDecoded is the length in bytes from which a text of the question proves that a list was
// decoded as it should be.
const minDecoded = 16

// decodes reports whether the tokens of a reference's list join to a text of the question.
func decodes(body []byte, question []string) bool {
	var all strings.Builder
	w, err := newWalker(body)
	if err != nil {
		return false
	}
	_, err = w.object([]string{"prompt_logprobs"}, func(name string) error {
		if name != "prompt_logprobs" {
			return w.skip()
		}
		_, err := w.array(MaxPromptPositions, func(int) error {
			p, err := w.promptPosition()
			_, _ = all.WriteString(p.Own.Token) // a Builder never fails
			return err
		})
		return err
	})
	return err == nil && slices.ContainsFunc(question, func(text string) bool {
		text = Trim(text)
		return len(text) >= minDecoded && strings.Contains(all.String(), text)
	})
}
