package fakeagent

import (
	"encoding/json"
	"fmt"
	"sync"

	"svc.internal/pkg/agentwire"
	agentv2 "svc.internal/proto/svc/agent/v2"
)

// Request is one request at the agent. Its methods send frames and fail once the
// connection has ended.
type Request struct {
	// Open is the hub's first frame of the request, Body its whole body.
	Open *agentv2.Open
	Body []byte

	agent     *Agent
	stream    uint32
	credit    agentwire.Credit // guarded by the agent's mutex
	cancelled chan struct{}
	once      sync.Once
	reset     *agentv2.Error
}

func newRequest(a *Agent, stream uint32, open *agentv2.Open) *Request {
	return &Request{Open: open, agent: a, stream: stream, credit: agentwire.StreamWindow, cancelled: make(chan struct{})}
}

// Stream returns the request's number on the connection.
func (r *Request) Stream() uint32 { return r.stream }

// Cancelled is closed when the hub cancels or resets the request, or the connection ends.
func (r *Request) Cancelled() <-chan struct{} { return r.cancelled }

// Reset returns the Error with which the hub reset the request, nil for none.
func (r *Request) Reset() *agentv2.Error {
	r.agent.mu.Lock()
	defer r.agent.mu.Unlock()
	return r.reset
}

func (r *Request) cancel() { r.once.Do(func() { close(r.cancelled) }) }

func (r *Request) fail(why *agentv2.Error) {
	r.agent.mu.Lock()
	r.reset = why
	r.agent.mu.Unlock()
	r.cancel()
}

// Data sends bytes of the answer, waiting for credit.
func (r *Request) Data(data []byte) error {
	for len(data) > 0 {
		n, err := r.reserve(len(data))
		if err != nil {
			return err
		}
		if err := r.Overrun(data[:n]); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// reserve takes credit for at most want bytes and one frame.
func (r *Request) reserve(want int) (int, error) {
	a := r.agent
	for {
		a.mu.Lock()
		n := agentwire.Spend(want, &r.credit, &a.credit)
		changed := a.changed
		a.mu.Unlock()
		if n > 0 {
			return n, nil
		}
		select {
		case <-changed:
		case <-a.closed:
			return 0, ErrClosed
		case <-r.cancelled:
			return 0, fmt.Errorf("stream %d was cancelled", r.stream)
		}
	}
}

// Overrun sends one DATA frame whether or not there is credit for it.
func (r *Request) Overrun(data []byte) error {
	return r.agent.Send(&agentv2.Frame{Stream: r.stream, Body: &agentv2.Frame_Data{Data: &agentv2.Data{Data: data}}})
}

// Event sends one server-sent event.
func (r *Request) Event(json string) error { return r.Data([]byte("data: " + json + "\n\n")) }

// chunk is an event of a stream, as engines write it.
func chunk(choice string) string {
	return `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"engine-model","choices":[` + choice +
		`]}`
}

// Role sends the event without content that engines begin with.
func (r *Request) Role() error {
	return r.Event(chunk(`{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}`))
}

// Text sends a piece of content.
func (r *Request) Text(text string) error {
	return r.Event(chunk(`{"index":0,"delta":{"content":` + quote(text) + `},"finish_reason":null}`))
}

// Finish sends the event with the finish_reason.
func (r *Request) Finish(reason string) error {
	return r.Event(chunk(`{"index":0,"delta":{},"finish_reason":` + quote(reason) + `}`))
}

// Usage sends the event with the usage.
func (r *Request) Usage(prompt, completion int64) error {
	return r.Event(
		fmt.Sprintf(`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"engine-model","choices":[],`+
			`"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}}`, prompt, completion, prompt+completion))
}

// Done sends [DONE].
func (r *Request) Done() error { return r.Event("[DONE]") }

// End ends the request with the engine's status.
func (r *Request) End(status int32, complete bool) error {
	return r.EndWith(&agentv2.End{EngineStatus: status, Complete: complete})
}

// Busy ends the request for want of a slot.
func (r *Request) Busy() error { return r.EndWith(&agentv2.End{Busy: true}) }

// EndWith ends the request.
func (r *Request) EndWith(end *agentv2.End) error {
	return r.agent.Send(&agentv2.Frame{Stream: r.stream, Body: &agentv2.Frame_End{End: end}})
}

// Fail answers with an error status and body.
func (r *Request) Fail(status int32, body string) error {
	if err := r.Data([]byte(body)); err != nil {
		return err
	}
	return r.End(status, true)
}

// Whole answers a request that is not streamed.
func (r *Request) Whole(text string, prompt, completion int64) error {
	body := fmt.Sprintf(`{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"engine-model","choices":[`+
		`{"index":0,"message":{"role":"assistant","content":%s},"finish_reason":"stop"}],`+
		`"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}}`, quote(text), prompt, completion,
		prompt+completion)
	if err := r.Data([]byte(body)); err != nil {
		return err
	}
	return r.End(200, true)
}

// Answer is a Handler that answers properly, streamed or whole: pieces of
// content, a usage of 10 prompt tokens and one completion token a piece. A
// cancelled request ends where it stands.
func Answer(pieces ...string) func(*Request) {
	return func(r *Request) {
		if err := r.answer(pieces); err != nil {
			_ = r.End(0, false) // the hub may be gone, too
		}
	}
}

func (r *Request) answer(pieces []string) error {
	if !r.Open.GetStream() {
		text := ""
		for _, p := range pieces {
			text += p
		}
		return r.Whole(text, 10, int64(len(pieces)))
	}
	if err := r.Role(); err != nil {
		return err
	}
	for _, p := range pieces {
		if err := r.Text(p); err != nil {
			return err
		}
	}
	for _, step := range []func() error{
		func() error { return r.Finish("stop") },
		func() error { return r.Usage(10, int64(len(pieces))) },
		r.Done,
		func() error { return r.End(200, true) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func quote(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		return `""`
	}
	return string(b)
}
