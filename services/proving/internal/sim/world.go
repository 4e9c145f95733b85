package sim

import (
	"container/heap"
	"fmt"
	"iter"
	"math/rand/v2"
	"time"
)

// epoch is the time at which every history begins.
var epoch = time.Date(2026, time.March, 1, 11, 50, 0, 0, time.UTC)

// world is the time, the dice and the network of one history. Everything in it happens in
// one goroutine, one event after the other.
type world struct {
	now    time.Duration
	queue  events
	seq    uint64
	events int
	dice   *rand.Rand
	trace  *Trace
	// current is the task that runs.
	current *task
}

func newWorld(seed uint64, trace *Trace) *world {
	return &world{dice: rand.New(rand.NewPCG(seed, 2)), trace: trace} //nolint:gosec // a seed gives one history
}

type event struct {
	at  time.Duration
	seq uint64
	do  func()
}

// events is a heap by time and, within one moment, by order of creation.
type events []*event

func (q events) Len() int { return len(q) }
func (q events) Less(a, b int) bool {
	return q[a].at < q[b].at || q[a].at == q[b].at && q[a].seq < q[b].seq
}
func (q events) Swap(a, b int) { q[a], q[b] = q[b], q[a] }

// Push implements heap.Interface.
func (q *events) Push(x any) { *q = append(*q, x.(*event)) }

// Pop implements heap.Interface.
func (q *events) Pop() any {
	old := *q
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return last
}

// after schedules an event.
func (w *world) after(d time.Duration, do func()) *event {
	w.seq++
	e := &event{at: w.now + max(d, 0), seq: w.seq, do: do}
	heap.Push(&w.queue, e)
	return e
}

// step runs the next event. It returns false when there is none.
func (w *world) step() bool {
	if len(w.queue) == 0 {
		return false
	}
	e := heap.Pop(&w.queue).(*event)
	w.now = e.at
	if e.do != nil {
		w.events++
		e.do()
	}
	return true
}

// time is the true time.
func (w *world) time() time.Time { return epoch.Add(w.now) }

// logf adds a line to the trace.
func (w *world) logf(who, format string, args ...any) {
	if w.trace != nil {
		w.trace.add(w.now, who, format, args...)
	}
}

// chance is true in permille of a thousand cases.
func (w *world) chance(permille int) bool { return w.dice.IntN(1000) < permille }

// between is a duration from low up to high.
func (w *world) between(low, high time.Duration) time.Duration {
	return low + time.Duration(w.dice.Int64N(int64(high-low)+1))
}

// travel is how long a message takes: nearly always a moment, sometimes so long that
// others overtake it.
func (w *world) travel() time.Duration {
	if w.chance(20) {
		return w.between(20*time.Millisecond, 2*time.Second)
	}
	return w.between(100*time.Microsecond, 5*time.Millisecond)
}

// Read makes the world a source of ids.
func (w *world) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(w.dice.Uint32())
	}
	return len(p), nil
}

// node is a machine, or a process on one.
type node struct {
	world *world
	name  string
	up    bool
	// life counts its processes. One process knows nothing of what another began.
	life int
	// frozen is the time until which it does nothing.
	frozen time.Duration
	// mute is the longest time for which it reported nothing to the ledger, because it
	// was frozen or cut off.
	mute time.Duration
	skew time.Duration
	// apart are the nodes that it cannot reach.
	apart map[*node]bool
}

func (w *world) node(name string) *node {
	return &node{world: w, name: name, apart: map[*node]bool{}}
}

// Now is the node's own clock.
func (n *node) Now() time.Time { return n.world.time().Add(n.skew) }

func (n *node) logf(format string, args ...any) { n.world.logf(n.name, format, args...) }

// after schedules an event of the node's present process.
func (n *node) after(d time.Duration, do func()) {
	life := n.life
	n.world.after(d, func() { n.do(life, do) })
}

// do runs something in a process once its node is not frozen.
func (n *node) do(life int, do func()) {
	switch {
	case !n.up || n.life != life:
	case n.frozen > n.world.now:
		n.world.after(n.frozen-n.world.now, func() { n.do(life, do) })
	default:
		do()
	}
}

// parted reports whether a node is cut off from another.
func (n *node) parted(from *node) bool { return n.apart[from] || from.apart[n] }

// reaches reports whether messages get from one node to another.
func (n *node) reaches(to *node) bool { return to.up && !n.parted(to) }

// send carries a message. lost is called at once, or never, when it did not arrive; lost
// may be nil.
func (n *node) send(to *node, arrive, lost func()) {
	if n.parted(to) {
		return
	}
	n.world.after(n.world.travel(), func() {
		if !n.reaches(to) {
			if lost != nil && !to.up {
				n.after(n.world.travel(), lost)
			}
			return
		}
		to.do(to.life, arrive)
	})
}

// task is something that a process does step by step. It runs until it waits, and
// continues when it is woken.
type task struct {
	node   *node
	life   int
	next   func() (struct{}, bool)
	yield  func(struct{}) bool
	waits  int // changes with each wait
	parked bool
	over   bool
	dead   bool // its process has died: it runs to its end, and nobody hears it
	call   *dispatchCall
}

// spawn begins a task and returns when it waits.
func (n *node) spawn(do func(*task)) *task {
	t := &task{node: n, life: n.life}
	t.next, _ = iter.Pull(func(yield func(struct{}) bool) {
		t.yield = yield
		do(t)
		t.over = true
	})
	t.run()
	return t
}

func (t *task) run() {
	w := t.node.world
	before := w.current
	w.current = t
	t.next()
	w.current = before
	if t.call != nil {
		t.call.observe()
	}
}

// wait yields until the function that arm returned is called.
func (t *task) wait() {
	if t.dead {
		return
	}
	t.parked = true
	t.yield(struct{}{})
	t.parked = false
}

// arm returns the function that wakes the task from its next wait, once.
func (t *task) arm() (wake func()) {
	t.waits++
	n := t.waits
	return func() {
		if t.waits == n && t.parked && !t.over {
			t.waits++
			t.run()
		}
	}
}

// kill runs a task of a dead process to its end.
func (t *task) kill() {
	if t.over {
		return
	}
	t.dead = true
	t.waits++
	t.run()
	if !t.over {
		panic("sim: a task of a dead process waits")
	}
}

// Trace is what happened in a history, line by line.
type Trace struct{ text []byte }

func (t *Trace) add(at time.Duration, who, format string, args ...any) {
	t.text = fmt.Appendf(t.text, "%14.6f %-12s ", at.Seconds(), who)
	t.text = fmt.Appendf(t.text, format, args...)
	t.text = append(t.text, '\n')
}

// Text is the whole trace.
func (t *Trace) Text() []byte { return t.text }
