package sim

import (
	"context"
	"time"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/ids"
	"svc.internal/services/provider-hub/hubsim"
)

// hub is a machine with a disk and a process of provider-hub on it.
type hub struct {
	*node
	net      *network
	disk     hubsim.Disk
	hub      *hubsim.Hub
	conn     *conn
	sessions map[ids.ProviderID]*session
	calls    []*dispatchCall
	// opening is the call whose order is being opened.
	opening *dispatchCall
	poked   bool
	sweeps  bool
	// dieAt is the operation of the disk at which the machine loses power; 0 for never.
	// The state of the disk is taken when the step under way has ended.
	dieAt   int
	remains struct {
		disk hubsim.Disk
		dead bool
	}
	// lost reports that its volume was lost once.
	lost bool
}

// start starts a process on the content of the disk.
func (h *hub) start() {
	h.life++
	h.up, h.poked, h.sweeps = true, false, false
	h.sessions, h.calls = map[ids.ProviderID]*session{}, nil
	h.conn = &conn{nats: h.net.nats, from: h.node, life: h.life}
	life := h.life
	h.disk.Before(func(op string) { h.disked(life, op) })
	opened, err := hubsim.Open(h.name, h.disk, h.conn, h.node, &sessions{h, life}, h.net.cfg.NoFsync)
	if err != nil {
		h.net.fail("%s cannot open its journal: %v", h.name, err)
		h.up = false
		return
	}
	h.hub = opened
	waiting, open, final := opened.Unsettled()
	h.logf("starts with %d unsettled (%d open, %d final in the journal)", waiting, open, final)
	h.after(h.world.travel(), func() {
		opened.Earlier(context.Background())
		h.poke()
	})
	h.settle()
}

// disked is called for each operation of the disk.
func (h *hub) disked(life int, op string) {
	if h.life != life || h.dieAt == 0 || h.remains.dead {
		return
	}
	if h.dieAt--; h.dieAt == 0 {
		// Everything that the process does from now on reaches nobody.
		h.logf("loses power in front of %s", op)
		h.remains.disk, h.remains.dead = h.disk.Crash(h.world.dice), true
		h.up = false
	}
}

// settle ends a hub that lost power while it worked, and looks for due work.
func (h *hub) settle() {
	if h.remains.dead {
		disk := h.remains.disk
		h.remains.dead = false
		h.fall(disk)
		h.world.after(h.world.between(time.Second, 20*time.Second), h.rise)
		return
	}
	h.poke()
}

// rise starts a hub that is down.
func (h *hub) rise() {
	if !h.up {
		h.start()
	}
}

// fall ends the process. The next one finds disk.
func (h *hub) fall(disk hubsim.Disk) {
	h.up = false
	calls := h.calls
	h.calls = nil
	h.life++
	h.hub.Abort()
	for _, c := range calls {
		if c.attempt != nil {
			c.attempt.Unwind()
		}
	}
	for _, g := range h.net.gateways {
		for _, c := range g.calls {
			if c.hub == h && c.hubLife == h.life-1 && !c.left {
				c.breakOff()
			}
		}
	}
	for _, s := range h.sessions {
		s.open = false
	}
	for _, a := range h.net.agents { // in a fixed order
		if s := a.session; s != nil && s.hub == h {
			h.world.after(h.world.travel(), func() { a.lose(s) })
		}
	}
	h.disk = disk
}

// poke schedules the journal's writer, the publisher and the sweeps.
func (h *hub) poke() {
	if !h.poked && h.up {
		h.poked = true
		h.after(h.world.between(0, 3*time.Millisecond), func() {
			h.poked = false
			h.hub.Step()
			h.hub.Publish(context.Background())
			if h.remains.dead {
				h.settle()
				return
			}
			h.sweep()
		})
	}
}

func (h *hub) sweep() {
	if waiting, _, _ := h.hub.Unsettled(); waiting == 0 || h.sweeps {
		return
	}
	h.sweeps = true
	h.after(hubsim.SweepInterval, func() {
		h.sweeps = false
		h.hub.Sweep(context.Background())
		h.settle()
		if h.up {
			h.sweep()
		}
	})
}

// notice takes a notice of settled requests.
func (h *hub) notice(m bus.Message) {
	if err := h.hub.OnSettled(m.Data); err != nil {
		h.logf("notice: %v", err)
	}
	h.settle()
}

// serve begins the order of a call.
func (h *hub) serve(c *dispatchCall) {
	o, err := hubsim.OrderOf(c.opened)
	if err != nil {
		c.Ended(err)
		return
	}
	h.calls = append(h.calls, c)
	h.opening = c
	h.logf("serves %s/%d", o.Request, o.Attempt)
	attempt := h.hub.Serve(o, c)
	c.attempt = attempt
	h.opening = nil
	h.settle()
}

// sessions is the hub's world.
type sessions struct {
	hub  *hub
	life int
}

// Bound implements hubsim.World.
func (s *sessions) Bound(o *hubsim.Order) bool {
	found := s.hub.sessions[o.Provider]
	return found != nil && found.open && found.epoch == o.Epoch
}

// External implements hubsim.World.
func (s *sessions) External(o *hubsim.Order) bool { return s.hub.sessions[o.Provider].agent.external }

// OpenStream implements hubsim.World.
func (s *sessions) OpenStream(a *hubsim.Attempt) error {
	found, c := s.hub.sessions[a.Order.Provider], s.hub.opening
	if found.busy >= capacity {
		return hubsim.ErrBusy
	}
	found.busy++
	c.session, c.attempt = found, a
	found.calls = append(found.calls, c)
	found.toAgent(func() { found.agent.begin(found, c) })
	return nil
}

// After implements hubsim.World.
func (s *sessions) After(d time.Duration, f func()) hubsim.Timer {
	t := &alarm{hub: s.hub, life: s.life, do: f}
	t.Reset(d)
	return t
}

// alarm is a timer of a hub's process.
type alarm struct {
	hub  *hub
	life int
	do   func()
	set  *event
}

// Stop implements hubsim.Timer.
func (t *alarm) Stop() bool {
	was := t.set != nil
	if was {
		t.set.do = nil
		t.set = nil
	}
	return was
}

// Reset implements hubsim.Timer.
func (t *alarm) Reset(d time.Duration) bool {
	was := t.Stop()
	if t.hub.life != t.life || !t.hub.up {
		return was
	}
	var e *event
	e = t.hub.world.after(d, func() {
		if t.set != e {
			return
		}
		t.set = nil
		t.hub.do(t.life, func() {
			t.do()
			t.hub.settle()
		})
	})
	t.set = e
	return was
}
