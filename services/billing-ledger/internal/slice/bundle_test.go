package slice

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/limit"
)

// spy is a Keeper that notes turns, and fails those that fail says.
type spy struct {
	*world
	mu    sync.Mutex
	turns [][]Turn
	fail  func(turns []Turn) error
	// told changes what the owner is told.
	told func(st *State)
}

func (s *spy) Turn(ctx context.Context, owner Owner, turns []Turn) ([]State, error) {
	s.mu.Lock()
	s.turns = append(s.turns, slices.Clone(turns))
	fail, told := s.fail, s.told
	s.mu.Unlock()
	if fail != nil {
		if err := fail(turns); err != nil {
			return nil, err
		}
	}
	states, err := s.world.Turn(ctx, owner, turns)
	for i := range states {
		if told != nil && states[i].Epoch != 0 {
			told(&states[i])
		}
	}
	return states, err
}

// set changes the spy.
func (s *spy) set(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
}

// taken returns the number of transactions.
func (s *spy) taken() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.turns)
}

// bundle is an owner with a world of one account with one key.
type bundle struct {
	*Slices
	world   *world
	spy     *spy
	account *wallet
	key     ids.KeyID
	written []hold.Pin
	stop    func()
	n       uint16
}

// setup runs test in a bubble with an owner whose turns take no time.
func setup(t *testing.T, test func(t *testing.T, b *bundle)) {
	t.Helper()
	setupWith(t, DefaultConfig(Owner{ID: [16]byte{1}}), test)
}

func setupWith(t *testing.T, cfg Config, test func(t *testing.T, b *bundle)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(cfg)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { b.Run(ctx) })
		b.stop = func() {
			cancel()
			running.Wait()
		}
		synctest.Wait()
		test(t, b)
		b.stop()
		if b.world.broken != nil {
			t.Error(b.world.broken)
		}
	})
}

func newBundle(cfg Config) *bundle {
	w := newWorld(rand.New(rand.NewPCG(1, 1)))
	w.latency = 0
	b := &bundle{world: w, spy: &spy{world: w}, account: w.addWallet(1, money.USD, 100, 6000, 1)}
	b.key = ids.KeyID{14: 1, 15: 1}
	b.Slices = New(cfg, Deps{Keeper: b.spy, Clock: clock.System, Log: slog.New(slog.DiscardHandler),
		Writer: func(_ context.Context, pins []hold.Pin) error {
			b.written = append(b.written, pins...)
			return nil
		}})
	return b
}

// request returns a reservation with a fresh id.
func (b *bundle) request(amount money.NanoUSD) hold.Reservation {
	b.n++
	id, _ := ids.NewRequest(time.Now(), zeros{})
	id[14], id[15] = byte(b.n>>8), byte(b.n)
	return hold.Reservation{AdmitRequest: hold.AdmitRequest{Request: id, Key: b.key, Model: "m"}, Class: limit.LLM,
		Billing: hold.PayAsYouGo, Amount: amount}
}

// zeros is no randomness.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// saw has the owner see n requests that the exact path admitted.
func (b *bundle) saw(n int) {
	for range n {
		b.Saw(b.request(10), hold.Decision{Outcome: hold.Admitted, Admission: hold.Admission{Account: b.account.id,
			Billing: hold.PayAsYouGo}})
	}
}

// pass lets time pass.
func pass(t *testing.T, d time.Duration) {
	t.Helper()
	if err := clock.Sleep(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

// open opens the account's slice.
func (b *bundle) open(t *testing.T) {
	t.Helper()
	b.saw(busy)
	pass(t, Every)
	if !b.isOpen() {
		t.Fatal("the account has no slice")
	}
}

func (b *bundle) isOpen() bool {
	b.world.mu.Lock()
	defer b.world.mu.Unlock()
	return len(b.world.slices) > 0
}

// admit admits a request, or fails the test.
func (b *bundle) admit(t *testing.T, amount money.NanoUSD) hold.Pin {
	t.Helper()
	_, pin, ok := b.Admit(t.Context(), b.request(amount))
	if !ok {
		t.Fatal("got doubt, want an admission")
	}
	return pin
}

// holds returns how many of the pins have a hold.
func (b *bundle) holds(pins ...hold.Pin) int {
	b.world.mu.Lock()
	defer b.world.mu.Unlock()
	n := 0
	for _, p := range pins {
		if b.world.holds[p.Request] != nil {
			n++
		}
	}
	return n
}

func same[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
