package fakeagent

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// V1Request is one inference in the agent's hands. Its methods send messages. A
// request outlives its connection: what the engine still says goes out on the
// next one, to a hub that never asked for it. Between two connections a message
// waits as long as for room in the buffer, and is lost then.
type V1Request struct {
	// ID correlates the answer. EndpointID is only logged by agents.
	ID, EndpointID, Model string
	// Stream is what the hub asked for. Raw is the body as the hub sent it, Body
	// as it reaches the engine: the model replaced, a stream's usage asked for,
	// large integers rounded.
	Stream    bool
	Raw, Body json.RawMessage

	conn  *v1Conn
	began time.Time
	limit *time.Timer

	mu             sync.Mutex
	prompt, output int64
	over           bool
	ended          chan struct{} // closed by the last message, or by an abort
}

type v1Inference struct {
	EndpointID string          `json:"endpoint_id"`
	ModelID    string          `json:"model_id"`
	Request    json.RawMessage `json:"request"`
	Stream     bool            `json:"stream"`
}

// v1Whole answers a request that is not streamed.
type v1Whole struct {
	RequestID  string          `json:"request_id"`
	Response   json.RawMessage `json:"response"`
	Error      string          `json:"error,omitempty"`
	StatusCode int             `json:"status_code,omitempty"`
	LatencyMS  int64           `json:"latency_ms"`
}

type v1Chunk struct {
	RequestID string          `json:"request_id"`
	Chunk     json.RawMessage `json:"chunk"`
	Done      bool            `json:"done"`
}

type v1StreamEnd struct {
	RequestID    string `json:"request_id"`
	LatencyMS    int64  `json:"latency_ms"`
	TokensInput  int64  `json:"tokens_input,omitempty"`
	TokensOutput int64  `json:"tokens_output,omitempty"`
	StatusCode   int    `json:"status_code,omitempty"`
	Error        string `json:"error,omitempty"`
}

// errV1Over is what a request's methods return behind its end.
var errV1Over = errors.New("v1 agent: the request is over")

// infer takes one request to the engine.
func (c *v1Conn) infer(f V1Frame) {
	a := c.agent
	var p v1Inference
	if json.Unmarshal(f.Payload, &p) != nil || len(p.Request) == 0 {
		_ = c.send("error", f.RequestID, map[string]any{
			"request_id": f.RequestID, "code": http.StatusBadRequest, "message": "invalid inference payload",
		}, a.opts.Timing.Patience)
		return
	}
	r := &V1Request{
		ID: f.RequestID, EndpointID: p.EndpointID, Model: p.ModelID, Stream: p.Stream, Raw: p.Request,
		Body: a.rewrite(p), conn: c, began: time.Now(), ended: make(chan struct{}),
	}
	if !a.serves(p.ModelID) {
		_ = r.Fail(http.StatusNotFound, "model "+p.ModelID+" not deployed on this provider")
		return
	}
	release, refusal := a.slots.take(c.gone, p.ModelID, a.opts.Timing.SlotWait)
	if refusal != "" {
		_ = r.fail(http.StatusTooManyRequests, refusal)
		return
	}
	if release == nil {
		return // the connection has ended
	}
	a.count(1)
	handled := make(chan struct{})
	if p.Stream {
		r.limit = time.AfterFunc(a.opts.Timing.StreamLimit, func() {
			_ = r.fail(http.StatusBadGateway, "failed to read stream: context deadline exceeded")
		})
	}
	if a.opts.Handler != nil {
		a.loops.Go(func() {
			defer close(handled)
			a.opts.Handler(r)
		})
	} else {
		close(handled)
		select {
		case a.asked <- r:
		default: // the test looks at none of them
		}
	}
	select {
	case <-r.ended:
	case <-c.gone:
		select {
		case <-r.ended:
		case <-handled: // nobody says more of it
		}
	}
	if r.limit != nil {
		r.limit.Stop()
	}
	a.count(-1)
	release()
}

