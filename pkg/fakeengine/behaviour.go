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
	// Model, unless empty, is named in the answer instead of the request's model.
	Model string
	// FinishReason replaces "stop".
	FinishReason string
	// Extra holds members, such as `"provider":"x","n":1`, that are put at the
	// front of every object of the answer.
	Extra string

	// Recall, unless nil, answers chat requests that ask for needles instead of Tokens.
	Recall *Recall

	// Count, unless zero, is the number of vectors or images in the answer, whatever
	// number was asked for. Negative is none at all.
	Count int
	// Dimensions is the length of vectors when the request names none; zero is 3.
	// IgnoreFormat answers floats whatever encoding_format says.
	Dimensions   int
	IgnoreFormat bool
	// Image is the content of images; nil is a PNG of one pixel. Partials is the number
	// of partial images of each image in a stream, when the request names none.
	// Base64 answers b64_json instead of url, when the request names no format.
	Image    []byte
	Partials int
	Base64   bool
	// Seconds is the duration that a verbose transcription reports; zero is 1.
	Seconds float64

	// Usage holds the JSON of each usage that is reported, one after the other. Empty is
	// no usage at all. Nil is true usage, in a stream only if it was asked for. For
	// images and transcriptions nil is no usage in a whole answer, and a fixed usage in
	// a stream. See the Usage constants.
	Usage []string

	// Status, unless zero or 200, is answered with Body. If Body is empty, the
	// answer has an error body of OpenAI's shape.
	Status int
	Body   string
	// Raw, unless empty, is the body of an answer with status 200 and ContentType.
	Raw, ContentType string
	// Header is added to the answer's header.
	Header http.Header

	// BeforeFirstByte holds back the whole answer, headers included, until the channel
	// gives a value or is closed.
	BeforeFirstByte <-chan struct{}
	// BeforeFirstToken holds back the first token, after headers and role, in the same
	// way.
	BeforeFirstToken <-chan struct{}
	// BeforeToken holds back each token in the same way.
	BeforeToken <-chan struct{}

	// End is how the answer ends: after EndAfter tokens (in a stream of images, after
	// EndAfter images), or after all of them if EndAfter is zero or too large. EndNormal
	// always sends all of them.
	End      End
	EndAfter int
	// HugeBytes is the length of the line of EndHugeLine; zero is 8 MiB.
	HugeBytes int
}

// End is how an answer ends. An ending that does not speak of streams alone is for
// whole answers too.
type End uint8

// The endings.
const (
	// EndNormal ends an answer properly.
	EndNormal End = iota
	// EndNoFinish ends a stream cleanly, with [DONE] but without finish_reason; in a
	// whole answer finish_reason is null. A stream of images has only partial images,
	// and a stream of a transcription lacks its last event.
	EndNoFinish
	// EndNoDone ends a stream cleanly after its finish_reason, without usage and
	// [DONE]. A stream of a transcription lacks its last event.
	EndNoDone
	// EndSilent ends a stream cleanly right after a token, without finish_reason, usage
	// and [DONE]; in a whole answer finish_reason is null.
	EndSilent
	// EndReset resets the connection (RST); a whole answer is cut half-way.
	EndReset
	// EndError sends an error object in the stream and ends it; a whole answer
	// has status 200 and an error body.
	EndError
	// EndHang sends nothing more until the client hangs up or the test ends.
	EndHang
	// EndEndless repeats the tokens until the client hangs up or the test ends. A whole
	// answer, and a stream of images or of a transcription, hangs instead.
	EndEndless
	// EndHugeLine sends HugeBytes of a data line that never ends, then ends the answer.
	EndHugeLine
	// EndGarbage sends a data line that is not JSON, then ends the stream properly. The
	// body of a whole answer is garbage.
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

// PromptTokens is what truthful usage reports for the prompt, unless a Recall counts it.
const PromptTokens = 7

// NamedWindow is the window in tokens of the models recall-window and recall-refuse.
const NamedWindow = 4096

// Named returns the behaviours of models without a script, by the model's name, so
// that an engine behind several processes needs no script.
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
		"recall":          {Recall: &Recall{}},
		"recall-window":   {Recall: &Recall{WindowTokens: NamedWindow}},
		"recall-refuse":   {Recall: &Recall{WindowTokens: NamedWindow, Refuse: true}},
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
