package snapshot

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	"svc.internal/services/catalog/internal/entry"
	"svc.internal/services/catalog/internal/guarantee"
	"svc.internal/services/catalog/internal/weights"
)

// Entries reads the catalog as it is stored.
type Entries interface {
	// Load reads all entries, ordered by id, unless the stored revision is
	// the known one.
	Load(ctx context.Context, known int64) (revision int64, models []entry.Model, changed bool, err error)
	// LoadWeights reads what models consist of, by model id, unless the stored
	// revision of weights is the known one.
	LoadWeights(ctx context.Context, known int64) (revision int64, sets map[string]weights.Set, changed bool, err error)
}

// Supplies asks what is online, by model id.
type Supplies interface {
	Supply(ctx context.Context) (map[string]guarantee.Supply, error)
}

// Config paces a Keeper.
type Config struct {
	// SupplyInterval is the pause between two calls of the router, and the time that
	// each call has.
	SupplyInterval time.Duration
	// SupplyExpiry is how long an answer of the router counts while no newer one
	// comes.
	SupplyExpiry time.Duration
	// RepairInterval is how often entries are read without a hint.
	RepairInterval time.Duration
}

// Deps are the parts a Keeper works with.
type Deps struct {
	Entries Entries
	// Supplies is nil where nothing is asked for.
	Supplies Supplies
	Clock    clock.Clock
	Log      *slog.Logger
}

// Keeper keeps the newest Snapshot. It is safe for concurrent use.
type Keeper struct {
	cfg  Config
	deps Deps
	// hints holds at most one, because a second would say the same.
	hints chan struct{}
	// loading is held by the goroutine that reads entries, so that an older reading
	// never replaces a newer one.
	loading chan struct{}
	stopped chan struct{}

	mu       sync.Mutex
	current  *Snapshot     // nil before the first
	next     chan struct{} // closed when current is replaced
	stored   []entry.Model
	revision int64 // of stored
	weights  map[string]weights.Set
	weighed  int64 // the revision of weights
	supply   map[string]guarantee.Supply
	heardAt  time.Time // when supply was answered
	silent   bool      // the router's last answer was an error
}

// retryAfter is the pause after entries could not be read.
const retryAfter = time.Second

// unread is a revision that the store never has.
const unread = -1

// NewKeeper makes a keeper that knows nothing until Run has begun.
func NewKeeper(cfg Config, deps Deps) *Keeper {
	return &Keeper{
		cfg: cfg, deps: deps,
		hints: make(chan struct{}, 1), loading: make(chan struct{}, 1), stopped: make(chan struct{}),
		next: make(chan struct{}), revision: unread, weighed: unread,
	}
}

// Current returns the newest snapshot and a channel that is closed when the snapshot is
// replaced. It fails with Unavailable before the first snapshot.
func (k *Keeper) Current() (*Snapshot, <-chan struct{}, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.current == nil {
		return nil, nil, fault.New(fault.Unavailable, fault.ServiceUnavailable, "the catalog has not been read yet").After(
			time.Second)
	}
	return k.current, k.next, nil
}

// WithSupply returns an entry with what its providers now guarantee.
func (k *Keeper) WithSupply(e entry.Model) Model {
	k.mu.Lock()
	defer k.mu.Unlock()
	return withSupply(e, k.supply)
}

// SupplyAge returns how long ago the router last said what is online, and whether it ever
// did.
func (k *Keeper) SupplyAge() (age time.Duration, known bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.deps.Clock.Now().Sub(k.heardAt), !k.heardAt.IsZero()
}

// Stopped returns a channel that is closed when Run has ended, after which no newer
// snapshot comes.
func (k *Keeper) Stopped() <-chan struct{} { return k.stopped }

// Hint says that the stored entries may have changed. It never blocks.
func (k *Keeper) Hint() {
	select {
	case k.hints <- struct{}{}:
	default:
	}
}

// Run keeps the snapshot up to date until ctx ends. It is called once.
func (k *Keeper) Run(ctx context.Context) {
	defer close(k.stopped)
	var both sync.WaitGroup
	both.Go(func() { k.followEntries(ctx) })
	both.Go(func() { k.followSupply(ctx) })
	both.Wait()
}

// followEntries reads entries after a hint, at each repair, and again soon after a failure.
func (k *Keeper) followEntries(ctx context.Context) {
	repair := time.NewTicker(k.cfg.RepairInterval)
	defer repair.Stop()
	for {
		var retry <-chan time.Time
		if err := k.Refresh(ctx); err != nil && ctx.Err() == nil {
			k.deps.Log.WarnContext(ctx, "the catalog could not be read", "error", err)
			retry = time.After(retryAfter)
		}
		select {
		case <-ctx.Done():
			return
		case <-k.hints:
		case <-repair.C:
		case <-retry:
		}
	}
}

// Refresh reads what is stored and makes a snapshot of it if it has changed.
func (k *Keeper) Refresh(ctx context.Context) error {
	select {
	case k.loading <- struct{}{}:
		defer func() { <-k.loading }()
	case <-ctx.Done():
		return ctx.Err()
	}
	k.mu.Lock()
	known, weighed := k.revision, k.weighed
	k.mu.Unlock()
	revision, stored, changed, err := k.deps.Entries.Load(ctx, known)
	if err != nil {
		return err
	}
	newest, sets, reweighed, err := k.deps.Entries.LoadWeights(ctx, weighed)
	if err != nil || !changed && !reweighed {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if changed {
		k.revision, k.stored = revision, stored
	}
	if reweighed {
		k.weighed, k.weights = newest, sets
	}
	models, _ := merge(k.stored, k.supply, nil)
	k.publishLocked(models)
	return nil
}

// followSupply asks the router at every interval.
func (k *Keeper) followSupply(ctx context.Context) {
	k.resupply(ctx)
	for range clock.Every(ctx, k.cfg.SupplyInterval) {
		k.resupply(ctx)
	}
}

func (k *Keeper) resupply(ctx context.Context) {
	asked, cancel := context.WithTimeout(ctx, k.cfg.SupplyInterval)
	defer cancel()
	supply, err := k.deps.Supplies.Supply(asked)
	if ctx.Err() != nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.deps.Clock.Now()
	k.logSilenceLocked(ctx, err)
	switch {
	case err == nil:
		k.supply, k.heardAt = supply, now
	case now.Sub(k.heardAt) >= k.cfg.SupplyExpiry:
		k.supply = nil
	}
	if k.current == nil {
		return
	}
	if models, changed := merge(k.stored, k.supply, k.current.Models); changed {
		k.publishLocked(models)
	}
}

// logSilenceLocked logs once that the router went away, and once that it came back.
func (k *Keeper) logSilenceLocked(ctx context.Context, err error) {
	switch {
	case err != nil && k.heardAt.IsZero():
		// Services start in any order, so nothing is missed yet.
		return
	case err != nil && !k.silent:
		k.deps.Log.WarnContext(ctx, "the router does not say what is online", "error", err)
	case err == nil && k.silent:
		k.deps.Log.InfoContext(ctx, "the router says again what is online")
	}
	k.silent = err != nil
}

// publishLocked makes a new snapshot the current one and wakes everyone who waits for it.
func (k *Keeper) publishLocked(models []Model) {
	next := &Snapshot{Revision: 1, Models: models, Weights: k.weights}
	if k.current != nil {
		next.Revision = k.current.Revision + 1
	}
	k.current = next
	close(k.next)
	k.next = make(chan struct{})
}
