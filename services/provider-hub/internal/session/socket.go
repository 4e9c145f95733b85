package session

import (
	"errors"
	"io"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	"google.golang.org/protobuf/proto"
)

// socket is the transport of one session.
type socket struct {
	session *Session
	ws      *websocket.Conn
	out     *batchConn
	buffers *sync.Pool // of *[]byte, each of maxMessage bytes
}

// run serves the socket until it is closed.
func (c *socket) run() {
	s := c.session
	c.ws.SetReadLimit(maxMessage)
	c.ws.SetPingHandler(func(payload string) error { return orNil(s.onPing(payload)) })
	c.ws.SetPongHandler(func(string) error { return orNil(s.onPong()) })
	c.ws.SetCloseHandler(func(int, string) error { return nil })
	c.out.batch()
	s.begin()
	var writer sync.WaitGroup
	writer.Go(c.write)
	c.read()
	s.end()
	writer.Wait()
	c.out.Close()
}

// orNil keeps a nil *Closing from becoming an error that is not nil.
func orNil(why *Closing) error {
	if why == nil {
		return nil
	}
	return why
}

// read hands every message to the session until the socket fails or is closed.
func (c *socket) read() {
	for {
		kind, message, err := c.ws.NextReader()
		if err == nil && kind != websocket.BinaryMessage {
			c.session.Shut(protocolError("messages must be binary"))
		}
		if err == nil {
			err = c.take(message)
		}
		if err == nil {
			continue
		}
		var why *Closing
		if !errors.As(err, &why) {
			return
		}
		c.session.Shut(why)
		c.discard()
		return
	}
}

// discard reads on behind a refusal, so that the agent can read why, until
// either side closes. The library delivers nothing after a handler's error, so
// this reads the connection itself.
func (c *socket) discard() {
	buf := c.buffers.Get().(*[]byte)
	defer c.buffers.Put(buf)
	for {
		if _, err := c.ws.NetConn().Read(*buf); err != nil {
			return
		}
	}
}

// take reads one message into a shared buffer: an idle socket holds none.
func (c *socket) take(message io.Reader) error {
	buf := c.buffers.Get().(*[]byte)
	defer c.buffers.Put(buf)
	n := 0
	for {
		m, err := message.Read((*buf)[n:])
		n += m
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if n == len(*buf) {
			return protocolError("a message is larger than 64 KiB")
		}
	}
	c.session.counts.FramesIn.Add(1)
	if why := c.session.handle((*buf)[:n]); why != nil {
		c.session.Shut(why)
	}
	return nil
}

// liveness is the writer's account of pings.
type liveness struct {
	timer   *time.Timer
	waiting bool // for a pong
	misses  int
	last    time.Time // of the last ping
}

// minPing is the least pause between pings that requests ask for: many that
// wait on one agent need one answer.
const minPing = time.Second

// write sends what is due until the socket fails or is closed.
func (c *socket) write() {
	s := c.session
	live := &liveness{timer: time.NewTimer(s.cfg.PingInterval)}
	defer live.timer.Stop()
	var o outbox
	for {
		s.next(&o)
		if err := c.send(&o, live); err != nil {
			c.out.Close() // ends the reader too
			return
		}
		if o.closing != nil {
			c.linger(o.closing)
			return
		}
		if o.more {
			continue
		}
		select {
		case <-s.wake:
		case <-s.done:
			return
		case <-live.timer.C:
			if live.waiting {
				live.misses++
				live.waiting = false
			}
			if live.misses > 1 {
				c.out.Close()
				return
			}
			s.wantPing()
		}
	}
}

// linger keeps the socket open behind the Error frame, for the agent to read
// why it ends, and then closes it. An agent that may dial at once is not told
// of the close before the hold is over.
func (c *socket) linger(why *Closing) {
	defer c.out.Close()
	timer := time.NewTimer(why.Hold)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.session.done:
		return
	}
	bye := websocket.FormatCloseMessage(websocket.CloseNormalClosure, why.Code)
	if c.ws.WriteControl(websocket.CloseMessage, bye, time.Time{}) == nil {
		_ = c.out.flush(c.session.cfg.WriteTimeout) // the socket goes either way
	}
}

// send writes one batch.
func (c *socket) send(o *outbox, live *liveness) error {
	buf := c.buffers.Get().(*[]byte)
	defer c.buffers.Put(buf)
	for _, f := range o.frames {
		msg, err := proto.MarshalOptions{}.MarshalAppend((*buf)[:0], f)
		if err != nil {
			return err
		}
		if err := c.ws.WriteMessage(websocket.BinaryMessage, msg); err != nil {
			return err
		}
	}
	if err := c.sendLiveness(o, live); err != nil {
		return err
	}
	return c.out.flush(c.session.cfg.WriteTimeout)
}

// sendLiveness answers a ping and asks for one. While a pong is awaited no
// further ping goes out: a second question would not be answered sooner.
func (c *socket) sendLiveness(o *outbox, live *liveness) error {
	if o.pongDue {
		if err := c.ws.WriteControl(websocket.PongMessage, o.pong, time.Time{}); err != nil {
			return err
		}
	}
	if o.answered {
		live.waiting, live.misses = false, 0
		live.timer.Reset(c.session.cfg.PingInterval)
	}
	if !o.ping || live.waiting || time.Since(live.last) < minPing {
		return nil
	}
	live.waiting, live.last = true, time.Now()
	live.timer.Reset(c.session.cfg.PongTimeout)
	return c.ws.WriteControl(websocket.PingMessage, nil, time.Time{})
}

// wantPing makes the next batch carry a ping.
func (s *Session) wantPing() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.probe = true
}
