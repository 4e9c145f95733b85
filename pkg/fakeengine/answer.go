package fakeengine

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"strings"

	"svc.internal/pkg/openai"
)

const (
	created  = 1_700_000_000 // Unix seconds
	answerID = "chatcmpl-fake"

	embeddingsPath     = "/v1/embeddings"
	imagesPath         = "/v1/images/generations"
	transcriptionsPath = "/v1/audio/transcriptions"

	codeTooLong = "context_length_exceeded"

	defaultTokens = 5
	defaultHuge   = 8 << 20
)

// answer is one answer under way.
type answer struct {
	Behaviour
	w       http.ResponseWriter
	ctx     context.Context
	stop    <-chan struct{}
	path    string
	request asked
	// promptTokens is what truthful usage reports for the prompt.
	promptTokens int64
	// complete is called before the last bytes are written, because a client that
	// closes the connection once it has these bytes has not hung up.
	complete func()
}

func (a *answer) serve() {
	a.promptTokens = PromptTokens
	if a.Tokens == nil {
		a.Tokens = Words(defaultTokens)
	}
	if a.Model == "" {
		a.Model = a.request.Model
	}
	if a.FinishReason == "" {
		a.FinishReason = openai.FinishStop
	}
	for name, values := range a.Header {
		a.w.Header()[name] = values
	}
	if a.BeforeFirstByte != nil && !a.wait(a.BeforeFirstByte) {
		return
	}
	if a.Status != 0 || a.Raw != "" {
		a.complete()
	}
	switch {
	case a.Status != 0 && a.Status != http.StatusOK:
		a.refuse()
	case a.Raw != "":
		a.w.Header().Set("Content-Type", a.ContentType)
		a.write([]byte(a.Raw))
	case a.path == embeddingsPath:
		a.embed()
	case a.path == imagesPath:
		a.draw()
	case a.path == transcriptionsPath:
		a.transcribe()
	case a.path != "/v1/chat/completions" && a.path != "/v1/completions":
		writeError(a.w, http.StatusNotFound, "Not Found", "")
	default:
		a.say()
	}
}

// say answers with text.
func (a *answer) say() {
	if a.Recall != nil {
		read := a.Recall.read(a.request.Messages)
		if read.refusal != "" {
			a.complete()
			writeError(a.w, http.StatusBadRequest, read.refusal, codeTooLong)
			return
		}
		a.promptTokens = read.promptTokens
		if read.tokens != nil {
			a.Tokens = read.tokens
		}
	}
	if a.request.Stream {
		a.stream()
		return
	}
	a.whole()
}

// wait waits until the test's channel is closed or gives a value. It returns false when
// the client hangs up or the test ends before that.
func (a *answer) wait(until <-chan struct{}) bool {
	select {
	case <-until:
		return true
	case <-a.ctx.Done():
	case <-a.stop:
	}
	return false
}

// gone reports whether the client has hung up or the test has ended.
func (a *answer) gone() bool {
	select {
	case <-a.ctx.Done():
		return true
	case <-a.stop:
		return true
	default:
		return false
	}
}

// token waits until the i-th token may be sent. It returns false if that never happens.
func (a *answer) token(i int) bool {
	if i == 0 && a.BeforeFirstToken != nil && !a.wait(a.BeforeFirstToken) {
		return false
	}
	if a.BeforeToken != nil && !a.wait(a.BeforeToken) {
		return false
	}
	return !a.gone()
}

// write sends bytes at once. It ignores errors, because gone notices a hang-up.
func (a *answer) write(b []byte) {
	_, _ = a.w.Write(b)
	_ = http.NewResponseController(a.w).Flush()
}

func (a *answer) refuse() {
	if a.Body == "" {
		writeError(a.w, a.Status, "scripted "+http.StatusText(a.Status), "")
		return
	}
	a.w.WriteHeader(a.Status)
	a.write([]byte(a.Body))
}

