// Package prompt writes the prompts of hidden probes.
//
// Every prompt is a function of the verifier's secret, the probe's id and the number of the
// draw, so that it need not be kept to be recomputed, and nobody without the secret can
// foresee it. It is put
// together from a Bank of templates: a system prompt or none, earlier turns or none, some
// text, and a task. Recall prompts hide facts in a long text and ask for them. The wording
// of all this is the bank's. A production bank is part of the sealed settings; Demo returns the
// bank that everybody can read. Nothing in a prompt says that it is a probe, and no two
// probes have the same prompt but by a chance of one in billions.
//
// One prompt in fifty asks for the use of twelve words that HMAC-SHA-256 chooses from the
// probe's id: a canary (hostile test 44). A text that turns up elsewhere, for example in
// the traffic of another provider, names by its canary the probe that it was made from, and
// with it the provider who passed it on.
package prompt

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

const (
	// MaxTokens bounds the length that a prompt is asked to have.
	MaxTokens = 1 << 18
	// bytesPerToken is the usual length of a token of English text. A prompt need only
	// have about the length that it is to have.
	bytesPerToken = 4
	// maxTurns bounds the earlier turns of a conversation, maxAnswer an answer in it, and
	// maxSystem what a system prompt says of its application, in bytes.
	maxTurns  = 6
	maxAnswer = 900
	maxSystem = 300
	// leastText is the room in bytes from which a task that needs no text gets one.
	leastText = 60
	// canaryEvery is in how many prompts one holds a canary.
	canaryEvery = 50
	// CanaryWords is the number of words of a canary. Names wants canaryFound of them, in
	// order, within canarySpan words of a text.
	CanaryWords = 12
	canaryFound = 8
	canarySpan  = 40
)

// ErrLength is the error for a length below 1 or above MaxTokens.
var ErrLength = errors.New("a prompt has 1 to 262144 tokens")

// Secret is what prompts are derived from.
type Secret [32]byte

// ID is the id of a probe.
type ID [16]byte

// Message is one message of a chat.
type Message struct {
	Role, Content string
}

// Writer writes prompts. It is safe for concurrent use.
type Writer struct {
	secret Secret
	bank   Bank
}

// NewWriter returns a writer with a bank that ReadBank or Demo returned.
func NewWriter(secret Secret, bank Bank) *Writer { return &Writer{secret, bank} }

// derive returns 32 bytes for one purpose of a probe.
func (w *Writer) derive(purpose string, id ID) [32]byte {
	mac := hmac.New(sha256.New, w.secret[:])
	mac.Write([]byte("svc probe v1 " + purpose + " "))
	mac.Write(id[:])
	return [32]byte(mac.Sum(nil))
}

// dice returns the random choices of a probe for one purpose. Its algorithm is fixed by
// the Go library for all versions.
func (w *Writer) dice(purpose string, id ID) *rand.Rand {
	return rand.New(rand.NewChaCha8(w.derive(purpose, id))) //nolint:gosec // ChaCha8 under a secret
}

// Write returns the messages of a probe, about as long as tokens asks. The last message is
// of the user. A prompt is never shorter than its task, so a small length is exceeded. A
// probe has many prompts, of which draw counts from 0; all have the same canary. Write
// returns ErrLength for a length out of range.
func (w *Writer) Write(id ID, draw, tokens int) ([]Message, error) {
	if tokens < 1 || tokens > MaxTokens {
		return nil, fmt.Errorf("%w: got %d", ErrLength, tokens)
	}
	purpose := "prompt"
	if draw > 0 {
		purpose += " " + strconv.Itoa(draw)
	}
	c := composer{bank: w.bank, dice: w.dice(purpose, id)}
	task, open := c.task()
	if words := w.Canary(id); words != nil {
		task += " " + strings.Replace(w.bank.Canary, wordsSlot, strings.Join(words, ", "), 1)
	}
	room := tokens*bytesPerToken - len(task)
	var messages []Message
	if c.dice.IntN(5) < 2 {
		messages = append(messages, Message{"system", c.system(room / 4)})
		room -= len(messages[0].Content)
	}
	if room > 400 && c.dice.IntN(3) == 0 { // about a quarter of all prompts
		turns := 1 + c.dice.IntN(maxTurns/2)
		for range turns {
			question, about := c.task()
			if share := room / (turns + 3); about || share > leastText {
				question = c.join(c.text(max(1, share-len(question))), question)
			}
			answer := c.text(1 + c.dice.IntN(max(1, min(room/2, maxAnswer))))
			messages = append(messages, Message{"user", question}, Message{"assistant", answer})
			room -= len(question) + len(answer)
		}
	}
	if open || room > leastText {
		task = c.join(c.text(max(1, room)), task)
	}
	return append(messages, Message{"user", task}), nil
}

