package external

import (
	"context"
	"slices"
	"sync"
	"time"

	"svc.internal/pkg/agentwire"
	"svc.internal/services/provider-hub/internal/session"
)

// nodePrefix begins the node of an endpoint; its id follows.
const nodePrefix = "external-"

const (
	// defaultPatience bounds a call whose request sets no time. extraPatience is the time that
	// a call has beyond the time of its request, within which the hub cancels it.
	defaultPatience = 15 * time.Minute
	extraPatience   = 15 * time.Second
)

// maxBody is the largest body of a request, in bytes.
const maxBody = 26 << 20

// maxStreams bounds the requests at once on an endpoint.
const maxStreams = 1024

// live is one session of an endpoint, from the agent's side.
type live struct {
	base
	endpoint *Endpoint
	key      key
	offers   func() session.Models // as they are now
	// rest lets a model rest, if the end of a call asks for it.
	rest func(model string, end *session.End)
	// called is called with a call and its end, with why the hub gave it up, if it did, and with how
	// long the server was silent.
	called  func(r *session.Request, end *session.End, cause error, silentFor time.Duration)
	session *session.Session
	due     chan struct{}   // hears that the session's Next has something to send
	ctx     context.Context // of all calls
	stop    context.CancelFunc
	work    sync.WaitGroup

	// mu also orders the frames of stream 0 and of each call: a number is drawn and its frame
	// handed over in one step.
	mu     sync.Mutex
	calls  map[uint32]*call
	seqOut agentwire.Sequence
	credit agentwire.Credit // the bytes that may still be handed over
	window agentwire.Window // the bytes of bodies that the hub may still send
}

func newLive(ctx context.Context, b base, e *Endpoint, k key, offers func() session.Models) *live {
	env := b.deps.Env
	l := &live{
		base: b, endpoint: e, key: k, offers: offers, calls: map[uint32]*call{},
		due:    make(chan struct{}, 1),
		credit: agentwire.Credit(env.Config.ConnWindow), window: agentwire.NewWindow(env.Config.ConnWindow),
	}
	l.ctx, l.stop = context.WithCancel(ctx)
	l.session = session.New(env, session.Limits{
		Name: "v2", Strict: true, Streams: maxStreams, Silence: b.cfg.Silence,
	}, l.wake, func() {})
	l.session.Begin()
	return l
}

// wake tells the loop of the session that there is something to send.
func (l *live) wake() {
	select {
	case l.due <- struct{}{}:
	default:
	}
}

// register makes the session live, if its provider may connect.
func (l *live) register(ctx context.Context) bool {
	e := l.endpoint
	l.tell(session.Inbound{Kind: session.KindRegister, Register: &session.Register{
		Node: nodePrefix + e.ID.String(), NodeName: e.Name, AgentVersion: "external",
		Capabilities: capabilitiesOf(e), MaxRequestBytes: maxBody, Models: l.offers(),
	}})
	if _, waits := l.session.Enrolment(); !waits {
		return false
	}
	limited, cancel := context.WithTimeout(ctx, l.cfg.patience())
	defer cancel()
	grant, err := l.deps.Registrar.AdmitExternal(limited, e.Provider)
	if err != nil {
		return false // the provider may not connect, or the database is away
	}
	if why := l.session.Admit(grant); why != nil {
		l.session.Shut(why)
		return false
	}
	return true
}

// leave takes the session out of routing, and closes it when its last request has ended.
func (l *live) leave() {
	l.deps.Registrar.Leave(l.session)
	l.session.Finish(closing())
}

// end ends the session and waits for its calls.
func (l *live) end() {
	l.stop()
	l.session.SocketClosed()
	l.session.End()
	l.deps.Registrar.Leave(l.session)
	l.work.Wait()
}

// tell hands a frame of stream 0 to the session.
func (l *live) tell(in session.Inbound) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tellLocked(in)
}

func (l *live) tellLocked(in session.Inbound) {
	in.Seq = l.seqOut.Next()
	l.receiveLocked(&in)
}

func (l *live) receiveLocked(in *session.Inbound) {
	if why := l.session.Receive(in); why != nil {
		l.deps.Log.Error("a session of an external endpoint broke the rules", "endpoint_id",
			l.endpoint.ID.String(), "error", why.Error())
		l.session.Shut(why)
	}
}

// beat is a heartbeat, with the models as they are now.
func (l *live) beat() {
	l.mu.Lock()
	active := len(l.calls)
	l.mu.Unlock()
	l.tell(session.Inbound{Kind: session.KindHeartbeat, Heartbeat: &session.Heartbeat{
		Models: l.offers(), Loaded: true, Active: active,
	}})
}

// handle takes a message of the hub. The kinds in the last case need no answer.
func (l *live) handle(m *session.Outbound) {
	switch m.Kind {
	case session.OutOpen:
		l.open(m)
	case session.OutData:
		l.body(m)
	case session.OutCredit:
		l.granted(m)
	case session.OutCancel, session.OutReset:
		l.cancel(m.Stream)
	case session.OutRegistered, session.OutHeartbeat, session.OutDrain, session.OutWarmUp, session.OutReceipts,
		session.OutFarewell, session.OutChallenge:
	}
}

