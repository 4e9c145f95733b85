package fakeagent

import (
	"errors"
	"strings"
	"time"

	"github.com/gorilla/websocket"
)

// live is the process: the status, the first dial, and then one connection
// after another until it is stopped or has lost its way for ever.
func (a *V1) live() {
	if !a.mayConnect() {
		a.die(ErrV1Refused)
		return
	}
	ws, err := a.dial()
	if err != nil {
		a.change(func(s *V1State) { s.Refusals++ })
		a.die(ErrV1FirstDial)
		return
	}
	a.beats = time.NewTicker(a.opts.Timing.Heartbeat) // one for the whole process
	defer a.beats.Stop()
	for young := 0; ws != nil; ws = a.redial() {
		life := newV1Conn(a, ws).serve()
		if a.ctx.Err() != nil {
			break
		}
		if young++; life.Age() >= a.opts.Timing.Young {
			young = 0
		}
		if young >= a.opts.GuardAfter {
			a.die(ErrV1Guard)
			return
		}
	}
	a.die(ErrV1Stopped)
}

// redial comes back at once, and more slowly each time that the dial itself is
// refused. It returns nil once the agent is stopped.
func (a *V1) redial() *websocket.Conn {
	wait := a.opts.Timing.Reconnect
	for refused := 0; ; refused++ {
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-a.ctx.Done():
			timer.Stop()
			return nil
		}
		ws, err := a.dial()
		if err == nil {
			return ws
		}
		a.change(func(s *V1State) { s.Refusals++ })
		wait = a.opts.Timing.Backoff[min(refused, len(a.opts.Timing.Backoff)-1)]
	}
}

// dial upgrades without a subprotocol and without credentials. A configured
// path is kept.
func (a *V1) dial() (*websocket.Conn, error) {
	dialer := websocket.Dialer{HandshakeTimeout: a.opts.Timing.Handshake, NetDialContext: a.opts.NetDial}
	ws, answer, err := dialer.DialContext(a.ctx, strings.TrimSuffix(a.opts.URL, "/")+"/ws", nil)
	if err != nil {
		if answer != nil {
			answer.Body.Close()
		}
		return nil, err
	}
	return ws, nil
}

func (a *V1) die(why error) {
	if a.ctx.Err() != nil {
		why = ErrV1Stopped
	}
	a.change(func(s *V1State) { s.Dead = why })
}

// begin makes c the connection there is.
func (a *V1) begin(c *v1Conn) {
	a.change(func(s *V1State) {
		a.conn, a.missed = c, 0
		s.Connected, s.Registered = true, false
		s.Upgrades++
	})
}

// end notes how c ended.
func (a *V1) end(c *v1Conn, err error) V1Life {
	life := V1Life{Opened: c.opened, Ended: time.Now()}
	var closed *websocket.CloseError
	if errors.As(err, &closed) {
		life.Code, life.Text = closed.Code, closed.Text
	}
	a.change(func(s *V1State) {
		life.Registered = s.Registered
		a.conn = nil
		s.Connected, s.Registered = false, false
		if len(s.Lives) < maxHistory {
			s.Lives = append(s.Lives, life)
		}
	})
	return life
}
