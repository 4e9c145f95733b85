package camouflage

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	"svc.internal/pkg/jsonscan"
)

// Sample is what is seen of a request: a number for each of Features.
type Sample []float64

// absent is the number of what a request does not have.
const absent = -1

// members are those whose place in the body is seen. Others are counted.
var members = []string{
	"model", "messages", "temperature", "top_p", "max_tokens", "max_completion_tokens", "seed", "logprobs",
	"top_logprobs", "stream", "stream_options", "frequency_penalty", "presence_penalty", "n", "stop", "user",
}

// seen are the features beside the places of members, in the order of Of.
var seen = []string{
	"members", "other_members", "space_after_colon", "indent", "body_bytes", "role_first", "temperature", "top_p",
	"max_tokens", "streamed", "include_usage", "top_logprobs_asked", "seed_digits", "messages", "system_bytes",
	"assistants", "first_bytes", "last_bytes", "text_bytes", "lower", "upper", "digits", "spaces", "lines", "marks",
	"beyond_ascii", "word_bytes", "escaped", "hour", "gap_log", "hung_up", "earned_log",
}

// Features returns the names of a sample's numbers.
func Features() []string {
	var names []string
	for _, m := range members {
		names = append(names, "at_"+m)
	}
	return append(names, seen...)
}

// index returns the place of a feature.
func index(name string) int {
	for i, n := range Features() {
		if n == name {
			return i
		}
	}
	panic("no feature " + name) // names are constants
}

// body is what is read of a chat request.
type body struct {
	Messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	} `json:"messages"`
	Temperature   *float64 `json:"temperature"`
	TopP          *float64 `json:"top_p"`
	MaxTokens     *float64 `json:"max_tokens"`
	MaxCompletion *float64 `json:"max_completion_tokens"`
	Seed          *float64 `json:"seed"`
	TopLogprobs   float64  `json:"top_logprobs"`
	Stream        bool     `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
}

// Of returns what is seen of a request.
func Of(r Request) (Sample, error) {
	s, err := layoutOf(r.Body)
	if err != nil {
		return nil, err
	}
	var b body
	if err := json.Unmarshal(r.Body, &b); err != nil || len(b.Messages) == 0 {
		return nil, fmt.Errorf("%w: %w", ErrBody, err)
	}
	bound := b.MaxTokens
	if bound == nil {
		bound = b.MaxCompletion
	}
	s = append(s, known(b.Temperature), known(b.TopP), known(bound), flag(b.Stream),
		flag(b.StreamOptions.IncludeUsage), b.TopLogprobs, digits(b.Seed))
	s = append(s, b.texts(len(r.Body))...)
	return append(s, float64(r.At.UTC().Hour()), math.Log1p(max(0, r.Gap.Seconds())), flag(r.HungUp),
		math.Log1p(float64(max(0, r.EarnedNano)))), nil
}

// layoutOf returns the places of the members, and how the body is laid out.
func layoutOf(raw []byte) (Sample, error) {
	at := map[string]int{}
	count, other := 0, 0
	for m, err := range jsonscan.New(raw, jsonscan.Options{}).Members() {
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrBody, err)
		}
		at[string(m.Key.Name(raw))] = count
		count++
	}
	var s Sample
	for _, name := range members {
		place, there := at[name]
		if !there {
			place = absent
		}
		s = append(s, float64(place))
		delete(at, name)
	}
	other = len(at)
	text := string(raw)
	indent := 0
	if i := strings.IndexByte(text, '\n'); i >= 0 {
		indent = 1 + len(text[i+1:]) - len(strings.TrimLeft(text[i+1:], " \t"))
	}
	role, content := strings.Index(text, `"role"`), strings.Index(text, `"content"`)
	return append(s, float64(count), float64(other), flag(strings.Contains(text[:min(len(text), 60)], `": `)),
		float64(indent), float64(len(raw)), flag(role < content)), nil
}

// texts returns what is seen of the messages.
func (b body) texts(size int) Sample {
	var all strings.Builder
	system, assistants := absent, 0
	first, last := 0, 0
	for i, m := range b.Messages {
		text := textOf(m.Content)
		switch m.Role {
		case "system", "developer":
			system = len(text)
		case "assistant":
			assistants++
		}
		if i == 0 {
			first = len(text)
		}
		last = len(text)
		all.WriteString(text)
	}
	s := Sample{
		float64(len(b.Messages)), float64(system), float64(assistants), float64(first), float64(last),
		float64(all.Len()),
	}
	return append(append(s, classes(all.String())...), float64(size)/float64(max(1, all.Len())))
}

// textOf returns the text of a message's content, which is a string or a list of parts.
func textOf(content json.RawMessage) string {
	var text string
	if json.Unmarshal(content, &text) == nil {
		return text
	}
	var parts []struct {
		Text string `json:"text"`
	}
	_ = json.Unmarshal(content, &parts) // content of another form has no text
	for _, p := range parts {
		text += p.Text
	}
	return text
}

// classes returns which part of a text each class of characters is, and how long words are.
func classes(text string) Sample {
	var lower, upper, number, space, line, mark, beyond, words float64
	before := true
	for _, r := range text {
		gap := unicode.IsSpace(r)
		if before && !gap {
			words++
		}
		before = gap
		switch {
		case r >= utf8.RuneSelf:
			beyond++
		case r == '\n':
			line++
		case gap:
			space++
		case r >= 'a' && r <= 'z':
			lower++
		case r >= 'A' && r <= 'Z':
			upper++
		case r >= '0' && r <= '9':
			number++
		default:
			mark++
		}
	}
	n := max(1, lower+upper+number+space+line+mark+beyond)
	return Sample{
		lower / n, upper / n, number / n, space / n, line / n, mark / n, beyond / n, (n - space - line) / max(1, words),
	}
}

func known(x *float64) float64 {
	if x == nil {
		return absent
	}
	return *x
}

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// digits returns how many digits a number has.
func digits(x *float64) float64 {
	if x == nil {
		return absent
	}
	return math.Floor(math.Log10(max(1, math.Abs(*x)))) + 1
}
