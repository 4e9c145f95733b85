// Package fakeagent is a provider's agent for tests: it speaks dialect v2 of
// the provider connection over a real socket, and does to a request whatever
// the test says, good or bad.
//
//	agent, err := fakeagent.Dial(ctx, wsURL, fakeagent.Options{
//		Key: key, NodeID: "node-0001", Models: []string{"acme/tiny"},
//		Handler: fakeagent.Answer("Hello", " world"),
//	})
//
// By default it is well behaved: it counts frames and checks the hub's, keeps
// within its credit, grants credit for what it reads, sends heartbeats and
// answers pings. Everything that can be broken is broken by a method of its
// own (Overrun, SendRaw, SendNumbered) or by an option. What it hears is kept
// for the test to look at: requests, cancels, frames, and why it was closed.
//
// V1 is the other agent: of dialect v1, with a process's life and its habits.
//
// Bounds: 4,096 frames of history; a request's body is kept whole.
package fakeagent

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"svc.internal/pkg/agentwire"
	"svc.internal/pkg/agentwire/frame"
	agentv2 "svc.internal/proto/svc/agent/v2"
)

const (
	maxHistory   = 4096
	writeTimeout = 10 * time.Second
)

// ErrClosed is the error once the connection has ended.
var ErrClosed = errors.New("fake agent: connection is closed")

// Options are the agent's identity and behaviour.
type Options struct {
	// Key is the provider key, NodeID the machine; an empty NodeID is
	// "fake-node-1".
	Key, NodeID string
	// Models are offered healthy with Capacity slots each; 0 is the hub's
	// default. Offers, when set, are sent instead.
	Models   []string
	Capacity int32
	Offers   []*agentv2.ModelOffer
	// Capabilities are chat, stream and cancel when nil.
	Capabilities []string
	Region       string
	// Hardware is what is said of the machine; nil for nothing.
	Hardware *agentv2.Hardware
	// Handler answers each request in a goroutine of its own once its body is
	// there; nil leaves requests to Requests.
	Handler func(*Request)
	// Fingerprint replies to each CHALLENGE in a goroutine of its own; a nil result
	// is not sent. Without it challenges wait in Challenges, and Capabilities
	// have fingerprint only where the test names it.
	Fingerprint func(*agentv2.Challenge) *agentv2.ChallengeResult
	// NoHeartbeats sends no heartbeats, so that the session dies.
	NoHeartbeats bool
	// NoGrants grants no credit for what the hub sends.
	NoGrants bool
	// NoPongs leaves pings unanswered.
	NoPongs bool
	// ReceiptKey is the key that receipts are signed with; nil sends none.
	ReceiptKey ed25519.PublicKey
	// NetDial replaces the network, for pipes.
	NetDial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// Refused is the hub's refusal of a registration.
type Refused struct{ Frame *agentv2.Error }

// Error returns the code and the message.
func (r *Refused) Error() string {
	return fmt.Sprintf("hub refused the agent: %s: %s", r.Frame.GetCode(), r.Frame.GetMessage())
}

// Agent is a connection. It is safe for concurrent use.
type Agent struct {
	opts     Options
	ws       *websocket.Conn
	registry chan *agentv2.RegisterAck
	requests chan *Request
	asked    chan *agentv2.Challenge
	drained  chan struct{}
	closed   chan struct{}
	loops    sync.WaitGroup

	mu       sync.Mutex
	credit   agentwire.Credit
	changed  chan struct{} // closed and replaced when credit grows
	streams  map[uint32]*Request
	seqIn    map[uint32]*agentwire.Sequence
	seqOut   map[uint32]*agentwire.Sequence
	history  []*agentv2.Frame
	ack      *agentv2.RegisterAck
	farewell *agentv2.Error
	drain    *agentv2.Drain
	fault    error // the hub's first breach of the protocol
	acks     int
	onAck    chan struct{} // closed and replaced at each heartbeat ack
}

// Dial connects to wsURL, registers, and returns once the hub has acknowledged
// it. A refusal is a *Refused.
func Dial(ctx context.Context, wsURL string, opts Options) (*Agent, error) {
	a, err := Connect(ctx, wsURL, opts)
	if err != nil {
		return nil, err
	}
	if err := a.Register(); err != nil {
		defer a.Close()
		return nil, a.afterwards(ctx, err)
	}
	if err := a.AwaitAck(ctx); err != nil {
		a.Close()
		return nil, err
	}
	return a, nil
}

// afterwards returns the hub's last Error before it closed the connection on a frame that
// could not be sent any more, and otherwise err.
func (a *Agent) afterwards(ctx context.Context, err error) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	var refused *Refused
	if end := a.AwaitAck(ctx); errors.As(end, &refused) || errors.Is(end, ErrClosed) {
		return end
	}
	return err
}

