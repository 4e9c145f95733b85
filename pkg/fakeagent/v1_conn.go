package fakeagent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

const (
	// v1Buffer is how many messages wait to be written, v1Limit the largest
	// that is read, in bytes.
	v1Buffer = 256
	v1Limit  = 1 << 20
	// v1MaxMissed heartbeats without an answer, or v1MaxStalls aborted streams,
	// end a connection.
	v1MaxMissed = 3
	v1MaxStalls = 3
)

// errV1Stalled means that nobody read for too long.
var errV1Stalled = errors.New("v1 agent: there is no room in the buffer")

type v1Message struct {
	kind  int
	bytes []byte
}

// v1Conn is one connection of the agent.
type v1Conn struct {
	agent  *V1
	ws     *websocket.Conn
	opened time.Time
	out    chan v1Message
	gone   chan struct{} // closed when the connection has ended
	once   sync.Once

	mu     sync.Mutex
	stalls int
	greets bool // the registration is in the buffer, before anything else
}

func newV1Conn(a *V1, ws *websocket.Conn) *v1Conn {
	return &v1Conn{agent: a, ws: ws, opened: time.Now(), out: make(chan v1Message, v1Buffer), gone: make(chan struct{})}
}

// serve registers and reads until the connection ends.
func (c *v1Conn) serve() V1Life {
	a := c.agent
	defer context.AfterFunc(a.ctx, c.drop)()
	c.ws.SetReadLimit(v1Limit)
	c.extend("")
	c.ws.SetPongHandler(func(string) error { c.extend(""); return nil })
	if a.opts.NoPongs {
		c.ws.SetPingHandler(func(string) error { return nil })
	}
	a.begin(c)
	var loops sync.WaitGroup
	loops.Go(c.write)
	loops.Go(c.beat)
	err := c.register()
	c.introduce()
	if err == nil && !a.opts.Deaf {
		err = c.read()
	}
	if a.opts.Deaf {
		<-c.gone
	}
	c.drop()
	loops.Wait()
	return a.end(c, err)
}

// introduce lets requests of earlier connections follow.
func (c *v1Conn) introduce() {
	c.mu.Lock()
	c.greets = true
	c.mu.Unlock()
	c.agent.change(func(*V1State) {})
}

func (c *v1Conn) introduced() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.greets
}

// extend renews the read deadline: only a pong does.
func (c *v1Conn) extend(string) {
	_ = c.ws.SetReadDeadline(time.Now().Add(c.agent.opts.Timing.PongWait)) // a closed connection fails by itself
}

// drop ends the connection from the agent's side. What was not sent is lost.
func (c *v1Conn) drop() {
	c.once.Do(func() {
		close(c.gone)
		c.ws.NetConn().Close()
	})
}

// write sends what is in the buffer, and the pings.
func (c *v1Conn) write() {
	defer c.drop()
	pings := time.NewTicker(c.agent.opts.Timing.Ping)
	defer pings.Stop()
	for {
		kind, message := websocket.PingMessage, []byte(nil)
		select {
		case m := <-c.out:
			kind, message = m.kind, m.bytes
		case <-pings.C:
		case <-c.gone:
			return
		}
		if c.ws.SetWriteDeadline(time.Now().Add(c.agent.opts.Timing.Patience)) != nil ||
			c.ws.WriteMessage(kind, message) != nil {
			return
		}
	}
}

// beat sends heartbeats while the agent is registered; it leaves a connection
// on which three have had no answer.
func (c *v1Conn) beat() {
	for {
		select {
		case <-c.agent.beats.C:
		case <-c.gone:
			return
		}
		if c.agent.opts.NoHeartbeats || !c.agent.State().Registered {
			continue
		}
		if c.heartbeat() != nil || c.unanswered() >= v1MaxMissed {
			c.drop()
			return
		}
	}
}

func (c *v1Conn) unanswered() int {
	c.agent.mu.Lock()
	defer c.agent.mu.Unlock()
	c.agent.missed++
	return c.agent.missed
}

func (c *v1Conn) heartbeat() error {
	if err := c.send("heartbeat", v1ID(), c.agent.heartbeatFrame(), c.agent.opts.Timing.Patience); err != nil {
		return err
	}
	c.agent.change(func(s *V1State) { s.Heartbeats++ })
	return nil
}

func (c *v1Conn) register() error {
	return c.send("register", v1ID(), c.agent.registerFrame(), c.agent.opts.Timing.Patience)
}

// send puts a message into the buffer, waiting so long for room in it.
func (c *v1Conn) send(kind, id string, payload any, wait time.Duration) error {
	body, err := json.Marshal(payload)
	if err != nil {
		return fmt.Errorf("encode a payload: %w", err)
	}
	message, err := json.Marshal(V1Frame{Type: kind, RequestID: id, Payload: body})
	if err != nil {
		return fmt.Errorf("encode a message: %w", err)
	}
	return c.push(v1Message{kind: websocket.TextMessage, bytes: message}, wait)
}

func (c *v1Conn) push(m v1Message, wait time.Duration) error {
	select {
	case <-c.gone: // before there is a choice
		return ErrClosed
	default:
	}
	select {
	case c.out <- m:
		return nil
	default:
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-c.gone:
		return ErrClosed
	case c.out <- m:
		return nil
	case <-timer.C:
		return errV1Stalled
	}
}

// stalled notes that a stream was aborted because nobody reads; the third one
// takes the connection with it.
func (c *v1Conn) stalled() {
	c.agent.change(func(s *V1State) { s.Stalls++ })
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stalls++; c.stalls >= v1MaxStalls {
		c.drop()
	}
}

func (c *v1Conn) read() error {
	for {
		_, message, err := c.ws.ReadMessage()
		if err != nil {
			return err
		}
		var f V1Frame
		if json.Unmarshal(message, &f) == nil {
			c.take(f)
		}
	}
}

func (c *v1Conn) take(f V1Frame) {
	a := c.agent
	a.change(func(*V1State) {
		if len(a.received) < maxHistory {
			a.received = append(a.received, f)
		}
	})
	switch f.Type {
	case "ack":
		c.onAck(f)
	case "inference":
		a.loops.Go(func() { c.infer(f) })
	case "verify", "benchmark":
		a.loops.Go(func() { c.task(f) })
	case "warmup":
		a.loops.Go(func() { c.warmUp(f) })
	case "error": // logged only
	default:
		a.change(func(s *V1State) { s.Unknown++ })
	}
}

// onAck takes any success for a registration, whatever it was the answer to.
func (c *v1Conn) onAck(f V1Frame) {
	var ack struct {
		Success bool `json:"success"`
	}
	if json.Unmarshal(f.Payload, &ack) != nil || !ack.Success {
		return
	}
	first := !c.agent.State().Registered
	if first {
		// Before anyone hears of the registration, so that nothing of theirs
		// comes earlier.
		// the connection may be gone
		_ = c.send("model_health_update", v1ID(), c.agent.health(nil), c.agent.opts.Timing.Patience)
	}
	c.agent.change(func(s *V1State) {
		c.agent.missed = 0
		s.Acks++
		s.Registered = true
		if first {
			s.Registrations++
		}
	})
}