// open begins a request.
func (l *live) open(m *session.Outbound) {
	l.mu.Lock()
	defer l.mu.Unlock()
	window := l.deps.Env.Config.StreamWindow
	c := &call{live: l, id: m.Stream, request: m.Open, more: make(chan struct{}, 1),
		credit: agentwire.Credit(window), window: agentwire.NewWindow(window)}
	c.ctx, c.stop = context.WithTimeout(l.ctx, c.patience())
	l.calls[m.Stream] = c
}

// body takes a piece of a body. The piece is kept as it is, because it does not change until
// the stream is closed, and its credit is granted at once.
func (l *live) body(m *session.Outbound) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := int64(len(m.Data))
	l.window.Owe(n)
	if due := l.window.Grant(); due > 0 {
		l.tellLocked(session.Inbound{Kind: session.KindCredit, Credit: due})
	}
	c := l.calls[m.Stream]
	if c == nil || c.started {
		return
	}
	if n > 0 {
		c.pieces = append(c.pieces, m.Data)
	}
	if m.Fin {
		c.started = true
		l.work.Go(c.run)
		return
	}
	c.window.Owe(n)
	if due := c.window.Grant(); due > 0 {
		c.tellLocked(session.Inbound{Kind: session.KindCredit, Credit: due})
	}
}

// granted adds to a credit.
func (l *live) granted(m *session.Outbound) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if m.Stream != 0 {
		if c := l.calls[m.Stream]; c != nil {
			c.credit.Grant(m.Credit)
			c.signal()
		}
		return
	}
	l.credit.Grant(m.Credit)
	for _, c := range l.calls {
		c.signal()
	}
}

// cancel gives a request up. A request whose body is not complete ends here.
func (l *live) cancel(id uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.calls[id]
	if c == nil {
		return
	}
	c.stop()
	if !c.started {
		c.concludeLocked(&session.End{Error: "the request was given up"})
	}
}

// capabilitiesOf are those of all models of the endpoint.
func capabilitiesOf(e *Endpoint) []string {
	all := []string{"cancel"}
	for _, m := range e.Models {
		for _, one := range m.Capabilities {
			if !slices.Contains(all, one) {
				all = append(all, one)
			}
		}
	}
	return all
}

// closing is the reason for the end of a session whose hub gives the endpoint up.
func closing() *session.CloseReason {
	return &session.CloseReason{Code: agentwire.CodeShuttingDown, Message: "the hub gives the endpoint up"}
}

// call is one request of the session. All but the immutable part is guarded by live.mu.
type call struct {
	live    *live
	id      uint32
	request *session.Request
	ctx     context.Context
	stop    context.CancelFunc
	more    chan struct{} // signalled when there may be credit
	heard   bool          // the server's answer has begun; only run uses it

	pieces  [][]byte // of the body
	started bool     // the body is complete, and a goroutine calls the endpoint
	seqOut  agentwire.Sequence
	credit  agentwire.Credit // the bytes of the answer that may still be handed over
	window  agentwire.Window // the bytes of the body that the hub may still send
}

func (c *call) patience() time.Duration {
	if c.request.Timeout <= 0 {
		return defaultPatience
	}
	return c.request.Timeout + extraPatience
}

// run calls the endpoint and hands over its answer and its end.
func (c *call) run() {
	defer c.stop()
	began := c.live.deps.Clock.Now()
	end := forward(c.ctx, c.live.deps.Client, job{c.live.endpoint, c.live.key, c.request, c.pieces}, c)
	c.live.rest(c.request.Model, end)
	silent := c.live.deps.Clock.Now().Sub(began)
	if c.heard {
		silent = 0
	}
	if !c.live.session.Identity().Vendor {
		c.live.called(c.request, end, c.ctx.Err(), silent)
	}
	c.live.mu.Lock()
	defer c.live.mu.Unlock()
	c.concludeLocked(end)
}

// concludeLocked ends the request.
func (c *call) concludeLocked(end *session.End) {
	c.stop()
	delete(c.live.calls, c.id)
	c.pieces = nil
	c.tellLocked(session.Inbound{Kind: session.KindEnd, End: end})
}

// tellLocked hands a frame of this request to the session.
func (c *call) tellLocked(in session.Inbound) {
	in.Stream, in.Seq = c.id, c.seqOut.Next()
	c.live.receiveLocked(&in)
}

func (c *call) signal() {
	select {
	case c.more <- struct{}{}:
	default:
	}
}

// Write hands over a piece of the answer as credit allows. It implements io.Writer.
func (c *call) Write(p []byte) (int, error) {
	c.heard = true
	for rest := p; len(rest) > 0; {
		n := c.handOver(rest)
		rest = rest[n:]
		if n > 0 {
			continue
		}
		select {
		case <-c.more:
		case <-c.ctx.Done():
			return len(p) - len(rest), context.Cause(c.ctx)
		}
	}
	return len(p), nil
}

func (c *call) handOver(p []byte) int {
	c.live.mu.Lock()
	defer c.live.mu.Unlock()
	n := agentwire.Spend(len(p), &c.credit, &c.live.credit)
	if n > 0 {
		c.tellLocked(session.Inbound{Kind: session.KindData, Data: p[:n], Size: int64(n)})
	}
	return n
}