// Connect opens the socket and does not register.
func Connect(ctx context.Context, wsURL string, opts Options) (*Agent, error) {
	if opts.NodeID == "" {
		opts.NodeID = "fake-node-1"
	}
	if opts.Capabilities == nil {
		opts.Capabilities = []string{"chat", "stream", "cancel"}
	}
	dialer := websocket.Dialer{
		Subprotocols: []string{agentwire.Subprotocol}, HandshakeTimeout: writeTimeout, NetDialContext: opts.NetDial,
	}
	ws, answer, err := dialer.DialContext(ctx, wsURL, http.Header{})
	if err != nil {
		if answer != nil {
			text, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
			return nil, fmt.Errorf("dial the hub: %w: %s: %s", err, answer.Status, text)
		}
		return nil, fmt.Errorf("dial the hub: %w", err)
	}
	a := &Agent{
		opts: opts, ws: ws,
		registry: make(chan *agentv2.RegisterAck, 1), requests: make(chan *Request, maxHistory),
		asked:   make(chan *agentv2.Challenge, maxHistory),
		drained: make(chan struct{}), closed: make(chan struct{}),
		credit: agentwire.ConnWindow, changed: make(chan struct{}), onAck: make(chan struct{}),
		streams: map[uint32]*Request{}, seqIn: map[uint32]*agentwire.Sequence{}, seqOut: map[uint32]*agentwire.Sequence{},
	}
	if opts.NoPongs {
		ws.SetPingHandler(func(string) error { return nil })
	}
	a.loops.Go(a.read)
	return a, nil
}

// Register sends the first frame.
func (a *Agent) Register() error {
	offers := a.opts.Offers
	if offers == nil {
		offers = a.Offers(true)
	}
	return a.Send(&agentv2.Frame{Body: &agentv2.Frame_Register{Register: &agentv2.Register{
		Token: a.opts.Key, NodeId: a.opts.NodeID, NodeName: "fake", AgentVersion: "test", Models: offers,
		Capabilities: a.opts.Capabilities, Region: a.opts.Region, ReceiptKey: a.opts.ReceiptKey,
		Hardware: a.opts.Hardware,
	}}})
}

// Offers returns the agent's models, healthy or not.
func (a *Agent) Offers(healthy bool) []*agentv2.ModelOffer {
	offers := make([]*agentv2.ModelOffer, 0, len(a.opts.Models))
	for _, id := range a.opts.Models {
		offers = append(offers, &agentv2.ModelOffer{ModelId: id, Capacity: a.opts.Capacity, Healthy: healthy})
	}
	return offers
}

// AwaitAck waits for the answer to Register and begins to send heartbeats.
func (a *Agent) AwaitAck(ctx context.Context) error {
	select {
	case ack := <-a.registry:
		if !a.opts.NoHeartbeats && ack.GetHeartbeatIntervalMs() > 0 {
			a.loops.Go(func() { a.beat(time.Duration(ack.GetHeartbeatIntervalMs()) * time.Millisecond) })
		}
		return nil
	case <-a.closed:
		if why := a.Farewell(); why != nil {
			return &Refused{Frame: why}
		}
		return ErrClosed
	case <-ctx.Done():
		return fmt.Errorf("wait for the hub's answer: %w", ctx.Err())
	}
}

// Ack returns the hub's answer to Register, nil before it arrived.
func (a *Agent) Ack() *agentv2.RegisterAck {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ack
}