// Canary returns the words of the probe's canary, all different; nil for a probe without
// one.
func (w *Writer) Canary(id ID) []string {
	dice := w.dice("canary", id)
	if dice.IntN(canaryEvery) != 0 {
		return nil
	}
	words := make([]string, CanaryWords)
	for i, n := range dice.Perm(len(w.bank.Words))[:CanaryWords] {
		words[i] = w.bank.Words[n]
	}
	return words
}

// Names reports whether a text has a canary: at least eight of its words, in order and
// within forty words of the text, whatever stands between them. Forty words of another
// prompt, of which eight may be words of canaries, have it with a chance of about 10⁻¹⁴.
func Names(text string, canary []string) bool {
	if len(canary) != CanaryWords {
		return false
	}
	type found struct{ at, word int }
	var hits []found
	spoken := strings.FieldsFuncSeq(strings.ToLower(text), func(r rune) bool { return r < 'a' || r > 'z' })
	at := 0
	for word := range spoken {
		if n := slices.Index(canary, word); n >= 0 {
			hits = append(hits, found{at, n})
		}
		at++
	}
	for i, first := range hits {
		// longest[j] is the length of the longest ordered part of the canary that ends with
		// its word j.
		var longest [CanaryWords]int
		for _, hit := range hits[i:] {
			if hit.at >= first.at+canarySpan {
				break
			}
			longest[hit.word] = 1 + slices.Max(append([]int{0}, longest[:hit.word]...))
			if longest[hit.word] >= canaryFound {
				return true
			}
		}
	}
	return false
}

// composer fills templates.
type composer struct {
	bank Bank
	dice *rand.Rand
}

func (c composer) pick(of []string) string { return of[c.dice.IntN(len(of))] }

// task returns a task. It reports whether the task needs a text to be about: its template
// ends with a sentence and has no other, which the text takes the place of.
func (c composer) task() (text string, about bool) {
	template := c.pick(c.bank.Tasks)
	ask, ends := strings.CutSuffix(template, " {"+sentenceSlot+"}")
	if ends && ask != "" && !strings.Contains(ask, "{"+sentenceSlot+"}") {
		return c.fill(ask), true
	}
	return c.fill(template), false
}

// system returns a system prompt: short ones as in examples, and longer ones of applications.
func (c composer) system(room int) string {
	text := c.fill(c.pick(c.bank.Systems))
	if c.dice.IntN(2) == 0 && room > 0 {
		text += " " + c.text(1+c.dice.IntN(min(room, maxSystem)))
	}
	return text
}

// paragraphs are what stands between two sentences, as often as in texts of people.
var paragraphs = []string{" ", " ", "\n", "\n\n"}

// text returns sentences in paragraphs, about as long as asked.
func (c composer) text(length int) string {
	var b strings.Builder
	for b.Len() < length {
		if b.Len() > 0 {
			b.WriteString(c.pick(paragraphs))
		}
		b.WriteString(c.fill(c.pick(c.bank.Sentences)))
	}
	return b.String()
}

// join puts a task before or behind a text, as people do.
func (c composer) join(text, task string) string {
	switch c.dice.IntN(12) {
	case 0, 1, 2:
		return task + "\n\n" + text
	case 3, 4, 5:
		return task + " " + text
	case 6, 7, 8:
		return text + "\n\n" + task
	case 9, 10:
		return task + "\n\n```\n" + text + "\n```"
	default:
		return text + "\n\n---\n" + task
	}
}

// fill replaces the slots of a template. Sentences have slots of their own, and what fills
// those has none.
func (c composer) fill(template string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(template, "{")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		name, after, _ := strings.Cut(rest, "}") // ReadBank has seen it
		if name == sentenceSlot {
			b.WriteString(c.fill(c.pick(c.bank.Sentences)))
		} else {
			b.WriteString(c.pick(c.bank.Slots[name]))
		}
		template = after
	}
}
