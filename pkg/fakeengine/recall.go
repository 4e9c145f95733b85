package fakeengine

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"regexp"
	"strings"

	"svc.internal/pkg/fakeengine/needle"
	"svc.internal/pkg/openai"
)

// Recall is a model that finds needles (package needle) in a chat prompt and answers the
// questions for them. A prompt without a question gets the behaviour's other answer.
// Tokens of the prompt are those of openai.EstimateTokens over the texts of all messages,
// in usage too.
type Recall struct {
	// WindowTokens is the context window. What is farther from the prompt's end is
	// forgotten silently. Zero is no bound.
	WindowTokens int
	// Refuse answers a prompt longer than the window by 400 context_length_exceeded.
	Refuse bool
	// ClaimWindow lets usage claim at most WindowTokens for the prompt. Otherwise usage
	// claims the whole prompt.
	ClaimWindow bool
	// Probability is how likely a needle within the window is recalled; zero is 1,
	// negative is never. Seed, name and code decide it, so that a prompt has one answer.
	Probability float64
	Seed        uint64
}

// recollection is what a Recall makes of a prompt.
type recollection struct {
	// refusal, unless empty, is the error message for a prompt that is too long.
	refusal string
	// promptTokens is what usage claims for the prompt.
	promptTokens int64
	// tokens are the answer's; nil when nothing was asked for.
	tokens []string
}

// read reads the messages of a request.
func (r *Recall) read(messages json.RawMessage) recollection {
	text := promptText(messages)
	tokens := openai.EstimateTokens([]byte(text))
	out := recollection{promptTokens: int64(tokens)}
	if r.WindowTokens > 0 && tokens > r.WindowTokens {
		if r.Refuse {
			out.refusal = fmt.Sprintf("This model's maximum context length is %d tokens. "+
				"However, your messages resulted in %d tokens.", r.WindowTokens, tokens)
			return out
		}
		if r.ClaimWindow {
			out.promptTokens = int64(r.WindowTokens)
		}
	}
	known := r.known(text)
	var lines []string
	for _, name := range needle.Asked(text) {
		line := name + ": unknown"
		if code, ok := known[name]; ok {
			line = needle.Needle{Name: name, Code: code}.Line()
		}
		lines = append(lines, line)
	}
	if len(lines) > 0 {
		out.tokens = pieces.FindAllString(strings.Join(lines, "\n"), -1)
	}
	return out
}

// pieces are the tokens of an answer: a word or two digits, with the space before them.
var pieces = regexp.MustCompile(`(?s) ?[a-z]+| ?[0-9]{2}|.`)

// known returns the codes that are within the window and recalled, by name. Where a
// name has several, the last counts.
func (r *Recall) known(text string) map[string]string {
	known, end, distance := map[string]string{}, len(text), 0
	found := needle.Find(text)
	for i := len(found) - 1; i >= 0; i-- {
		// A sentence begins a word, so the counts of the parts add up to that of the whole.
		distance += openai.EstimateTokens([]byte(text[found[i].Offset:end]))
		end = found[i].Offset
		if r.WindowTokens > 0 && distance > r.WindowTokens {
			break
		}
		n := found[i].Needle
		if _, later := known[n.Name]; !later && r.recalls(n) {
			known[n.Name] = n.Code
		}
	}
	return known
}

// recalls reports whether the needle is recalled when it is within the window.
func (r *Recall) recalls(n needle.Needle) bool {
	if r.Probability == 0 {
		return true
	}
	h := fnv.New64a()
	_, _ = h.Write(binary.BigEndian.AppendUint64(nil, r.Seed)) // a hash never fails
	_, _ = h.Write([]byte(n.Line()))
	x := h.Sum64()
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9 // the last bytes reach the high bits of FNV badly
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return float64((x^x>>31)>>11)/(1<<53) < r.Probability
}

// promptText joins the texts of the messages, one a line. Parts that are no text are
// left out.
func promptText(messages json.RawMessage) string {
	var all []struct {
		Content json.RawMessage `json:"content"`
	}
	if json.Unmarshal(messages, &all) != nil {
		return ""
	}
	var out strings.Builder
	for _, m := range all {
		var text string
		var parts []struct {
			Text string `json:"text"`
		}
		if json.Unmarshal(m.Content, &text) != nil && json.Unmarshal(m.Content, &parts) != nil {
			continue
		}
		for _, part := range parts {
			text += part.Text
		}
		out.WriteString(text + "\n")
	}
	return out.String()
}
