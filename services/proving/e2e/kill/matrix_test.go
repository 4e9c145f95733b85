package kill

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/crash/crashtest"
	"svc.internal/pkg/fakeengine"
	"svc.internal/services/proving/internal/trial"
)

const (
	// reachBound is how long a request may take to its point.
	reachBound = time.Minute

	// hangUpBound is how long the engine may take to notice that its answer is not wanted
	// any more.
	hangUpBound = 5 * time.Second
	// quietFor is longer than a gateway gathers reports of requests. Other work that a
	// request leaves shows in the hubs' gauges. It must be quiet for so long quietTimes
	// in a row, because a process may be short of time.
	quietFor   = 60 * time.Millisecond
	quietTimes = 3
	// awayBound is how long a victim may be away without a lease ending: the gateway renews
	// a lease after a quarter of it, so two thirds are left for certain. maxTries
	// bounds the runs of a cell.
	awayBound = lease * 2 / 3
	maxTries  = 3
	// tokenPace is the pause between two tokens that the engine gives out while it is
	// kept from the end.
	tokenPace = 200 * time.Microsecond

	answerTokens, answerPrefix = 5, 3
	// A long answer passes the hub's step of progress, 256 tokens, before the prefix
	// ends.
	longTokens, longPrefix = 300, 280

	plainModel = "kill/plain"
	longModel  = "kill/long"
)

// path is the way of a request through the replicas.
type path struct{ gateway, provider int }

// seat is a provider, its engine and the agent between them.
type seat struct {
	engine *fakeengine.Engine
	id     string
	agent  *agentProcess
}

// matrix runs cells on a fleet.
type matrix struct {
	rig    *fleetRig
	points *crashtest.Controller
	ledger ledger
	client *client
	seats  []*seat
	// steady is the key of a consumer whose requests meet no kill.
	steady string
	// bin is the folder of the programs.
	bin string
	// took is the time of all cells, by victim.
	took     map[victim]time.Duration
	outcomes outcomes
	// broken is set while a cell has left a victim dead.
	broken bool
}

// cells runs every cell of the points in a round as a test of its own, whose name says
// everything.
func (m *matrix) cells(t *testing.T, points []point, round int) {
	for _, p := range points {
		t.Run(p.name, func(t *testing.T) {
			for _, v := range victimsAt(p) {
				t.Run(string(v), func(t *testing.T) { m.cell(t, p, v, round) })
			}
		})
	}
}

// victimsAt are the victims at a point. The loss of a hub's journal matters where
// something was relayed and the ledger has not heard of it; each such cell waits for a
// review.
func victimsAt(p point) []victim {
	all := []victim{gateway, routerVictim, hub, billing, settlementVictim, catalogVictim, agent, nats, natsWiped, postgres}
	switch p.name {
	case "gateway.relaying", "hub.progress", "hub.final.synced", "hub.usage.published", "hub.usage.acked":
		all = append(all, hubLost)
	}
	return all
}

// cell runs one cell of the matrix and judges it. A cell is run again if it was wrong and
// its victim was away for longer than awayBound: the request's lease may have ended then,
// and the platform ends the answer of such a request.
func (m *matrix) cell(t *testing.T, p point, v victim, round int) {
	if m.broken {
		t.Skip("an earlier cell could not be restored")
	}
	began := time.Now()
	defer func() { m.took[v] += time.Since(began) }()
	for try := 1; ; try++ {
		away, wrong := m.try(t, p, v, round)
		if len(wrong) > 0 && away > awayBound && try < maxTries {
			t.Logf("%s was away for %v, longer than %v: the cell is run again", v, away, awayBound)
			continue
		}
		for _, w := range wrong {
			t.Error(w)
		}
		return
	}
}

// try runs a cell once. It returns how long the victim was away while the client waited,
// and everything that is wrong.
func (m *matrix) try(t *testing.T, p point, v victim, round int) (away time.Duration, wrong []string) {
	t.Helper()
	m.broken = true
	began := time.Now()
	seed := seedOf(p, v)
	random := rand.New(rand.NewPCG(seed, uint64(round)))
	c := cell{
		point: p, victim: v, all: round%2 == 0, prompt: fakeengine.PromptTokens, answer: answerTokens,
		stream: p.shape != anyShape || (int(seed&1)+round)%2 == 0,
	}
	way := path{gateway: random.IntN(len(m.rig.bases())), provider: random.IntN(len(m.seats))}
	r := m.begin(t, &c, way)
	pid, reached := r.stand(t)
	if !reached {
		m.broken = false
		t.Fatalf("the point was not reached; the client: %v", r.end(t))
	}
	killed := time.Now()
	m.rig.kill(t, v, way, pid, c.all)
	r.point.Release()
	if c.returns() {
		m.rig.restore(t)
		away = time.Since(killed)
	}
	if !c.breaks() {
		r.open()
	}
	heard := r.end(t)
	m.hungUp(t, c, way)
	r.open()
	m.rig.restore(t)
	m.broken = false
	b, err := m.ledger.closed(t.Context(), r.account)
	if err != nil {
		t.Fatalf("read the books: %v", err)
	}
	m.outcomes.add(c, heard, b)
	wrong = judge(c, heard, b)
	m.goesOn(t)
	m.quiet(t)
	if t.Failed() || len(wrong) > 0 {
		t.Logf("%s, %s killed (all %v), round %d, seed %d, stream %v, on %+v, after %v, away for %v\n"+
			"the client: %v\nthe books: %v\nrun it alone: -run '^%s$'",
			p.name, v, c.all, round, seed, c.stream, way, time.Since(began).Round(time.Millisecond), away, heard, b,
			strings.ReplaceAll(t.Name(), "/", "$/^"))
	}
	return away, wrong
}

