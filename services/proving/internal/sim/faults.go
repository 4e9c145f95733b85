package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"svc.internal/services/provider-hub/hubsim"
)

// Fault is one thing that goes wrong in a history.
type Fault struct {
	At   time.Duration `json:"at"`
	Kind string        `json:"kind"`
	// Which is the node among those of its kind, For the time, and N a further parameter
	// of the kind.
	Which int           `json:"which"`
	For   time.Duration `json:"for"`
	N     int           `json:"n"`
}

// String says it in one line.
func (f Fault) String() string {
	return fmt.Sprintf("%10.3fs %s (%d, for %v, n %d)", f.At.Seconds(), f.Kind, f.Which, f.For, f.N)
}

// kinds are all faults and what they do.
var kinds = []struct {
	name   string
	weight int
	strike func(n *network, f Fault)
}{
	{"gateway killed", 8, func(n *network, f Fault) {
		g := n.gateways[f.Which%len(n.gateways)]
		n.down(g.node, g.fall, g.rise, f)
	}},
	{"hub killed", 8, func(n *network, f Fault) {
		h := n.hubs[f.Which%len(n.hubs)]
		n.down(h.node, func() { h.fall(h.disk.Kill()) }, h.rise, f)
	}},
	{"hub loses power", 8, func(n *network, f Fault) {
		h := n.hubs[f.Which%len(n.hubs)]
		n.down(h.node, func() { h.fall(h.disk.Crash(n.world.dice)) }, h.rise, f)
	}},
	{"hub loses power at the disk", 10, func(n *network, f Fault) {
		if h := n.hubs[f.Which%len(n.hubs)]; h.up {
			h.dieAt = 1 + f.N
		}
	}},
	{"hub and volume lost", 3, func(n *network, f Fault) {
		h := n.hubs[f.Which%len(n.hubs)]
		n.down(h.node, func() {
			h.lost = true
			h.fall(hubsim.NewDisk())
		}, h.rise, f)
	}},
	{"agent killed", 6, func(n *network, f Fault) {
		a := n.agents[f.Which%len(n.agents)]
		n.down(a.node, a.crash, a.rise, f)
	}},
	{"socket cut", 10, func(n *network, f Fault) {
		if s := n.agents[f.Which%len(n.agents)].session; s != nil {
			s.cut()
		}
	}},
	{"billing killed", 6, func(n *network, f Fault) { n.down(n.ledger.node, n.ledger.fall, n.ledger.rise, f) }},
	{"billing dies at a commit", 10, func(n *network, f Fault) {
		n.ledger.dieIn, n.ledger.dieAfter = 1+f.N/2, f.N%2 == 0
	}},
	{"billing dies when it has told", 4, func(n *network, f Fault) { n.ledger.dieTold = 1 + f.N/4 }},
	{"gateway killed, billing when it has told", 6, func(n *network, f Fault) {
		g := n.gateways[f.Which%len(n.gateways)]
		n.down(g.node, g.fall, g.rise, f)
		n.ledger.dieTold = 1
	}},
	{"settlement killed", 4, func(n *network, f Fault) {
		n.down(n.settlement.node, n.settlement.fall, n.settlement.rise,
			f)
	}},
	{"database away", 4, func(n *network, f Fault) {
		n.down(n.db.node, func() { n.db.up = false },
			func() { n.db.up = true }, f)
	}},
	{"database flaky", 6, func(n *network, f Fault) {
		n.db.flaky = 300
		n.world.after(f.For, func() { n.db.flaky = 0 })
	}},
	{"NATS away", 6, func(n *network, f Fault) {
		n.down(n.nats.node, func() { n.nats.up = false }, func() { n.nats.up = true }, f)
	}},
	{"NATS wiped", 6, func(n *network, _ Fault) { n.nats.wipe() }},
	{"partition", 10, (*network).part},
	{"frozen", 8, func(n *network, f Fault) {
		x := n.any(f.Which)
		x.logf("frozen")
		x.frozen = n.world.now + f.For
		x.mute = max(x.mute, f.For)
	}},
	{"clock jumps", 6, func(n *network, f Fault) {
		x := n.any(f.Which)
		x.skew += time.Duration(f.N%3-1) * time.Hour
		for _, g := range n.gateways {
			if g.node == x && f.N%3 == 0 {
				g.setBack = append(g.setBack, n.world.now)
			}
		}
		x.logf("clock jumps to %v", x.skew)
	}},
	{"blackout", 3, func(n *network, f Fault) {
		n.nats.wipe()
		for i := range n.hubs {
			h := n.hubs[i]
			n.down(h.node, func() { h.fall(h.disk.Crash(n.world.dice)) }, h.rise, f)
		}
		for _, g := range n.gateways {
			n.down(g.node, g.fall, g.rise, f)
		}
		n.down(n.ledger.node, n.ledger.fall, n.ledger.rise, f)
		n.down(n.settlement.node, n.settlement.fall, n.settlement.rise, f)
	}},
}

