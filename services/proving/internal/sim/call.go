package sim

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/fault"
	hubv1 "svc.internal/proto/svc/hub/v1"
	"svc.internal/services/edge-gateway/gatewaysim"
	"svc.internal/services/provider-hub/hubsim"
)

// dispatchCall is one call of a gateway to a hub. It is the gateway's stream and the
// hub's peer. The network between them keeps the order of messages one way, until it
// breaks.
type dispatchCall struct {
	grpc.ClientStream

	gateway *gateway
	gwLife  int
	hub     *hub
	hubLife int
	task    *task
	ctx     context.Context //nolint:containedctx // it is the stream's

	opened   *hubv1.DispatchOpen
	up, down time.Duration // when the last message each way arrives
	broken   bool          // nothing arrives any more

	// The gateway's end.
	inbox   []*hubv1.DispatchResponse
	ended   error // behind the inbox
	outcome bool  // the outcome was received
	left    bool  // the end was received
	wake    func()
	hangUp  sync.Once
	hung    chan struct{}
	hungUp  bool // the hub was told
	cutOff  bool // likewise

	// The hub's end.
	attempt *hubsim.Attempt
	over    bool
	// committed reports that the hub has received the commit.
	committed bool
	said      bool // it has concluded the attempt
	session   *session
	slot      bool // it was given back
}

var _ hubv1.DispatchService_DispatchClient = (*dispatchCall)(nil)

// hubClient is a hub as a gateway's process sees it.
type hubClient struct {
	gateway *gateway
	hub     *hub
}

// Dispatch implements hubv1.DispatchServiceClient.
func (c hubClient) Dispatch(ctx context.Context, _ ...grpc.CallOption) (hubv1.DispatchService_DispatchClient, error) {
	g := c.gateway
	t := g.world.current
	if t.dead {
		return nil, errAway
	}
	call := &dispatchCall{
		gateway: g, gwLife: g.life, hub: c.hub, hubLife: c.hub.life, task: t, ctx: ctx, hung: make(chan struct{}),
	}
	t.call = call
	g.calls = append(g.calls, call)
	return call, nil
}

var errAway = fault.New(fault.Unavailable, fault.ServiceUnavailable, "the peer cannot be reached")

// Send implements the gateway's stream.
func (c *dispatchCall) Send(m *hubv1.DispatchRequest) error {
	if c.task.dead || c.ctx.Err() != nil || c.ended != nil {
		return io.EOF
	}
	if open := m.GetOpen(); open != nil {
		c.opened = proto.CloneOf(open)
		c.toHub(func() { c.hub.serve(c) })
		return nil
	}
	c.toHub(func() {
		if c.attempt != nil {
			c.committed = true
			c.attempt.Commit()
			c.hub.settle()
		}
	})
	return nil
}

// Recv implements the gateway's stream.
func (c *dispatchCall) Recv() (*hubv1.DispatchResponse, error) {
	for {
		c.observe()
		switch {
		case c.task.dead:
			c.left = true
			return nil, errAway
		case c.ctx.Err() != nil:
			c.left = true
			return nil, fault.Wrap(c.ctx.Err(), fault.Canceled, fault.ClientClosed, "canceled")
		case len(c.inbox) > 0:
			m := c.inbox[0]
			c.inbox = c.inbox[1:]
			c.outcome = c.outcome || m.GetEvent() == nil
			return m, nil
		case c.ended != nil:
			c.left = true
			return nil, c.ended
		}
		c.wake = c.task.arm()
		c.task.wait()
	}
}

// CloseSend implements the gateway's stream. It may be called from anywhere.
func (c *dispatchCall) CloseSend() error {
	c.hangUp.Do(func() { close(c.hung) })
	return nil
}

// observe passes on to the hub what the gateway did to the stream meanwhile.
func (c *dispatchCall) observe() {
	if c.task.dead {
		return
	}
	if !c.hungUp {
		select {
		case <-c.hung:
			c.hungUp = true
			c.toHub(func() {
				if c.attempt != nil {
					c.attempt.HangUp()
					c.hub.settle()
				}
			})
			c.gateway.after(gatewaysim.HangUp, func() { c.end(context.Canceled) })
		default:
		}
	}
	if c.ctx.Err() != nil && !c.cutOff {
		c.cutOff = true
		c.sever(false)
	}
}

// waits reports whether the end of the client's context must be passed to this stream
// from another goroutine.
func (c *dispatchCall) waits() bool {
	return !c.hungUp && c.ctx.Err() == nil && !c.outcome && !c.left
}

// sever ends the call at the hub's end as soon as the hub notices, which may be before
// the last messages; with loud, at the gateway's end too.
func (c *dispatchCall) sever(loud bool) {
	w := c.hub.world
	w.after(w.travel(), func() {
		c.broken = true
		c.hub.do(c.hubLife, func() {
			if c.attempt != nil {
				c.attempt.CutOff()
				c.hub.settle()
			}
		})
	})
	if loud {
		c.breakOff()
	}
}