// returns reports whether the victim comes back while the client still waits.
func (c cell) returns() bool {
	switch c.victim {
	case postgres, nats, natsWiped:
		return true
	default:
		return c.all
	}
}

// breaks reports whether the victim carries the answer, so that the client's call ends
// although the engine stands still.
func (c cell) breaks() bool { return c.cutOff() || c.losesHub() }

// hungUp waits until the engine that was kept from the end of its answer notices that the
// answer is not wanted, because a hub whose gateway died must not get the whole answer by
// chance. Not every death reaches an engine, and then there is nothing to wait for.
func (m *matrix) hungUp(t *testing.T, c cell, way path) {
	t.Helper()
	if c.emitted == c.answer || c.point.stage < dispatched || !c.breaks() {
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), hangUpBound)
	defer cancel()
	if _, err := m.seats[way.provider].engine.WaitCancelled(ctx); err != nil {
		t.Logf("the engine did not hear of it within %v", hangUpBound)
	}
}

// seedOf makes the choices of a cell depend on the cell alone.
func seedOf(p point, v victim) uint64 {
	seed := uint64(14695981039346656037)
	for _, b := range []byte(fmt.Sprint(p.name, "/", v)) {
		seed = (seed ^ uint64(b)) * 1099511628211
	}
	return seed
}

// run is a cell's request under way.
type run struct {
	account string
	point   *crashtest.Stand
	// gate lets the engine give out tokens. rest is closed when it may give out all of
	// them.
	gate, rest chan struct{}
	opened     bool
	heard      chan told
	cancel     context.CancelFunc
}

// begin makes the cell's account and sends its request on its way.
func (m *matrix) begin(t *testing.T, c *cell, way path) *run {
	t.Helper()
	model, prefix := plainModel, int64(answerPrefix)
	if c.point.shape == long {
		model, prefix, c.answer = longModel, longPrefix, longTokens
	}
	account, key := m.rig.m.Consumer(t, "1")
	r := &run{account: account, gate: make(chan struct{}), rest: make(chan struct{}), heard: make(chan told, 1)}
	behaviour := fakeengine.Behaviour{Tokens: fakeengine.Words(int(c.answer))}
	for _, s := range m.seats {
		s.engine.Script(model, behaviour)
	}
	c.emitted = c.answer
	if c.stream && c.point.stage <= relaying {
		c.emitted = prefix
		go r.feed(prefix)
		behaviour.BeforeToken = r.gate
		m.seats[way.provider].engine.Script(model, behaviour)
	}
	extra := `,"max_tokens":400`
	if c.stream {
		extra += `,"stream":true`
	}
	bases := append([]string{m.rig.bases()[way.gateway]}, m.rig.bases()...)
	ctx, cancel := context.WithCancel(t.Context())
	r.cancel = cancel
	r.point = m.points.Arm(c.point.name, 1)
	go func() {
		r.heard <- m.client.chat(ctx, bases, key, trial.Chat(model, extra), "X-Svc-Provider", m.seats[way.provider].id)
	}()
	return r
}

// stand waits until a process stands at the point.
func (r *run) stand(t *testing.T) (pid int, reached bool) {
	t.Helper()
	select {
	case pid = <-r.point.Reached():
		return pid, true
	case <-time.After(reachBound):
		r.point.Release()
		r.open()
		return 0, false
	}
}

// feed lets the engine give out the beginning of the answer, at a pace at which the hub
// sees it come bit by bit, and the rest when it may.
func (r *run) feed(prefix int64) {
	pace := time.NewTicker(tokenPace)
	defer pace.Stop()
	for range prefix {
		select {
		case r.gate <- struct{}{}:
			<-pace.C
		case <-r.rest:
		}
	}
	<-r.rest
	close(r.gate)
}

// open lets the engine go on.
func (r *run) open() {
	if !r.opened {
		r.opened = true
		close(r.rest)
	}
}

// end returns what the client learnt.
func (r *run) end(t *testing.T) told {
	t.Helper()
	defer r.cancel()
	return <-r.heard // the client's own time limit bounds it
}

// quiet waits until nothing passes any point any more, because the remaining work of an
// earlier request must not be taken for a step of the next.
func (m *matrix) quiet(t *testing.T) {
	t.Helper()
	deadline := time.Now().Add(closeBound)
	ticker := time.NewTicker(quietFor)
	defer ticker.Stop()
	for last, times := -1, 0; time.Now().Before(deadline); <-ticker.C {
		now := m.points.Total()
		if now != last || !m.rig.idle(t) {
			last, times = now, 0
			continue
		}
		if times++; times == quietTimes {
			return
		}
	}
	t.Errorf("the services are still at work after %v", closeBound)
}

// goesOn makes a request that nothing should disturb.
func (m *matrix) goesOn(t *testing.T) {
	t.Helper()
	for _, s := range m.seats {
		s.engine.Script(plainModel, fakeengine.Behaviour{Tokens: fakeengine.Words(answerTokens)})
	}
	if heard := m.client.chat(t.Context(), m.rig.bases(), m.steady, trial.Chat(plainModel,
		"")); heard.status != http.StatusOK {
		t.Errorf("the next request: heard.status: got %d, want 200", heard.status)
	} else if !heard.whole {
		t.Error("the next request: heard.whole: got false, want true")
	}
}
