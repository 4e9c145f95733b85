package fakeengine

import (
	"net/http"
	"strings"
)

// Behaviour is how one request is answered. The zero value is a good engine
// that answers five tokens with truthful usage.
type Behaviour struct {
	// Tokens are the pieces of the answer, each one token of usage and one
	// chunk of a stream; together they are the text of a transcription. Nil is
	// the default answer; empty is an empty answer.
	Tokens []string
	// Model is named in the answer instead of the model asked for.
	Model string
	// FinishReason replaces "stop".
	FinishReason string
	// Extra holds members, such as `"provider":"x","n":1`, that are put at the
	// front of every object of the answer.
	Extra string

	// Count is how many vectors or images are answered instead of as many as
	// were asked for; negative is none at all.
	Count int
	// Dimensions is the length of vectors when the request does not say, 3
	// when zero. IgnoreFormat answers floats whatever encoding_format says.
	Dimensions   int
	IgnoreFormat bool
	// Image is what images hold; nil is a PNG of one pixel. Partials is how
	// many partial images a stream shows of each when the request does not say.
	// Base64 answers b64_json where the request does not say, instead of url.
	Image    []byte
	Partials int
	Base64   bool
	// Seconds is the duration that a verbose transcription reports, 1 when zero.
	Seconds float64

	// Usage is the JSON of the usage that is reported: nil is the truth (on a
	// stream only if it was asked for), empty is none at all, one is that
	// one, and several are reported one after the other. See the Usage
	// constants.
	Usage []string

	// Status, unless zero or 200, is answered with Body, or, if Body is
	// empty, with an error body of OpenAI's shape.
	Status int
	Body   string
	// Raw answers 200 with these bytes as they are, of ContentType.
	Raw, ContentType string
	// Header is added to the answer's header.
	Header http.Header

	// BeforeFirstByte holds back everything, headers included, until it is
	// closed or gives a value.
	BeforeFirstByte <-chan struct{}
	// BeforeFirstToken holds back the first token, behind headers and role.
	BeforeFirstToken <-chan struct{}
	// BeforeToken holds back each token until it gives a value or is closed.
	BeforeToken <-chan struct{}

	// End is how the answer ends, after EndAfter tokens (of images, after
	// EndAfter images) or, if that is zero or more than there are, after all of
	// them.
	End      End
	EndAfter int
	// HugeBytes is the length of the line of EndHugeLine; zero is 8 MiB.
	HugeBytes int
}

// End is how an answer ends. What is not about streams alone serves whole
// answers too.
type End uint8

// The endings.
const (
	// EndNormal ends as it should.
	EndNormal End = iota
	// EndNoFinish ends a stream cleanly, with [DONE] but no finish_reason; a
	// whole answer has null.
	EndNoFinish
	// EndNoDone ends a stream cleanly after its finish_reason, without usage
	// and [DONE]; of a transcription without its last event.
	EndNoDone
	// EndSilent ends a stream cleanly right after a token, with neither.
	EndSilent
	// EndReset resets the connection (RST); a whole answer is cut half-way.
	EndReset
	// EndError sends an error object in the stream and closes; a whole answer
	// is 200 with an error body.
	EndError
	// EndHang sends nothing more until the client leaves or the test ends.
	EndHang
	// EndEndless repeats the tokens until the client leaves or the test ends.
	EndEndless
	// EndHugeLine sends HugeBytes of a data line that never ends, then closes.
	EndHugeLine
	// EndGarbage sends a data line that is not JSON, then ends normally.
	EndGarbage
)

// Usages that engines should not report.
const (
	UsageZero     = `{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}`
	UsageNegative = `{"prompt_tokens":7,"completion_tokens":-5,"total_tokens":2}`
	UsageHuge     = `{"prompt_tokens":7,"completion_tokens":18446744073709551616,"total_tokens":18446744073709551623}`
	UsageMillion  = `{"prompt_tokens":7,"completion_tokens":1000000,"total_tokens":1000007}`
	UsageStrings  = `{"prompt_tokens":"7","completion_tokens":"5","total_tokens":"12"}`
	UsageFraction = `{"prompt_tokens":7,"completion_tokens":4.5,"total_tokens":11.5}`
	UsageMismatch = `{"prompt_tokens":7,"completion_tokens":5,"total_tokens":99}`
	UsageNull     = `null`
)

// PromptTokens is what truthful usage reports for the prompt.
const PromptTokens = 7

// Named are the behaviours that models have by their name alone, so that an
// engine behind several processes needs no script.
func Named() map[string]Behaviour {
	return map[string]Behaviour{
		"ok":              {},
		"ok-long":         {Tokens: Words(256)},
		"empty":           {Tokens: []string{}},
		"usage-missing":   {Usage: []string{}},
		"usage-zero":      {Usage: []string{UsageZero}},
		"usage-negative":  {Usage: []string{UsageNegative}},
		"usage-huge":      {Usage: []string{UsageHuge}},
		"usage-million":   {Usage: []string{UsageMillion}},
		"usage-strings":   {Usage: []string{UsageStrings}},
		"usage-fraction":  {Usage: []string{UsageFraction}},
		"usage-mismatch":  {Usage: []string{UsageMismatch}},
		"usage-twice":     {Usage: []string{UsageMillion, UsageZero}},
		"status-400":      {Status: http.StatusBadRequest},
		"status-404":      {Status: http.StatusNotFound},
		"status-429":      {Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"1"}}},
		"status-500":      {Status: http.StatusInternalServerError},
		"status-503":      {Status: http.StatusServiceUnavailable},
		"status-500-text": {Status: http.StatusInternalServerError, Body: "Internal Server Error"},
		"no-finish":       {End: EndNoFinish},
		"no-done":         {End: EndNoDone},
		"silent":          {End: EndSilent, EndAfter: 2},
		"reset":           {End: EndReset, EndAfter: 2},
		"error":           {End: EndError, EndAfter: 2},
		"error-first":     {Tokens: []string{}, End: EndError},
		"hang":            {End: EndHang, EndAfter: 2},
		"hang-first":      {BeforeFirstByte: make(chan struct{})},
		"endless":         {End: EndEndless},
		"huge-line":       {End: EndHugeLine, EndAfter: 2},
		"garbage":         {End: EndGarbage, EndAfter: 2},
		"count-less":      {Count: 1},
		"count-more":      {Count: 3},
		"count-none":      {Count: -1},
		"wrong-model":     {Model: "some/other-model"},
		"extra":           {Extra: `"provider":"fake","reasoning_details":[{"x":1e400}]`},
	}
}

// Words are n tokens of text.
func Words(n int) []string {
	lexicon := strings.Fields("the quick brown fox jumps over a lazy dog and runs home")
	words := make([]string, n)
	for i := range words {
		words[i] = lexicon[i%len(lexicon)]
		if i > 0 {
			words[i] = " " + words[i]
		}
	}
	return words
}
