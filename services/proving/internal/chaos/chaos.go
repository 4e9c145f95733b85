// Package chaos injects faults into a marketplace and proves that its money stays right:
// real processes on the loopback under load, an fsyncing PostgreSQL, a nats-server,
// provider agents with engines, and faults of every cell of the failure matrix (package
// plan) while clients keep calling (package caller).
//
// Afterwards the faults are repaired, the load ends, and the fleet becomes idle: no hold
// is open, no hub has usage that waits, and billing-ledger and settlement agree. Then an
// independent auditor judges, from what clients received, what engines sent, and the
// export of the ledger. A run also fails when a client did not hear the truth in bounded
// time, when the fleet did not serve again after a fault or did not become idle, when no
// request reached a cell, and when a process panicked.
//
// # What a seed decides
//
// One number drives a run. It decides the order of the faults, their victims, their
// requests and their times, and everything that clients ask. It does not decide how
// processes, the kernel and the network interleave: a replay repeats the schedule of a
// run exactly, but not its history. A fault that needs a rare interleaving may need
// several replays, so the files of a failed run stay. A fault to whose moment nothing came
// is tried twice more: by day at once, and by night in another night.
//
// At night, behind all other faults, days end one after the other (night.go): the load
// stops, the fleet becomes idle, the time of the database and of two development chains goes
// on to the next day, settlement batches the day, and providers ask for payouts
// (payouts.go), while the faults of a day's end and of payouts are done: nodes lie or are
// silent, blocks with payouts are taken off the chain (reorg.go), settlement's database is
// set back to a copy from before the payouts (back.go), and events of a card processor are
// lost (cards.go). Collateral stands in contracts, each night penalties take some of it, and
// one provider has asked for its own back (stake.go). The auditor computes the batches anew, and reads from the
// chains themselves (look.go) that each payout was received once or never, as the books
// say, and that wallets and contracts hold what is in the books.
//
// Faults run on a few lanes at once, never two that hurt the same program. The time until
// the fleet served again after a fault is therefore an upper bound, because another fault
// may have been under way.
package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"svc.internal/services/proving/internal/chaos/caller"
	"svc.internal/services/proving/internal/chaos/plan"
	"svc.internal/services/proving/internal/paychain"
	"svc.internal/services/standalone/localdata"
)

// Config of a run. Zero values take defaults.
type Config struct {
	// Dir gets the files of the run; it must be empty or missing.
	Dir  string
	Seed uint64
	// Faults is the number of faults; 0 means each cell twice.
	Faults int
	// Match selects cells by name; nil takes all.
	Match *regexp.Regexp
	// Plant names a planted fault of package crash; empty plants none. Unless Match says
	// otherwise, only the cells that show the fault are run.
	Plant string
	// BinDir has programs built with the tag crashpoints, as fleet.Build makes
	// them; empty builds them.
	BinDir string
	// Callers is how many clients call at once, 20. Lanes is how many faults are under
	// way at once, 3.
	Callers, Lanes int
	// Progress is called when something happens; it may be nil.
	Progress func(Progress)
}

// Progress is how far a run has come.
type Progress struct {
	// Stage is the current stage, in words.
	Stage        string
	Done, Faults int
	Requests     int64
	// Last is the last fault, and Note what was strange about it.
	Last, Note string
}

const (
	defaultCallers = 20
	defaultLanes   = 3
	// think is the mean pause of a client between two calls.
	think = 250 * time.Millisecond
	// warmUp is how many calls are made before the first fault.
	warmUp = 50
)

// fill sets the fields that are zero to their defaults.
func (c *Config) fill() {
	if c.Callers == 0 {
		c.Callers = defaultCallers
	}
	if c.Lanes == 0 {
		c.Lanes = defaultLanes
	}
	if c.Progress == nil {
		c.Progress = func(Progress) {}
	}
}

