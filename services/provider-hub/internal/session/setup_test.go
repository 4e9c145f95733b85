package session

import (
	"context"
	"crypto/rand"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	agentv2 "svc.internal/proto/svc/agent/v2"
)

// desk is a registrar without a database: any key but "bad" is good.
type desk struct {
	mu      sync.Mutex
	epoch   int64
	joined  []*Session
	left    int
	touched int
	wait    chan struct{} // when set, admissions wait for it
	shown   []Credential  // what was looked up
	failing int           // how many look-ups still fail
	warning string
	warmed  []Warmed
	broken  bool // Touch panics
}

func (d *desk) Check(c Credential) error {
	if c.Key == "malformed" {
		return fault.New(fault.Unauthenticated, fault.InvalidAPIKey, "this is no provider key")
	}
	return nil
}

func (d *desk) Admit(ctx context.Context, shown Credential) (Grant, error) {
	if d.wait != nil {
		select {
		case <-d.wait:
		case <-ctx.Done():
			return Grant{}, ctx.Err()
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.shown = append(d.shown, shown)
	if d.failing > 0 {
		d.failing--
		return Grant{}, io.ErrUnexpectedEOF
	}
	switch shown.Key {
	case "bad":
		return Grant{}, fault.New(fault.Unauthenticated, fault.InvalidAPIKey, "this is no provider key")
	case "down":
		return Grant{}, io.ErrUnexpectedEOF
	}
	d.epoch++
	return Grant{ProviderID: ids.ProviderID{1}, ProviderName: "Farm", Status: "active", Active: true, Epoch: d.epoch}, nil
}

func (d *desk) Join(s *Session) (warning string, why *Closing) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.joined = append(d.joined, s)
	return d.warning, nil
}

func (d *desk) Warmed(_ *Session, w Warmed) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.warmed = append(d.warmed, w)
}

func (d *desk) Leave(*Session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.left++
}

func (d *desk) Touch(*Session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.broken {
		panic("the registrar is broken")
	}
	d.touched++
}

func (d *desk) session(t testing.TB) *Session {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.joined) == 0 {
		t.Fatal("no session has joined")
	}
	return d.joined[len(d.joined)-1]
}

// pipes is a listener over in-memory pipes, which testing/synctest can wait
// on.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error { p.once.Do(func() { close(p.closed) }); return nil }

func (p *pipes) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case p.conns <- far:
		return near, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// endpoint is a Server over pipes.
type endpoint struct {
	server *Server
	desk   *desk
	pipes  *pipes
	counts *Counts
}

func serveSessions(t testing.TB, cfg Config) *endpoint {
	t.Helper()
	e := holdSessions(t, cfg)
	e.server.Accept()
	return e
}

// holdSessions is a Server that does not accept yet.
func holdSessions(t testing.TB, cfg Config) *endpoint {
	t.Helper()
	e := &endpoint{desk: &desk{}, pipes: &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}, counts: &Counts{}}
	e.server = NewServer(cfg, Deps{
		Registrar: e.desk, Clock: clock.System, Log: slog.New(slog.DiscardHandler), Counts: e.counts,
	})
	h := &http.Server{Handler: e.server}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = h.Serve(e.pipes)
	}()
	t.Cleanup(func() {
		if err := e.server.Close(context.Background()); err != nil {
			t.Error(err)
		}
		_ = h.Close()
		<-done
	})
	return e
}

// fresh is a session without a socket that is not registered.
func fresh(cfg Config, speak func(*Session) (dialect, terms)) *Session {
	h := newHouse(cfg.WithDefaults(), Deps{Registrar: &desk{}, Clock: clock.System, Counts: &Counts{}})
	h.queue.open()
	return freshIn(h, speak)
}

// freshIn is one of several sessions of a house.
func freshIn(h *house, speak func(*Session) (dialect, terms)) *Session {
	h.door.enter(netip.Addr{})
	s := newSession(h, speak, netip.Addr{})
	s.begin()
	return s
}

// live is a registered session without a socket, for the state machine alone.
func live(t testing.TB, cfg Config, models ...string) *Session {
	t.Helper()
	return registered(t, fresh(cfg, speakV2), models...)
}

// liveIn is one of several live sessions of a house.
func liveIn(t testing.TB, h *house, models ...string) *Session {
	t.Helper()
	return registered(t, freshIn(h, speakV2), models...)
}

func registered(t testing.TB, s *Session, models ...string) *Session {
	t.Helper()
	register := &agentv2.Register{Token: "good", NodeId: "node-0001"}
	for _, m := range models {
		register.Models = append(register.Models, &agentv2.ModelOffer{ModelId: m, Healthy: true})
	}
	if why := s.wire.receive(encode(t, &agentv2.Frame{Seq: 1, Body: &agentv2.Frame_Register{Register: register}})); why != nil {
		t.Fatal(why)
	}
	s.admission.Wait()
	t.Cleanup(s.end)
	return s
}

func encode(t testing.TB, f *agentv2.Frame) []byte {
	t.Helper()
	b, err := proto.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// sent empties what the session has for its agent.
func sent(s *Session) []*agentv2.Frame {
	var all []*agentv2.Frame
	for {
		var o outbox
		s.next(&o)
		if len(o.frames) == 0 {
			return all
		}
		for _, f := range o.frames {
			all = append(all, f.(v2Frame).Frame)
		}
		if o.closing != nil {
			return all
		}
	}
}

// openStream opens a request and lets OPEN and the body out.
func openStream(t testing.TB, s *Session, body int) *Stream {
	t.Helper()
	st, err := s.Open(Request{RequestID: "r", Model: "m", Stream: true, Body: make([]byte, body)})
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func data(stream, seq uint32, n int) *agentv2.Frame {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return &agentv2.Frame{Stream: stream, Seq: seq, Body: &agentv2.Frame_Data{Data: &agentv2.Data{Data: b}}}
}

func end(stream, seq uint32) *agentv2.Frame {
	return &agentv2.Frame{Stream: stream, Seq: seq, Body: &agentv2.Frame_End{End: &agentv2.End{EngineStatus: 200, Complete: true}}}
}
