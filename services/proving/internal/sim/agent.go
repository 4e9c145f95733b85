package sim

import (
	"fmt"
	"slices"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/services/provider-hub/hubsim"
)

// capacity is how many requests an agent takes at once.
const capacity = 4

// agent is a provider's node with an engine. Its work receipts, the third evidence
// source, are not played.
type agent struct {
	*node
	net      *network
	provider ids.ProviderID
	// letter begins each word of its engine, so that words show who served.
	letter byte
	// external marks a server that hubs call. It is played as an agent is; what counts is
	// that its mode reaches the ledger.
	external bool
	session  *session
	runs     []*run
}

// session is an agent's connection to a hub. Each end keeps its own view of it.
type session struct {
	agent *agent
	hub   *hub
	life  int // of the hub
	epoch int64
	// open is the hub's view; the agent's is agent.session == s.
	open         bool
	busy         int
	calls        []*dispatchCall
	down, upward time.Duration // when the last frame arrives
}

// run is one request at the engine.
type run struct {
	request string
	attempt uint32
	plan    plan
	session *session
	call    *dispatchCall
	stream  bool
	began   time.Duration
	sent    int // words
	ended   bool
	// claimed is the completion claim that was sent, and whether one was.
	claimed   int64
	claims    bool
	finished  bool // the answer was sent to its proper end
	cancelled bool
}

// dial connects to a hub, if one can be reached.
func (a *agent) dial() {
	if !a.up || a.session != nil {
		return
	}
	h := a.net.hubs[a.world.dice.IntN(len(a.net.hubs))]
	retry := func() { a.after(a.world.between(200*time.Millisecond, 2*time.Second), a.dial) }
	if !a.reaches(h.node) || h.frozen > a.world.now {
		retry()
		return
	}
	a.net.epoch++
	s := &session{agent: a, hub: h, life: h.life, epoch: a.net.epoch, open: true}
	if old := h.sessions[a.provider]; old != nil && old.open {
		h.drop(old)
	}
	h.sessions[a.provider] = s
	a.session = s
	a.logf("connected to %s, epoch %d", h.name, s.epoch)
	h.settle()
}

// lose ends a lost connection at the agent.
func (a *agent) lose(s *session) {
	if a.session != s || !a.up {
		return
	}
	a.logf("lost epoch %d", s.epoch)
	a.session = nil
	for _, r := range a.runs {
		if r.session == s {
			r.ended = true
		}
	}
	a.after(a.world.between(200*time.Millisecond, 2*time.Second), a.dial)
}

// drop ends a lost connection at the hub.
func (h *hub) drop(s *session) {
	if !s.open || h.life != s.life {
		return
	}
	s.open = false
	if h.sessions[s.agent.provider] == s {
		delete(h.sessions, s.agent.provider)
	}
	for _, c := range slices.Clone(s.calls) {
		c.attempt.Lost()
	}
	h.settle()
}

// cut breaks a connection. Each end notices in its own time.
func (s *session) cut() {
	w := s.agent.world
	w.after(w.travel(), func() { s.agent.lose(s) })
	life := s.hub.life
	w.after(w.travel(), func() { s.hub.do(life, func() { s.hub.drop(s) }) })
}

// toAgent carries a frame to the agent, behind earlier ones.
func (s *session) toAgent(do func()) {
	w := s.agent.world
	s.down = max(s.down, w.now+w.travel())
	w.after(s.down-w.now, func() {
		a := s.agent
		if a.session == s && !s.hub.parted(a.node) {
			a.do(a.life, func() {
				if a.session == s {
					do()
				}
			})
		}
	})
}

// toHub carries a frame to the hub.
func (s *session) toHub(do func()) {
	w := s.agent.world
	s.upward = max(s.upward, w.now+w.travel())
	w.after(s.upward-w.now, func() {
		if s.open && !s.hub.parted(s.agent.node) {
			s.hub.do(s.life, func() {
				if s.open {
					do()
					s.hub.settle()
				}
			})
		}
	})
}

// begin starts the engine on a request.
func (a *agent) begin(s *session, c *dispatchCall) {
	r := &run{
		request: c.opened.GetRequestId(), attempt: c.opened.GetAttempt(), session: s, call: c,
		began: a.world.now, stream: c.opened.GetStream(), plan: a.net.plan(c.opened),
	}
	a.runs = append(a.runs, r)
	a.logf("begins %s/%d: %s", r.request, r.attempt, r.plan)
	a.after(r.plan.first, func() { a.next(r) })
}

// next takes the engine's next step.
func (a *agent) next(r *run) {
	if r.ended {
		return
	}
	p := &r.plan
	switch {
	case p.status != 200:
		a.answer(r, fmt.Appendf(nil, `{"error":{"message":"no","type":"server_error","code":%d}}`, p.status))
		a.finish(r, hubsim.End{Status: p.status, Complete: true})
	case !r.stream:
		a.whole(r)
	case r.cancelled:
		if p.usageOnCancel {
			a.usage(r)
		}
		a.finish(r, hubsim.End{Status: 200})
	case r.sent < p.words && (p.breakAt == 0 || r.sent < p.breakAt):
		a.piece(r)
		a.after(p.gap, func() { a.next(r) })
	default:
		a.close(r)
	}
}