// Run makes a run and returns its report. An error says why the run could not be made or
// judged. A run that went wrong is no error; see Report.Wrong. The files stay in Dir, and
// Clean removes them.
func Run(ctx context.Context, cfg Config) (r *Report, err error) {
	cfg.fill()
	cells := plan.Select(plan.Cells(), cfg.Match)
	if cfg.Plant != "" && cfg.Match == nil {
		cells = plan.Showing(cfg.Plant)
	}
	if len(cells) == 0 {
		return nil, errors.New("chaos: no cell is selected")
	}
	faults := plan.Make(cfg.Seed, cfg.Faults, cells)
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("chaos: %w", err)
	}
	cfg.Progress(Progress{Stage: "starting the fleet", Faults: len(faults)})
	_, nights := plan.Days(faults)
	m, err := open(ctx, cfg, len(nights) > 0)
	if err != nil {
		return nil, fmt.Errorf("chaos: %w", err)
	}
	defer func() {
		cfg.Progress(Progress{Stage: "stopping the fleet", Done: len(faults), Faults: len(faults)})
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), restoreBound)
		defer cancel()
		if closeErr := m.close(ctx); closeErr != nil {
			err = errors.Join(err, fmt.Errorf("chaos: %w", closeErr))
		}
	}()
	if m.paying != nil {
		if err := errors.Join(paychain.Book(ctx, m.peers()), m.stakeAll(ctx)); err != nil {
			return nil, fmt.Errorf("chaos: %w", err)
		}
	}
	run := newRun(cfg, m, faults)
	return run.all(ctx)
}

// Clean removes the files of a run.
func Clean(dir string) error {
	fleets, err := filepath.Glob(filepath.Join(dir, fleetFolder+"*"))
	if err != nil {
		return fmt.Errorf("clean the folder of a run: %w", err)
	}
	var errs []error
	for _, fleet := range fleets {
		errs = append(errs, localdata.RemovePostgres(fleet))
	}
	return errors.Join(append(errs, os.RemoveAll(dir))...)
}

// run is a run under way.
type run struct {
	cfg    Config
	market *market
	faults []plan.Fault
	load   *caller.Load
	watch  *watch
	report *Report
	began  time.Time
	// loads counts the loads so far: each has nonces of its own.
	loads uint64
}

func newRun(cfg Config, m *market, faults []plan.Fault) *run {
	return &run{cfg: cfg, market: m, faults: faults, watch: newWatch(m), report: newReport(cfg, faults), began: time.Now()}
}

// all runs from the first call to the verdict.
func (r *run) all(ctx context.Context) (*Report, error) {
	r.startLoad()
	err := r.warmUp(ctx)
	if err == nil {
		err = r.hurt(ctx)
	}
	if err == nil {
		err = r.nights(ctx)
	}
	r.stopLoad()
	if err != nil {
		return nil, fmt.Errorf("chaos: %w", err)
	}
	if err := r.settle(ctx); err != nil {
		return nil, fmt.Errorf("chaos: %w", err)
	}
	if err := r.judge(ctx); err != nil {
		return nil, fmt.Errorf("chaos: %w", err)
	}
	r.report.Took = time.Since(r.began)
	return r.report, nil
}

// startLoad starts the callers, and stopLoad lets the calls under way end.
func (r *run) startLoad() {
	r.load = caller.Start(caller.Config{
		Seed: r.cfg.Seed + r.loads<<32, Callers: r.cfg.Callers, Accounts: r.market.accounts, Models: r.market.modelIDs(),
		Gateways: r.market.fleet.Gateways(), Think: think, Bound: callBound, Ended: r.watch.ended,
	})
	r.loads++
}

func (r *run) stopLoad() {
	r.tell("letting the load end", "", "")
	r.report.Requests += r.load.Stop()
}

func (r *run) tell(stage, last, note string) {
	r.cfg.Progress(Progress{
		Stage: stage, Done: r.report.done(), Faults: len(r.faults), Requests: r.load.Calls(), Last: last, Note: note,
	})
}

// warmUp returns when calls succeed.
func (r *run) warmUp(ctx context.Context) error {
	r.tell("warming up", "", "")
	ctx, cancel := context.WithTimeout(ctx, restoreBound)
	defer cancel()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for r.load.Calls() < warmUp {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("%d calls have ended: %w", r.load.Calls(), ctx.Err())
		}
	}
	return nil
}

// Replay is the command that repeats the run.
func (c Config) Replay() string {
	command := "make chaos CHAOS_SEED=" + strconv.FormatUint(c.Seed, 10)
	if c.Faults != 0 {
		command += " CHAOS_FAULTS=" + strconv.Itoa(c.Faults)
	}
	if c.Match != nil {
		command += " CHAOS_CELLS='" + c.Match.String() + "'"
	}
	if c.Plant != "" {
		command += " CHAOS_PLANT=" + c.Plant
	}
	if c.Lanes != 0 && c.Lanes != defaultLanes {
		command += " CHAOS_FLAGS='-lanes " + strconv.Itoa(c.Lanes) + "'"
	}
	return command
}
