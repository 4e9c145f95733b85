// Package link puts TCP proxies between the processes of a fleet, one for each pair of
// processes that talk, so that a harness can cut or stall the network between two of them
// while both live.
//
// A cut resets every connection of a link and refuses new ones by resetting them at once.
// A stall keeps connections open, takes new ones and passes nothing on. When it ends,
// everything that was sent arrives in order.
//
// Limits: loopback only. A link that is stalled buffers what the kernel does and one read
// of at most 32 KiB for each direction.
package link

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
)

// Net is all links of a fleet. It is safe for concurrent use.
type Net struct {
	mu    sync.Mutex
	links map[pair]*link
	wg    sync.WaitGroup
}

// pair names the processes at the ends of a link. from is empty where everybody who dials
// to uses the same link.
type pair struct{ from, to, address string }

// New is a net without links.
func New() *Net { return &Net{links: map[pair]*link{}} }

// Via starts a proxy from one process to another at address, and returns the address at
// which the proxy listens. It is made for fleet.Config.Via.
func (n *Net) Via(from, to, address string) (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	key := pair{from, to, address}
	if l := n.links[key]; l != nil {
		return l.lis.Addr().String(), nil
	}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("proxy between %s and %s: %w", from, to, err)
	}
	l := &link{lis: lis, target: address, conns: map[*net.TCPConn]struct{}{}}
	l.moved = sync.NewCond(&l.mu)
	n.links[key] = l
	n.wg.Go(func() { l.accept(&n.wg) })
	return lis.Addr().String(), nil
}

// choose picks all links from the processes of one program to those of another, or the
// links of one pair of processes.
func (n *Net) choose(fromProgram, toProgram string, all bool, pick int) []*link {
	n.mu.Lock()
	defer n.mu.Unlock()
	var names []string
	found := map[string][]*link{}
	for key, l := range n.links {
		if program(key.from) != fromProgram || program(key.to) != toProgram {
			continue
		}
		name := key.from + ">" + key.to
		if found[name] == nil {
			names = append(names, name)
		}
		found[name] = append(found[name], l)
	}
	if len(names) == 0 {
		return nil
	}
	if all {
		return slices.Concat(slices.Collect(maps.Values(found))...)
	}
	slices.Sort(names)
	return found[names[pick%len(names)]]
}

// Hurt is a set of links that are cut or stalled.
type Hurt struct {
	links []*link
	undo  func(*link)
}

// Links is the number of links.
func (h *Hurt) Links() int { return len(h.links) }

// Mend makes the links pass everything again. A second call is harmless.
func (h *Hurt) Mend() {
	for _, l := range h.links {
		h.undo(l)
	}
	h.links = nil
}

// Cut cuts the links between the processes of two programs: all links, or the links
// between the two processes that pick chooses. from is empty for links that everybody
// uses.
func (n *Net) Cut(from, to string, all bool, pick int) *Hurt {
	h := &Hurt{links: n.choose(from, to, all, pick), undo: func(l *link) { l.set(&l.cut, -1) }}
	for _, l := range h.links {
		l.set(&l.cut, 1)
		l.reset()
	}
	return h
}

// Stall makes links pass nothing on. They are chosen as in Cut.
func (n *Net) Stall(from, to string, all bool, pick int) *Hurt {
	h := &Hurt{links: n.choose(from, to, all, pick), undo: func(l *link) { l.set(&l.stalled, -1) }}
	for _, l := range h.links {
		l.set(&l.stalled, 1)
	}
	return h
}

// Close ends all links and returns when they have ended.
func (n *Net) Close() error {
	n.mu.Lock()
	var errs []error
	for _, l := range n.links {
		errs = append(errs, l.lis.Close())
		l.mu.Lock()
		l.closed = true
		l.moved.Broadcast()
		l.mu.Unlock()
		l.reset()
	}
	n.mu.Unlock()
	n.wg.Wait()
	return errors.Join(errs...)
}

// program is the catalog of catalog-1.
func program(name string) string {
	if i := strings.LastIndexByte(name, '-'); i >= 0 {
		return name[:i]
	}
	return name
}

// link is one proxy.
type link struct {
	lis    net.Listener
	target string

	mu           sync.Mutex
	moved        *sync.Cond // signals that a stall or the link has ended
	cut, stalled int        // how many faults ask for it
	closed       bool
	conns        map[*net.TCPConn]struct{}
}

func (l *link) set(counter *int, by int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	*counter += by
	l.moved.Broadcast()
}

func (l *link) accept(wg *sync.WaitGroup) {
	for {
		conn, err := l.lis.Accept()
		if err != nil {
			return
		}
		wg.Go(func() { l.serve(conn.(*net.TCPConn)) })
	}
}

// enter adds a connection, unless the link is cut or has ended.
func (l *link) enter(conn *net.TCPConn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.cut > 0 {
		return false
	}
	l.conns[conn] = struct{}{}
	return true
}

func (l *link) leave(conn *net.TCPConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, conn)
}

// reset ends all connections so that both sides see them reset.
func (l *link) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for conn := range l.conns {
		abort(conn)
	}
}

func abort(conn *net.TCPConn) {
	_ = conn.SetLinger(0) // a closed connection needs none
	_ = conn.Close()
}

// serve passes bytes between a connection and a connection of its own to the target.
func (l *link) serve(near *net.TCPConn) {
	defer abort(near)
	if !l.enter(near) {
		return
	}
	defer l.leave(near)
	dialled, err := net.Dial("tcp", l.target)
	if err != nil {
		return // the dialling side sees a reset, which is as good as a refusal
	}
	far := dialled.(*net.TCPConn)
	defer abort(far)
	if !l.enter(far) {
		return
	}
	defer l.leave(far)
	var wg sync.WaitGroup
	wg.Go(func() { l.pass(far, near) })
	wg.Go(func() { l.pass(near, far) })
	wg.Wait()
}

// pass copies until one side ends. An end in order is passed on as such; any other end
// resets both connections.
func (l *link) pass(to, from *net.TCPConn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		l.awaitFlow()
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				abort(from)
				return
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			_ = to.CloseWrite() // it may be closed
			return
		case err != nil:
			abort(to)
			return
		}
	}
}

// awaitFlow returns when nothing stalls the link.
func (l *link) awaitFlow() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.stalled > 0 && !l.closed {
		l.moved.Wait()
	}
}
