package prompt

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

const (
	// MaxNeedles bounds the needles of a recall prompt.
	MaxNeedles = 16
	// MaxRecallTokens bounds the length that a recall prompt is asked to have.
	MaxRecallTokens = 1 << 21
	// maxBytesPerToken bounds RecallPlan.BytesPerToken.
	maxBytesPerToken = 16
	// firstCode is the smallest code and codes is how many there are, so that none begins
	// with 0.
	firstCode = 100_000
	codes     = 900_000
)

// ErrRecall is the error for a recall prompt that cannot be written.
var ErrRecall = errors.New("not a plan of a recall prompt")

// RecallPlan says how long a recall prompt is to be and where its needles lie.
type RecallPlan struct {
	// Tokens is the prompt's length. BytesPerToken is how many bytes of a prompt a token of
	// the model has; 0 is 4.
	Tokens        int
	BytesPerToken float64
	// FromEnd are the distances in tokens from the starts of 1 to MaxNeedles needles to the
	// prompt's end.
	FromEnd []int
	// Asked are the indexes of the needles that are asked for.
	Asked []int
}

// Needle is a needle of a written prompt.
type Needle struct {
	Name, Code string
	// BytesFromEnd is how many bytes lie between the start of its sentence and the end of
	// the last message. Needles lie where a sentence ends, and never within the question,
	// so that this is about what was planned.
	BytesFromEnd int
}

// Recall is a recall prompt: its messages, and its needles in the order of the plan.
type Recall struct {
	Messages []Message
	Needles  []Needle
}

// Recall writes the recall prompt of a probe: one message of sentences, needles and as many
// distractors, with the question at its end. It returns ErrRecall for a plan that cannot
// be carried out.
func (w *Writer) Recall(id ID, plan RecallPlan) (Recall, error) {
	if err := plan.check(); err != nil {
		return Recall{}, err
	}
	r := recall{composer: composer{bank: w.bank, dice: w.dice("recall", id)}, plan: plan}
	r.name()
	question := r.question()
	r.write(plan.bytes(plan.Tokens), len(question))
	text := r.text.String() + "\n\n" + question
	for i := range r.needles {
		r.needles[i].BytesFromEnd = len(text) - r.needles[i].BytesFromEnd // it was the start
	}
	return Recall{Messages: []Message{{"user", text}}, Needles: r.needles}, nil
}

func (p RecallPlan) check() error {
	known := func(i int) bool { return i >= 0 && i < len(p.FromEnd) }
	switch {
	case p.Tokens < 1 || p.Tokens > MaxRecallTokens:
		return fmt.Errorf("%w: %d tokens", ErrRecall, p.Tokens)
	case !(p.BytesPerToken >= 0 && p.BytesPerToken <= maxBytesPerToken):
		return fmt.Errorf("%w: %v bytes a token", ErrRecall, p.BytesPerToken)
	case len(p.FromEnd) == 0 || len(p.FromEnd) > MaxNeedles:
		return fmt.Errorf("%w: %d needles", ErrRecall, len(p.FromEnd))
	case len(p.Asked) == 0 || len(p.Asked) > len(p.FromEnd):
		return fmt.Errorf("%w: %d needles asked for", ErrRecall, len(p.Asked))
	case slices.ContainsFunc(p.Asked, func(i int) bool { return !known(i) }):
		return fmt.Errorf("%w: a needle is asked for that there is not", ErrRecall)
	case slices.ContainsFunc(p.FromEnd, func(n int) bool { return n < 0 || n > MaxRecallTokens }):
		return fmt.Errorf("%w: a needle outside every prompt", ErrRecall)
	}
	return nil
}

// bytes returns the bytes of a number of tokens.
func (p RecallPlan) bytes(tokens int) int {
	return int(float64(tokens) * cmp.Or(p.BytesPerToken, bytesPerToken))
}

// recall is a recall prompt that is being written.
type recall struct {
	composer
	plan        RecallPlan
	needles     []Needle
	distractors []string
	text        strings.Builder
}

// name gives each needle and each distractor a name and a code of its own.
func (r *recall) name() {
	n := 2 * len(r.plan.FromEnd)
	names := r.dice.Perm(len(r.bank.Recall.Names))[:n]
	numbers := distinct(r.dice, n, codes)
	for i := range n {
		name, code := r.bank.Recall.Names[names[i]], strconv.Itoa(firstCode+numbers[i])
		if i < n/2 {
			r.needles = append(r.needles, Needle{Name: name, Code: code})
		} else {
			r.distractors = append(r.distractors, say(r.bank.Recall.Distractor, name, code))
		}
	}
}

// distinct returns n different numbers below limit.
func distinct(dice *rand.Rand, n, limit int) []int {
	var all []int
	for len(all) < n {
		if x := dice.IntN(limit); !slices.Contains(all, x) {
			all = append(all, x)
		}
	}
	return all
}

// say fills a text with a name and a code.
func say(text, name, code string) string {
	return strings.NewReplacer(nameSlot, name, codeSlot, code).Replace(text)
}

func (r *recall) question() string {
	var b strings.Builder
	for _, i := range r.plan.Asked {
		b.WriteString(say(r.bank.Recall.Ask, r.needles[i].Name, "") + " ")
	}
	return b.String() + r.bank.Recall.Form
}

// write writes the text before the question: total bytes with it. Needles are written from
// the farthest on, each as soon as the text has reached its place.
func (r *recall) write(total, question int) {
	end, order := total-question, r.order()
	starts := make([]int, len(order))
	room := 0 // of the needles up to the question
	for k, i := range slices.Backward(order) {
		room += len(r.fact(i)) + len("\n\n")
		starts[k] = min(total-r.plan.bytes(r.plan.FromEnd[i]), end-room)
	}
	for k, i := range order {
		r.until(starts[k], end)
		r.append("")
		r.needles[i].BytesFromEnd = r.text.Len()
		r.text.WriteString(r.fact(i))
	}
	r.until(end, end)
	for _, d := range r.distractors {
		r.append(d)
	}
}

// order returns the indexes of the needles, the farthest from the end first.
func (r *recall) order() []int {
	order := make([]int, len(r.needles))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(r.plan.FromEnd[b], r.plan.FromEnd[a]) })
	return order
}

// fact returns the sentence of a needle.
func (r *recall) fact(i int) string {
	return say(r.bank.Recall.Fact, r.needles[i].Name, r.needles[i].Code)
}

// until writes sentences until the text has so many bytes. Distractors come evenly between
// them up to the text's end.
func (r *recall) until(length, end int) {
	share := end / len(r.needles)
	for r.text.Len() < length {
		sentence := ""
		if due := len(r.needles) - len(r.distractors); due < len(r.needles) && r.text.Len() >= due*share+share/2 {
			sentence, r.distractors = r.distractors[0], r.distractors[1:]
		} else {
			sentence = r.fill(r.pick(r.bank.Sentences))
		}
		r.append(sentence)
	}
}

// append writes a sentence behind a space or a new paragraph.
func (r *recall) append(sentence string) {
	switch {
	case r.text.Len() == 0:
	case r.dice.IntN(8) == 0:
		r.text.WriteString("\n\n")
	default:
		r.text.WriteByte(' ')
	}
	r.text.WriteString(sentence)
}