func (a *V1) serves(model string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, m := range a.opts.Models {
		if m == model {
			return true
		}
	}
	return false
}

func (a *V1) count(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.served.active += n; n > 0 {
		a.served.total += n
	}
}

// rewrite is what the engine gets: the body goes through a generic map, in
// which integers above 2^53 lose their last digits.
func (a *V1) rewrite(p v1Inference) json.RawMessage {
	var body map[string]any
	if json.Unmarshal(p.Request, &body) != nil {
		return p.Request
	}
	body["model"] = a.opts.LocalModel
	if p.Stream {
		body["stream"], body["stream_options"] = true, map[string]any{"include_usage": true}
	}
	b, err := json.Marshal(body)
	if err != nil {
		return p.Request
	}
	return b
}

// Gone is closed when the connection on which the request came has ended.
func (r *V1Request) Gone() <-chan struct{} { return r.conn.gone }

// Over is closed when the request has ended: by its own last message, or
// because nobody read, or because it took too long.
func (r *V1Request) Over() <-chan struct{} { return r.ended }

// Chunk passes one event of the engine on, as agents do. It leaves out an event that has
// an empty list of choices and no usage. It adds a count of cached tokens to usage
// without prompt_tokens_details.
func (r *V1Request) Chunk(event string) error {
	body, keep := r.notice(event)
	if !keep {
		return nil
	}
	return r.RawChunk(body)
}

// RawChunk sends a chunk as it is.
func (r *V1Request) RawChunk(chunk json.RawMessage) error {
	return r.piece(v1Chunk{RequestID: r.ID, Chunk: chunk})
}

// piece sends a chunk; a hub that does not read costs the stream, and the third
// time the connection.
func (r *V1Request) piece(p v1Chunk) error {
	select {
	case <-r.ended:
		return errV1Over
	default:
	}
	err := r.send("stream_chunk", p, r.conn.agent.opts.Timing.Stall)
	if errors.Is(err, errV1Stalled) && r.finish() {
		r.conn.stalled()
	}
	return err
}

// send sends a message on the connection on which the request came. If that connection
// is closed, it sends the message on the connection that the agent has now.
func (r *V1Request) send(kind string, payload any, wait time.Duration) error {
	err := r.conn.send(kind, r.ID, payload, wait)
	if !errors.Is(err, ErrClosed) {
		return err
	}
	next := r.conn.agent.next(r.conn, wait)
	if next == nil {
		return r.conn.agent.stopped()
	}
	if err := next.send(kind, r.ID, payload, wait); !errors.Is(err, ErrClosed) {
		return err
	}
	return r.conn.agent.stopped()
}

// stopped is ErrClosed once the agent is stopped: until then a message that finds
// no connection is lost without a word.
func (a *V1) stopped() error {
	if a.ctx.Err() != nil {
		return ErrClosed
	}
	return nil
}

// next waits for a connection that has sent its registration and is not the lost
// connection. It returns nil when no such connection came in time.
func (a *V1) next(lost *v1Conn, wait time.Duration) *v1Conn {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		a.mu.Lock()
		c, changed := a.conn, a.changed
		a.mu.Unlock()
		if c != nil && c != lost && c.introduced() {
			return c
		}
		select {
		case <-changed:
		case <-timer.C:
			return nil
		case <-a.ctx.Done():
			return nil
		}
	}
}

// notice reads the usage of an event and makes the agent's changes to it.
func (r *V1Request) notice(event string) (json.RawMessage, bool) {
	var e map[string]any
	if json.Unmarshal([]byte(event), &e) != nil {
		return json.RawMessage(event), true
	}
	usage, ok := e["usage"].(map[string]any)
	if choices, has := e["choices"].([]any); has && len(choices) == 0 && !ok {
		return nil, false
	}
	if !ok {
		return json.RawMessage(event), true
	}
	r.mu.Lock()
	if n, ok := usage["prompt_tokens"].(float64); ok {
		r.prompt = int64(n)
	}
	if n, ok := usage["completion_tokens"].(float64); ok {
		r.output = int64(n)
	}
	r.mu.Unlock()
	if _, has := usage["prompt_tokens_details"]; has {
		return json.RawMessage(event), true
	}
	usage["prompt_tokens_details"] = map[string]any{"cached_tokens": 0}
	b, err := json.Marshal(e)
	if err != nil {
		return json.RawMessage(event), true
	}
	return b, true
}