// breakOff ends the call at the gateway's end.
func (c *dispatchCall) breakOff() {
	w := c.hub.world
	w.after(w.travel(), func() {
		c.broken = true
		c.end(errAway)
	})
}

// end is the end of the call for the gateway.
func (c *dispatchCall) end(err error) {
	c.gateway.do(c.gwLife, func() {
		if c.ended == nil {
			c.ended = err
			c.rouse()
		}
	})
}

func (c *dispatchCall) rouse() {
	if c.wake != nil {
		c.wake()
	}
}

// lose ends a call through which nothing passes any more.
func (c *dispatchCall) lose() {
	if !c.broken {
		c.broken = true
		c.hub.world.after(keepAlive, func() { c.sever(true) })
	}
}

func (c *dispatchCall) toHub(do func()) {
	w := c.hub.world
	c.up = max(c.up, w.now+w.travel())
	w.after(c.up-w.now, func() {
		switch {
		case c.broken:
		case !c.hub.up || c.hub.life != c.hubLife:
			c.breakOff()
		case c.hub.parted(c.gateway.node):
			c.lose()
		default:
			c.hub.do(c.hubLife, func() {
				if !c.over && !c.broken {
					do()
				}
			})
		}
	})
}

// dead reports whether the hub's process has died.
func (c *dispatchCall) dead() bool { return !c.hub.up || c.hub.life != c.hubLife }

func (c *dispatchCall) toGateway(do func()) {
	w := c.hub.world
	c.down = max(c.down, w.now+w.travel())
	w.after(c.down-w.now, func() {
		if c.broken {
			return
		}
		if c.hub.parted(c.gateway.node) {
			c.lose()
			return
		}
		c.gateway.do(c.gwLife, func() {
			if c.ended == nil && !c.broken {
				do()
			}
		})
	})
}

func (c *dispatchCall) tell(m *hubv1.DispatchResponse) error {
	if c.dead() || c.broken {
		return errAway
	}
	c.toGateway(func() {
		c.inbox = append(c.inbox, m)
		c.rouse()
	})
	return nil
}

// Event implements hubsim.Peer, as the following methods do.
func (c *dispatchCall) Event(e hubsim.Event) error {
	return c.tell(&hubv1.DispatchResponse{Message: &hubv1.DispatchResponse_Event{Event: &hubv1.DispatchEvent{
		Json: slices.Clone(e.JSON), FirstContent: e.FirstContent, CompletionTokens: e.Tokens, More: e.More,
	}}})
}

// Finished implements hubsim.Peer.
func (c *dispatchCall) Finished(prompt, completion int64) error {
	if !c.dead() {
		c.said = true
		c.hub.logf("finished %s: %d + %d", c.opened.GetRequestId(), prompt, completion)
	}
	return c.tell(&hubv1.DispatchResponse{Message: &hubv1.DispatchResponse_Finished{
		Finished: &hubv1.DispatchFinished{BillablePromptTokens: prompt, BillableCompletionTokens: completion},
	}})
}

// Failed implements hubsim.Peer.
func (c *dispatchCall) Failed(f hubsim.Failure) error {
	if !c.dead() {
		c.said = true
		c.hub.logf("failed %s: %s", c.opened.GetRequestId(), f.Message)
	}
	return c.tell(&hubv1.DispatchResponse{Message: &hubv1.DispatchResponse_Failed{Failed: &hubv1.DispatchFailed{
		Retryable: f.Retryable, Code: f.Code, EngineStatus: int32(f.EngineStatus), Message: f.Message, Busy: f.Busy,
		EngineType: f.EngineType, EngineParam: f.EngineParam, EngineCode: f.EngineCode,
	}}})
}

// Ended implements hubsim.Peer.
func (c *dispatchCall) Ended(err error) {
	c.over = true
	if c.dead() {
		return
	}
	c.said = true
	h := c.hub
	h.calls = slices.DeleteFunc(h.calls, func(other *dispatchCall) bool { return other == c })
	if err == nil {
		err = io.EOF
	}
	if !errors.Is(err, io.EOF) {
		h.logf("call of %s ends: %v", c.opened.GetRequestId(), err)
	}
	c.toGateway(func() { c.end(err) })
}

// Cancel implements hubsim.Peer.
func (c *dispatchCall) Cancel() {
	if s := c.session; s != nil && !c.dead() {
		s.toAgent(func() {
			for _, r := range s.agent.runs {
				if r.call == c {
					s.agent.cancel(r)
				}
			}
		})
	}
}

// Closed implements hubsim.Peer.
func (c *dispatchCall) Closed(cancel bool) {
	if c.dead() {
		return
	}
	if cancel {
		c.Cancel()
	}
	c.hub.after(5*time.Second, c.leave)
}

// leave frees the slot of the session.
func (c *dispatchCall) leave() {
	if s := c.session; s != nil && !c.slot {
		c.slot = true
		s.busy--
		s.calls = slices.DeleteFunc(s.calls, func(other *dispatchCall) bool { return other == c })
	}
}