// Epoch returns the session's epoch.
func (a *Agent) Epoch() int64 { return a.Ack().GetEpoch() }

// Requests has the requests that no Handler takes, each when its body is there.
func (a *Agent) Requests() <-chan *Request { return a.requests }

// Challenges has the challenges that no Fingerprint replies to.
func (a *Agent) Challenges() <-chan *agentv2.Challenge { return a.asked }

// SendResult sends a CHALLENGE_RESULT, asked for or not.
func (a *Agent) SendResult(r *agentv2.ChallengeResult) error {
	return a.Send(&agentv2.Frame{Body: &agentv2.Frame_ChallengeResult{ChallengeResult: r}})
}

// Drained is closed when the hub asks for a drain.
func (a *Agent) Drained() <-chan struct{} { return a.drained }

// Closed is closed when the connection has ended.
func (a *Agent) Closed() <-chan struct{} { return a.closed }

// Farewell returns the Error that the hub sent before it closed, nil for none.
func (a *Agent) Farewell() *agentv2.Error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.farewell
}

// Fault returns the hub's first breach of the protocol, nil for none.
func (a *Agent) Fault() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.fault
}

// Frames returns the received frames, oldest first.
func (a *Agent) Frames() []*agentv2.Frame {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]*agentv2.Frame(nil), a.history...)
}

// Heartbeat sends a heartbeat and returns when the hub has acknowledged it.
func (a *Agent) Heartbeat(ctx context.Context, offers ...*agentv2.ModelOffer) error {
	a.mu.Lock()
	acked := a.onAck
	a.mu.Unlock()
	if err := a.SendHeartbeat(offers...); err != nil {
		return err
	}
	select {
	case <-acked:
		return nil
	case <-a.closed:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// SendHeartbeat sends a heartbeat and does not wait.
func (a *Agent) SendHeartbeat(offers ...*agentv2.ModelOffer) error {
	return a.Send(&agentv2.Frame{Body: &agentv2.Frame_Heartbeat{Heartbeat: &agentv2.Heartbeat{Models: offers}}})
}

func (a *Agent) beat(every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if a.SendHeartbeat() != nil {
				return
			}
		case <-a.closed:
			return
		}
	}
}

// Send sends a frame with the next number of its stream.
func (a *Agent) Send(f *agentv2.Frame) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	f.Seq = counter(a.seqOut, f.GetStream()).Next()
	return a.writeLocked(f)
}

// counter returns the counter of a stream.
func counter(all map[uint32]*agentwire.Sequence, stream uint32) *agentwire.Sequence {
	if all[stream] == nil {
		all[stream] = new(agentwire.Sequence)
	}
	return all[stream]
}

// SendNumbered sends a frame with its own number.
func (a *Agent) SendNumbered(f *agentv2.Frame) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.writeLocked(f)
}

// SendRaw sends bytes as one WebSocket message of a kind (2 is binary).
func (a *Agent) SendRaw(kind int, message []byte) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ws.WriteMessage(kind, message)
}

// Ping sends a WebSocket ping.
func (a *Agent) Ping() error {
	return a.ws.WriteControl(websocket.PingMessage, nil, time.Now().Add(writeTimeout))
}

// writeLocked sends a frame as it is.
func (a *Agent) writeLocked(f *agentv2.Frame) error {
	message, err := frame.Append(nil, f)
	if err != nil {
		return fmt.Errorf("encode a frame: %w", err)
	}
	if err := a.ws.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	return a.ws.WriteMessage(websocket.BinaryMessage, message)
}

// Kill drops the connection without a close frame, as a machine that lost power does.
func (a *Agent) Kill() { a.ws.NetConn().Close() }

// NetConn returns the connection beneath, for writing bytes that are no WebSocket frame.
func (a *Agent) NetConn() net.Conn { return a.ws.NetConn() }

// Close drops the connection and waits for the agent's own loops. Handlers end
// by themselves: their calls fail.
func (a *Agent) Close() {
	a.Kill()
	a.loops.Wait()
}
