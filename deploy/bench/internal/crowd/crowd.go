// Package crowd is many providers' agents in one process that do nothing but
// stay connected: they register, send heartbeats, answer pings and come back by
// the rules of their dialect when they are cut off. They take no requests.
//
// An agent is one goroutine, a socket with 512 bytes of read buffer and two
// prepared messages. Each connects from a loopback address of its own, as
// agents of different owners do, or the hub's limits for one network would be
// measured instead of the hub. Heartbeats are sent by one goroutine for all,
// spread evenly over their interval.
//
// 10,000 agents need as many open files, and a few more.
package crowd

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// Dialect is how an agent speaks.
type Dialect uint8

// The dialects. A Bare agent makes the WebSocket handshake, says nothing and
// does not come back.
const (
	V1 Dialect = iota + 1
	V2
	Bare
)

// Member says who one agent is.
type Member struct {
	Dialect Dialect
	Key     string
	Node    string
	Models  []string
}

// Status counts the agents.
type Status struct {
	// Registered are acknowledged and connected, at this moment.
	Registered int `json:"registered"`
	// Registrations, Refusals and Losses count since the start: acknowledged
	// registrations, dials that were refused or failed, and connections that
	// ended without having been cut off by Cut.
	Registrations int `json:"registrations"`
	Refusals      int `json:"refusals"`
	Losses        int `json:"losses"`
	// Fault is the first failure of all, for people.
	Fault string `json:"fault,omitempty"`
}

// Crowd is agents that share a hub. It is safe for concurrent use.
type Crowd struct {
	url    string
	agents []*agent
	stop   context.CancelFunc
	loops  sync.WaitGroup
	// writeBuffers are shared by all sockets: few write at a time.
	writeBuffers sync.Pool

	registered, registrations, refusals, losses atomic.Int64
	fault                                       atomic.Pointer[string]
}

// Start dials with one agent for each member, rate of them a second, and
// returns at once. Agents whose first dial fails try again by their rules.
func Start(url string, members []Member, rate int) *Crowd {
	ctx, stop := context.WithCancel(context.Background())
	c := &Crowd{url: url, stop: stop}
	for i, m := range members {
		c.agents = append(c.agents, newAgent(c, m, address(i)))
	}
	c.loops.Go(func() { c.launch(ctx, rate) })
	c.loops.Go(func() { c.beat(ctx) })
	return c
}

// address is the loopback address of an agent, none of them 127.0.0.x.
func address(i int) netip.Addr {
	i++
	return netip.AddrFrom4([4]byte{127, byte(1 + i>>16), byte(i >> 8), byte(i)})
}

// launchStep is how often agents are started.
const launchStep = 10 * time.Millisecond

func (c *Crowd) launch(ctx context.Context, rate int) {
	tick := time.NewTicker(launchStep)
	defer tick.Stop()
	began, next := time.Now(), 0
	for next < len(c.agents) {
		due := int(float64(rate)*time.Since(began).Seconds()) + 1
		for ; next < min(due, len(c.agents)); next++ {
			a := c.agents[next]
			c.loops.Go(func() { a.live(ctx) })
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// Status is how things stand.
func (c *Crowd) Status() Status {
	s := Status{
		Registered: int(c.registered.Load()), Registrations: int(c.registrations.Load()),
		Refusals: int(c.refusals.Load()), Losses: int(c.losses.Load()),
	}
	if text := c.fault.Load(); text != nil {
		s.Fault = *text
	}
	return s
}

// Cut breaks every connection at once with a reset. The agents come back by
// their rules.
func (c *Crowd) Cut() {
	for _, a := range c.agents {
		a.reset()
	}
}

// Close ends all agents and waits for them.
func (c *Crowd) Close() {
	c.stop()
	for _, a := range c.agents {
		a.reset()
	}
	c.loops.Wait()
}

func (c *Crowd) blame(err error) {
	text := err.Error()
	c.fault.CompareAndSwap(nil, &text)
}

// slots is how many parts an interval of heartbeats has.
const slots = 100

// beat sends the heartbeats of all agents, in a hundredth of the interval those
// of a hundredth of the agents.
func (c *Crowd) beat(ctx context.Context) {
	tick := time.NewTicker(beatV2 / slots)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		for i, a := range c.agents {
			a.onTick(i, n)
		}
	}
}

// Members are n agents of the keys in turn, the first of them with v1, the rest
// with v2. Each offers two of the models.
func Members(n, v1 int, keys, models []string) ([]Member, error) {
	if len(keys) == 0 || len(models) == 0 {
		return nil, fmt.Errorf("%d keys and %d models for %d agents", len(keys), len(models), n)
	}
	members := make([]Member, n)
	for i := range members {
		// Dialects take turns, so that both are among the first members.
		speaks := V2
		if (i+1)*v1/n > i*v1/n {
			speaks = V1
		}
		offers := []string{models[i%len(models)]}
		if other := models[(i+1)%len(models)]; other != offers[0] {
			offers = append(offers, other)
		}
		node := fmt.Sprintf("crowd-%06d", i)
		if speaks == V1 {
			node = fmt.Sprintf("04%0128x", i) // they give a public key
		}
		members[i] = Member{Dialect: speaks, Key: keys[i%len(keys)], Node: node, Models: offers}
	}
	return members, nil
}