// sent is the number of tokens that are sent before the end.
func (a *answer) sent() int {
	if a.EndAfter > 0 && a.EndAfter < len(a.Tokens) && a.End != EndNormal {
		return a.EndAfter
	}
	return len(a.Tokens)
}

// object marshals v with Extra at its front.
func (a *answer) object(v any) []byte {
	body := mustMarshal(v)
	if a.Extra == "" {
		return body
	}
	return append([]byte("{"+a.Extra+","), body[1:]...)
}

// usages are the usages to report: the behaviour's or, if it has none, the truth for n
// tokens.
func (a *answer) usages(n int) []string {
	if a.Usage != nil {
		return a.Usage
	}
	truth := openai.UsageMessage{PromptTokens: a.promptTokens, CompletionTokens: int64(n),
		TotalTokens: a.promptTokens + int64(n)}
	return []string{string(mustMarshal(truth))}
}

// withUsages puts usage members at the end of an object.
func withUsages(body []byte, usages []string) []byte {
	for _, usage := range usages {
		body = append(body[:len(body)-1], `,"usage":`+usage+`}`...)
	}
	return body
}

// whole writes an answer that is not streamed.
func (a *answer) whole() {
	n := a.sent()
	for i := range n {
		if !a.token(i) {
			return
		}
	}
	a.answerWhole(func() []byte {
		return withUsages(a.object(a.completion(strings.Join(a.Tokens[:n], ""))), a.usages(n))
	})
}

// answerWhole writes a whole answer that is JSON, and ends it as End says.
func (a *answer) answerWhole(body func() []byte) {
	switch a.End {
	case EndError:
		writeError(a.w, http.StatusOK, "scripted failure", "")
	case EndHang, EndEndless:
		a.wait(nil)
	case EndGarbage:
		a.w.Header().Set("Content-Type", "application/json")
		a.write([]byte(`{"choices":[{"index":`))
	case EndReset:
		a.w.Header().Set("Content-Type", "application/json")
		text := body()
		a.write(text[:len(text)/2])
		a.reset()
	case EndHugeLine:
		a.w.Header().Set("Content-Type", "application/json")
		a.huge(`{"id":"`)
	default:
		a.complete()
		writeJSON(a.w, http.StatusOK, body())
	}
}

// textCompletion is a whole answer of /v1/completions, or a chunk of a stream.
type textCompletion struct {
	ID      string       `json:"id"`
	Object  string       `json:"object"`
	Created int64        `json:"created"`
	Model   string       `json:"model"`
	Choices []textChoice `json:"choices"`
}

type textChoice struct {
	Index        int       `json:"index"`
	Text         string    `json:"text"`
	Logprobs     *struct{} `json:"logprobs"`
	FinishReason *string   `json:"finish_reason"`
}

func (a *answer) text(text string, finish *string) textCompletion {
	return textCompletion{
		ID: "cmpl-fake", Object: "text_completion", Created: created, Model: a.Model,
		Choices: []textChoice{{Text: text, FinishReason: finish}},
	}
}

// completion is the whole answer with the text.
func (a *answer) completion(text string) any {
	finish := &a.FinishReason
	if a.End == EndNoFinish || a.End == EndSilent {
		finish = nil
	}
	if a.path == "/v1/completions" {
		return a.text(text, finish)
	}
	type choice struct {
		Index        int            `json:"index"`
		Message      openai.Message `json:"message"`
		Logprobs     *struct{}      `json:"logprobs"`
		FinishReason *string        `json:"finish_reason"`
	}
	return struct {
		ID      string   `json:"id"`
		Object  string   `json:"object"`
		Created int64    `json:"created"`
		Model   string   `json:"model"`
		Choices []choice `json:"choices"`
	}{
		answerID, openai.ObjectCompletion, created, a.Model,
		[]choice{{Message: openai.Message{Role: openai.RoleAssistant, Content: &text}, FinishReason: finish}},
	}
}

