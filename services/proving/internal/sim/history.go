package sim

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// Config says what history to run.
type Config struct {
	Seed uint64
	// Faults, when not nil, replace the faults that the seed gives.
	Faults []Fault
	// Strict counts the known limits of the design as failures too.
	Strict bool
	// Trace is written if it is not nil.
	Trace *Trace

	// Planted faults, which the judges must find: the hub's journal does not sync,
	// billing-ledger acknowledges before it commits, does not look at the primary key, takes
	// nothing from slices, or writes no hold from a ticket.
	NoFsync, EarlyAck, NoPrimaryKey, PinWithoutSlice, TicketIgnored bool
}

// Result is the outcome of a history.
type Result struct {
	Seed   uint64  `json:"seed"`
	Faults []Fault `json:"faults"`
	// Broken is what must not be, and was.
	Broken []string `json:"broken,omitempty"`
	Totals
	Took time.Duration `json:"virtual"`
}

// Totals count what happened.
type Totals struct {
	Histories int `json:"histories"`
	Events    int `json:"events"`
	Requests  int `json:"requests"`
	Admitted  int `json:"admitted"`
	Complete  int `json:"complete"`
	Settled   int `json:"settled"`
	Orphans   int `json:"orphans"`
	ByGateway int `json:"by_gateway"`
	Released  int `json:"released"`
	Expired   int `json:"expired"`
	// FromMemory counts the requests that were admitted from slices, and FromTickets the holds that were written
	// from tickets.
	FromMemory  int `json:"from_memory"`
	FromTickets int `json:"from_tickets"`
	Struck      int `json:"faults_struck"`
	// Known counts the costs of the design's limits, by limit.
	Known map[string]int `json:"known,omitempty"`
}

// Add adds the totals of another history.
func (t *Totals) Add(o Totals) {
	t.Histories += o.Histories
	t.Events += o.Events
	t.Requests += o.Requests
	t.Admitted += o.Admitted
	t.Complete += o.Complete
	t.Settled += o.Settled
	t.Orphans += o.Orphans
	t.ByGateway += o.ByGateway
	t.Released += o.Released
	t.Expired += o.Expired
	t.FromMemory += o.FromMemory
	t.FromTickets += o.FromTickets
	t.Struck += o.Struck
	for limit, n := range o.Known {
		if t.Known == nil {
			t.Known = map[string]int{}
		}
		t.Known[limit] += n
	}
}

// The bounds of a history.
const (
	maxRequests = 14
	busyFor     = 90 * time.Second
	// maxEvents is far more than any history that comes to rest has.
	maxEvents = 200_000
)

// Runner runs histories. It is safe for concurrent use.
type Runner struct {
	once  sync.Once
	fixed *fixed
	err   error
}

// Run runs one history to its rest. The same Config gives the same history.
func (r *Runner) Run(cfg Config) (Result, error) {
	r.once.Do(func() { r.fixed, r.err = newFixed() })
	if r.err != nil {
		return Result{}, r.err
	}
	if cfg.Faults == nil {
		dice := rand.New(rand.NewPCG(cfg.Seed, 1)) //nolint:gosec // a seed gives one history
		cfg.Faults = drawFaults(dice, busyFor+10*time.Second)
	}
	w := newWorld(cfg.Seed, cfg.Trace)
	n := newNetwork(r.fixed, w, cfg)
	defer n.stop()
	for _, f := range cfg.Faults {
		w.after(f.At, func() { kindOf(f.Kind)(n, f) })
	}
	n.clientsCome()
	for w.step() {
		if w.events > maxEvents {
			n.fail("the history does not come to rest")
			break
		}
	}
	totals, err := n.judge()
	if err != nil {
		return Result{}, fmt.Errorf("judge seed %d: %w", cfg.Seed, err)
	}
	return Result{Seed: cfg.Seed, Faults: cfg.Faults, Broken: n.broken, Totals: totals, Took: w.now}, nil
}

// clientsCome decides which client asks when for what.
func (n *network) clientsCome() {
	w := n.world
	for range 1 + w.dice.IntN(maxRequests) {
		c := &client{
			net: n, account: &n.accounts[w.dice.IntN(accounts)], gateway: n.gateways[w.dice.IntN(gateways)],
			stream: w.chance(750), limit: 1 + w.dice.IntN(maxTokens), words: map[byte]int{}, header: http.Header{},
		}
		if w.chance(200) {
			c.patient = w.between(time.Millisecond, 6*time.Second)
		}
		n.clients = append(n.clients, c)
		w.after(time.Duration(w.dice.Int64N(int64(busyFor))), c.begin)
	}
}

// Shrink removes faults from a history as long as it still breaks something,
// and returns the smallest that it finds.
func (r *Runner) Shrink(cfg Config, broken Result) (Result, error) {
	least := broken
	for again := true; again; {
		again = false
		for i := range least.Faults {
			fewer := make([]Fault, 0, len(least.Faults))
			fewer = append(append(fewer, least.Faults[:i]...), least.Faults[i+1:]...)
			cfg.Faults = fewer
			got, err := r.Run(cfg)
			if err != nil {
				return least, fmt.Errorf("run with fewer faults: %w", err)
			}
			if len(got.Broken) > 0 {
				least, again = got, true
				break
			}
		}
	}
	return least, nil
}