// Text sends a piece of content.
func (r *V1Request) Text(text string) error {
	return r.Chunk(chunk(`{"index":0,"delta":{"content":` + quote(text) + `},"finish_reason":null}`))
}

// Role sends the event without content that engines begin with.
func (r *V1Request) Role() error {
	return r.Chunk(chunk(`{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}`))
}

// Finish sends the event with the finish_reason.
func (r *V1Request) Finish(reason string) error {
	return r.Chunk(chunk(`{"index":0,"delta":{},"finish_reason":` + quote(reason) + `}`))
}

// Usage sends the event with the usage.
func (r *V1Request) Usage(prompt, completion int64) error {
	return r.Chunk(
		fmt.Sprintf(`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"engine-model","choices":[],`+
			`"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}}`, prompt, completion, prompt+completion))
}

// Done says that the engine's stream reached its [DONE].
func (r *V1Request) Done() error {
	return r.piece(v1Chunk{RequestID: r.ID, Chunk: json.RawMessage("null"), Done: true})
}

// End ends the stream without an error. Without Done before it, this is what
// an engine looks like that closed early.
func (r *V1Request) End() error { return r.end(v1StreamEnd{}) }

// Whole answers with the engine's body. One that is an error object becomes
// an error.
func (r *V1Request) Whole(body string) error {
	var e struct {
		Error *struct {
			Message string `json:"message"`
			Code    any    `json:"code"`
		} `json:"error"`
	}
	if json.Unmarshal([]byte(body), &e) == nil && e.Error != nil {
		status := http.StatusInternalServerError
		switch code := e.Error.Code.(type) {
		case float64:
			status = int(code)
		case string:
			if code == "model_not_found" {
				status = http.StatusNotFound
			}
		}
		return r.Fail(status, e.Error.Message)
	}
	kept, _ := r.notice(body)
	return r.whole(v1Whole{Response: kept})
}

// Fail answers with the engine's error.
func (r *V1Request) Fail(status int, message string) error {
	return r.fail(status, fmt.Sprintf("model server returned HTTP %d: %s", status, message))
}

// Break ends a stream as an engine does that breaks its connection off.
func (r *V1Request) Break() error {
	return r.fail(http.StatusBadGateway, "failed to read stream: unexpected EOF")
}

func (r *V1Request) fail(status int, text string) error {
	if r.Stream {
		return r.end(v1StreamEnd{StatusCode: status, Error: text})
	}
	return r.whole(v1Whole{Response: json.RawMessage("null"), StatusCode: status, Error: text})
}

func (r *V1Request) end(p v1StreamEnd) error {
	if !r.finish() {
		return errV1Over
	}
	r.mu.Lock()
	p.RequestID, p.LatencyMS = r.ID, time.Since(r.began).Milliseconds()
	if p.Error == "" {
		p.TokensInput, p.TokensOutput = r.prompt, r.output
	}
	r.mu.Unlock()
	return r.send("stream_end", p, r.conn.agent.opts.Timing.Patience)
}

func (r *V1Request) whole(p v1Whole) error {
	if !r.finish() {
		return errV1Over
	}
	p.RequestID, p.LatencyMS = r.ID, time.Since(r.began).Milliseconds()
	return r.send("ack", p, r.conn.agent.opts.Timing.Patience)
}

// finish reports whether this is the first end.
func (r *V1Request) finish() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return false
	}
	r.over = true
	close(r.ended)
	return true
}
