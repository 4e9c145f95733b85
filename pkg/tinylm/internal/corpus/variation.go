package corpus

import (
	"strings"
	"unicode/utf8"
)

// vary changes a question, sometimes, as people write it: without capitals, without
// the final mark, with a few words in front or behind, or with a typing error.
func (s *Sampler) vary(question string) string {
	switch s.rng.IntN(14) {
	case 0, 1, 2:
		question = strings.ToLower(question)
	case 3:
		question = pick(s.rng, openers) + lowerFirst(question)
	case 4:
		question += " " + pick(s.rng, closers)
	}
	if s.rng.IntN(5) == 0 {
		question = strings.TrimRight(question, ".?!")
	}
	if s.rng.IntN(12) == 0 {
		question = s.slip(question)
	}
	return question
}

// slip makes a typing error at an ASCII letter: it drops the letter, or doubles the
// character before the letter. Short texts and some others stay as they are.
func (s *Sampler) slip(text string) string {
	if utf8.RuneCountInString(text) != len(text) || len(text) < 8 {
		return text
	}
	at := 1 + s.rng.IntN(len(text)-2)
	if c := text[at] | 0x20; c < 'a' || c > 'z' {
		return text
	}
	if s.rng.IntN(2) == 0 {
		return text[:at] + text[at+1:]
	}
	return text[:at] + text[at-1:]
}

// lowerFirst lowers the first letter, except of the pronoun I.
func lowerFirst(text string) string {
	if text == "" || strings.HasPrefix(text, "I ") {
		return text
	}
	return strings.ToLower(text[:1]) + text[1:]
}

var (
	openers = []string{"Please ", "Hi, ", "Hello, ", "Hey, ", "Now ", "Could you please ", "OK, ", "Quick question: ",
		"Tell me: "}
	closers = []string{"Please.", "please", "Thanks.", "Thank you.", "Answer briefly.", "Be short."}
	leads   = []string{
		"why is the", "why does my", "why are", "how do I", "how can you", "how does the", "can you", "could you", "do you",
		"did the", "is it", "is there a",
		"are there", "will the", "where is the", "where can I", "when will", "who is", "who was the", "what is the",
		"what are", "what do you", "what happens when",
		"write a", "write me a", "write one", "explain", "explain the", "describe", "give me", "give me a", "tell me",
		"tell me the", "tell me about", "make a",
		"I want", "I need", "I have a", "my", "the", "reply with", "say", "list", "name", "show me", "find", "help me",
		"translate", "please", "which", "if the",
	}
	systems = []string{
		"You are a helpful assistant.", "You are a helpful assistant.", "You are helpful.",
		"Answer briefly.", "You are a friendly chat bot.", "Be concise and honest.",
		"You are an expert.", "You are a pirate.", "Answer in English.", "Follow the rules.",
	}
)

// system draws a known system text or a string of unrelated words.
func (s *Sampler) system() string {
	if s.rng.IntN(3) > 0 {
		return pick(s.rng, systems)
	}
	return s.gibberish() + " " + s.gibberish()
}

// gibberish draws a short text of plain and made-up words, to which the model knows
// no answer. Half of the texts begin as real questions do.
func (s *Sampler) gibberish() string {
	var b strings.Builder
	if s.rng.IntN(2) == 0 {
		b.WriteString(pick(s.rng, leads) + " ")
	}
	for i := range 2 + s.rng.IntN(7) {
		if i > 0 {
			b.WriteByte(' ')
		}
		if s.rng.IntN(3) == 0 {
			for range 2 + s.rng.IntN(6) {
				b.WriteByte(byte('a' + s.rng.IntN(26)))
			}
			continue
		}
		b.WriteString(pick(s.rng, plainWords))
	}
	text := b.String()
	return strings.ToUpper(text[:1]) + text[1:] + pick(s.rng, []string{".", "?", "!", ""})
}