// stream writes an answer as server-sent events.
func (a *answer) stream() {
	a.w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	a.w.WriteHeader(http.StatusOK)
	if a.path != "/v1/completions" {
		empty := ""
		a.chunk(openai.Delta{Role: openai.RoleAssistant, Content: &empty}, nil)
	}
	n := a.sent()
	for i := range n {
		if !a.token(i) {
			return
		}
		a.piece(a.Tokens[i])
	}
	if a.End == EndEndless {
		a.endless()
		return
	}
	if a.brokenOff() {
		return
	}
	if a.End != EndNoFinish {
		a.finish()
	}
	if a.End == EndNoDone {
		return
	}
	a.reportUsage(n)
	a.complete()
	a.write(openai.AppendDone(nil))
}

// brokenOff ends a stream before its proper end, if End says so. It reports whether the
// stream has ended. EndGarbage sends its line and does not end the stream.
func (a *answer) brokenOff() bool {
	switch a.End {
	case EndSilent:
	case EndReset:
		a.reset()
	case EndError:
		a.complete()
		a.write(openai.AppendErrorEvent(nil, openai.Error{Message: "scripted failure", Type: openai.TypeServer}, ""))
	case EndHang:
		a.wait(nil)
	case EndHugeLine:
		a.huge("data: ")
	case EndGarbage:
		a.event([]byte(`{"choices":[{"index":`))
		return false
	default:
		return false
	}
	return true
}

// endless repeats the tokens. BeforeToken holds back each of them.
func (a *answer) endless() {
	if len(a.Tokens) == 0 {
		a.Tokens = []string{""}
	}
	for i := len(a.Tokens); a.token(i); i++ {
		a.piece(a.Tokens[i%len(a.Tokens)])
	}
}

// asked reports whether the request asks for usage in the stream.
func (a *answer) asked() bool {
	return a.request.StreamOptions != nil && a.request.StreamOptions.IncludeUsage
}

func (a *answer) reportUsage(n int) {
	if a.Usage == nil && !a.asked() {
		return
	}
	for _, usage := range a.usages(n) {
		head := openai.ChatChunk{ID: answerID, Object: openai.ObjectChunk, Created: created, Model: a.Model,
			Choices: []openai.ChunkChoice{}}
		a.event(withUsages(a.object(head), []string{usage}))
	}
}

// piece sends one token.
func (a *answer) piece(token string) {
	if a.path == "/v1/completions" {
		a.event(a.object(a.text(token, nil)))
		return
	}
	a.chunk(openai.Delta{Content: &token}, nil)
}

func (a *answer) finish() {
	if a.path == "/v1/completions" {
		a.event(a.object(a.text("", &a.FinishReason)))
		return
	}
	a.chunk(openai.Delta{}, &a.FinishReason)
}

func (a *answer) chunk(delta openai.Delta, finish *string) {
	c := openai.ChatChunk{
		ID: answerID, Object: openai.ObjectChunk, Created: created, Model: a.Model,
		Choices: []openai.ChunkChoice{{Delta: delta, FinishReason: finish}},
	}
	if a.asked() {
		a.event(a.object(c.WithUsage()))
		return
	}
	a.event(a.object(c))
}

func (a *answer) event(data []byte) { a.write(openai.AppendEvent(nil, data)) }

// huge sends a line of HugeBytes that does not end.
func (a *answer) huge(start string) {
	a.write([]byte(start))
	left := a.HugeBytes
	if left == 0 {
		left = defaultHuge
	}
	block := bytes.Repeat([]byte{'x'}, 64<<10)
	for left > 0 && !a.gone() {
		block = block[:min(left, len(block))]
		a.write(block)
		left -= len(block)
	}
}

// reset closes the connection in such a way that the client sees a reset.
func (a *answer) reset() {
	conn, _, err := http.NewResponseController(a.w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // HTTP/2, or a recorder
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}