// kindOf returns what a fault does.
func kindOf(name string) func(*network, Fault) {
	for _, k := range kinds {
		if k.name == name {
			return k.strike
		}
	}
	return func(n *network, f Fault) { n.fail("nobody knows the fault %q", f.Kind) }
}

// drawFaults decides what goes wrong within a time.
func drawFaults(dice *rand.Rand, within time.Duration) []Fault {
	sum := 0
	for _, k := range kinds {
		sum += k.weight
	}
	all := make([]Fault, dice.IntN(7))
	for i := range all {
		roll := dice.IntN(sum)
		name := ""
		for _, k := range kinds {
			if roll -= k.weight; roll < 0 {
				name = k.name
				break
			}
		}
		long := []time.Duration{2 * time.Second, 30 * time.Second, 3 * time.Minute, 20 * time.Minute}[dice.IntN(4)]
		all[i] = Fault{
			At: time.Duration(dice.Int64N(int64(within))), Kind: name, Which: dice.IntN(64),
			For: time.Duration(dice.Int64N(int64(long))) + time.Second, N: dice.IntN(24),
		}
	}
	return all
}

// down takes a node down for the time of a fault.
func (n *network) down(x *node, fall, rise func(), f Fault) {
	if !x.up {
		return
	}
	x.logf("%s", f.Kind)
	fall()
	n.world.after(f.For, rise)
}

// any is a node that may be frozen or have a clock of its own.
func (n *network) any(which int) *node {
	all := []*node{n.ledger.node, n.settlement.node, n.nats.node}
	for _, g := range n.gateways {
		all = append(all, g.node)
	}
	for _, h := range n.hubs {
		all = append(all, h.node)
	}
	for _, a := range n.agents {
		all = append(all, a.node)
	}
	return all[which%len(all)]
}

// part cuts two nodes off from each other.
func (n *network) part(f Fault) {
	h, g := n.hubs[f.N%len(n.hubs)], n.gateways[f.N/2%len(n.gateways)]
	pairs := [][2]*node{
		{g.node, h.node}, {g.node, n.ledger.node}, {h.node, n.nats.node}, {n.ledger.node, n.nats.node},
		{n.ledger.node, n.db.node}, {n.settlement.node, n.nats.node}, {n.agents[f.N%len(n.agents)].node, h.node},
	}
	pair := pairs[f.Which%len(pairs)]
	a, b := pair[0], pair[1]
	a.logf("cut off from %s", b.name)
	a.apart[b] = true
	if b == n.ledger.node {
		a.mute = max(a.mute, f.For)
	}
	n.world.after(f.For, func() {
		a.logf("reaches %s again", b.name)
		delete(a.apart, b)
	})
	n.breakCalls(a, b)
}

// keepAlive is the time after which the ends of a call notice that nothing passes any
// more.
const keepAlive = 20 * time.Second

// breakCalls ends the calls between two nodes that are cut off.
func (n *network) breakCalls(a, b *node) {
	for _, g := range n.gateways {
		for _, c := range g.calls {
			if !c.over && g.node == a && c.hub.node == b {
				c.lose()
			}
		}
	}
	for _, x := range n.agents {
		if s := x.session; s != nil && x.node == a && s.hub.node == b {
			n.world.after(keepAlive, s.cut)
		}
	}
}