// answer sends bytes of an answer.
func (a *agent) answer(r *run, data []byte) {
	c := r.call
	r.session.toHub(func() { c.attempt.Data(data) })
}

func (a *agent) piece(r *run) {
	n := min(r.plan.each, r.plan.words-r.sent)
	if r.plan.breakAt > 0 {
		n = min(n, r.plan.breakAt-r.sent)
	}
	r.sent += n
	a.answer(r, fmt.Appendf(nil,
		`data: {"id":"x","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"content":"%s"}}]}`+
			"\n\n", a.words(n)))
}

// wordBytes is the length of a word with the space in front of it.
const wordBytes = len(" awords")

// words are n words of one token each, by any honest count.
func (a *agent) words(n int) []byte {
	var text []byte
	for range n {
		text = append(text, ' ', a.letter)
		text = append(text, "words"...)
	}
	return text
}

// close ends a stream by the engine's plan.
func (a *agent) close(r *run) {
	switch r.plan.ending {
	case endsWell:
		a.answer(r, []byte(
			`data: {"id":"x","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{},`+
				`"finish_reason":"stop"}]}`+"\n\n"))
		a.usage(r)
		a.answer(r, []byte("data: [DONE]\n\n"))
		r.finished = true
		a.finish(r, hubsim.End{Status: 200, Complete: true})
	case endsWithoutReason:
		a.finish(r, hubsim.End{Status: 200, Complete: true})
	case endsCut:
		a.finish(r, hubsim.End{Status: 200, Error: "the engine went away"})
	case endsInError:
		a.answer(r, []byte(`data: {"error":{"message":"out of memory","code":500}}`+"\n\n"))
		a.finish(r, hubsim.End{Status: 200, Complete: true})
	case endsNever:
		// The hub gives the request up.
	}
}

// usage sends the engine's claim.
func (a *agent) usage(r *run) {
	if claim, ok := r.claim(); ok {
		a.answer(r, fmt.Appendf(nil, `data: {"id":"x","object":"chat.completion.chunk","model":"m","choices":[],"usage":%s}`+
			"\n\n", claim))
	}
}

// claim is the engine's usage object; false for none.
func (r *run) claim() (string, bool) {
	n := int64(r.sent)
	switch r.plan.claim {
	case claimsNothing:
		return "", false
	case claimsMore:
		n += 5
	case claimsAbsurdly:
		n = 1 << 40
	case claimsZero:
		n = 0
	case claimsTruly:
	}
	r.claims, r.claimed = true, n
	return fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}`, promptClaim, n, promptClaim+n),
		true
}

// whole sends an answer that is not streamed.
func (a *agent) whole(r *run) {
	if r.cancelled {
		a.finish(r, hubsim.End{Status: 200})
		return
	}
	p := r.plan
	r.sent = p.words
	body := fmt.Appendf(nil,
		`{"id":"x","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant",`+
			`"content":"%s"}`, a.words(p.words))
	if p.ending == endsWell {
		body = append(body, `,"finish_reason":"stop"`...)
	}
	body = append(body, '}', ']')
	if claim, ok := r.claim(); ok {
		body = append(append(body, `,"usage":`...), claim...)
	}
	body = append(body, '}')
	switch p.ending {
	case endsInError:
		body = []byte(`{"error":{"message":"out of memory","code":500}}`)
	case endsCut:
		body = body[:len(body)/2]
	case endsNever:
		return
	case endsWell, endsWithoutReason:
	}
	half := len(body) / 2
	a.answer(r, body[:half])
	a.answer(r, body[half:])
	r.finished = p.ending == endsWell
	a.finish(r, hubsim.End{Status: 200, Complete: p.ending != endsCut})
}

func (a *agent) finish(r *run, end hubsim.End) {
	r.ended = true
	c := r.call
	r.session.toHub(func() {
		c.attempt.End(end)
		c.leave()
	})
}

// cancel asks the engine to stop, which the engine may ignore.
func (a *agent) cancel(r *run) {
	if r.ended || r.plan.deaf {
		return
	}
	r.cancelled = true
	a.next(r)
}

// crash ends the agent and its engine.
func (a *agent) crash() {
	a.up = false
	a.life++
	for _, r := range a.runs {
		r.ended = true
	}
	if s := a.session; s != nil {
		a.session = nil
		life := s.hub.life
		a.world.after(a.world.travel(), func() { s.hub.do(life, func() { s.hub.drop(s) }) })
	}
}

func (a *agent) rise() {
	if !a.up {
		a.up = true
		a.dial()
	}
}
