package fakeagent

import (
	"fmt"

	"svc.internal/pkg/agentwire"
	"svc.internal/pkg/agentwire/frame"
	agentv2 "svc.internal/proto/svc/agent/v2"
)

func (a *Agent) read() {
	defer a.end()
	for {
		_, message, err := a.ws.ReadMessage()
		if err != nil {
			return
		}
		f, err := frame.Read(message)
		if err != nil {
			a.blame(fmt.Errorf("the hub sent no frame: %w", err))
			return
		}
		a.take(f)
	}
}

// end wakes everyone who waits, because nothing more will arrive.
func (a *Agent) end() {
	a.Kill()
	a.mu.Lock()
	defer a.mu.Unlock()
	close(a.closed)
	for _, r := range a.streams {
		r.cancel()
	}
}

func (a *Agent) blame(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fault == nil {
		a.fault = err
	}
}

func (a *Agent) take(f *agentv2.Frame) {
	a.mu.Lock()
	if len(a.history) < maxHistory {
		a.history = append(a.history, f)
	}
	if due := counter(a.seqIn, f.GetStream()); !due.Follows(f.GetSeq()) && a.fault == nil {
		a.fault = fmt.Errorf("stream %d: frame %d came where %d was due", f.GetStream(), f.GetSeq(), *due)
	}
	r := a.streams[f.GetStream()]
	a.mu.Unlock()
	if f.GetStream() == 0 {
		a.onConnection(f)
		return
	}
	a.onStream(r, f)
}

func (a *Agent) onConnection(f *agentv2.Frame) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch body := f.GetBody().(type) {
	case *agentv2.Frame_RegisterAck:
		a.ack = body.RegisterAck
		a.registry <- body.RegisterAck
	case *agentv2.Frame_HeartbeatAck:
		a.acks++
		close(a.onAck)
		a.onAck = make(chan struct{})
	case *agentv2.Frame_Window:
		a.grantLocked(&a.credit, body.Window)
		a.wakeAllLocked()
	case *agentv2.Frame_Drain:
		if a.drain == nil {
			a.drain = body.Drain
			close(a.drained)
		}
	case *agentv2.Frame_Challenge:
		a.onChallenge(body.Challenge)
	case *agentv2.Frame_Error:
		a.farewell = body.Error
	}
}

// onChallenge replies to a challenge, or leaves it to the test.
func (a *Agent) onChallenge(c *agentv2.Challenge) {
	if a.opts.Fingerprint == nil {
		select {
		case a.asked <- c:
		default: // the test looks at none of them
		}
		return
	}
	a.loops.Go(func() {
		if r := a.opts.Fingerprint(c); r != nil {
			_ = a.SendResult(r) // the hub may be gone
		}
	})
}

// grantLocked adds to a credit.
func (a *Agent) grantLocked(credit *agentwire.Credit, w *agentv2.Window) {
	if !credit.Grant(w.GetBytes()) && a.fault == nil {
		a.fault = fmt.Errorf("the hub granted %d bytes, which are more credit than a window can hold", w.GetBytes())
	}
}

// wakeAllLocked lets everyone who waits for credit look again.
func (a *Agent) wakeAllLocked() {
	close(a.changed)
	a.changed = make(chan struct{})
}

func (a *Agent) onStream(r *Request, f *agentv2.Frame) {
	switch body := f.GetBody().(type) {
	case *agentv2.Frame_Open:
		r = newRequest(a, f.GetStream(), body.Open)
		a.mu.Lock()
		a.streams[f.GetStream()] = r
		a.mu.Unlock()
	case *agentv2.Frame_Data:
		if r != nil {
			a.onBody(r, body.Data)
		}
	case *agentv2.Frame_Window:
		a.mu.Lock()
		defer a.mu.Unlock()
		if r != nil {
			a.grantLocked(&r.credit, body.Window)
		}
		a.wakeAllLocked()
	case *agentv2.Frame_Cancel:
		if r != nil {
			r.cancel()
		}
	case *agentv2.Frame_Error:
		if r != nil {
			r.fail(body.Error)
		}
	}
}

func (a *Agent) onBody(r *Request, d *agentv2.Data) {
	r.Body = append(r.Body, d.GetData()...)
	if n := uint32(len(d.GetData())); n > 0 && !a.opts.NoGrants {
		for _, stream := range []uint32{0, r.stream} {
			_ = a.Send(frame.Window(stream, 0, n))
		}
	}
	if !d.GetFin() {
		return
	}
	if a.opts.Handler != nil {
		a.loops.Go(func() { a.opts.Handler(r) })
		return
	}
	select {
	case a.requests <- r:
	default: // the test looks at none of them
	}
}
