package slice

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/limit"
	"svc.internal/services/billing-ledger/internal/price"
)

// shifted is a machine's clock that runs apart from the database's.
type shifted time.Duration

func (s shifted) Now() time.Time { return time.Now().Add(time.Duration(s)) }

// errLost is the error of a lost connection.
var errLost = errors.New("connection lost")

// lossy is a Keeper whose connections break before, during and after transactions.
type lossy struct {
	*simulation
	mu   sync.Mutex
	dead bool
	// lie changes what the owner writes or is told; nil for nothing.
	lie func(turns []Turn, states []State)
}

func (l *lossy) isDead() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead
}

func (l *lossy) Turn(ctx context.Context, owner Owner, turns []Turn) ([]State, error) {
	if l.isDead() {
		return nil, errLost
	}
	if l.lie != nil {
		l.lie(turns, nil)
	}
	// The store keeps what it was sent when the owner goes on.
	sent := slices.Clone(turns)
	for i := range sent {
		sent[i].Pins = slices.Clone(sent[i].Pins)
	}
	if !l.wait(ctx, 2) { // on the way to the store
		return nil, errLost
	}
	switch n := l.number(100); {
	case n < l.faults.lostBefore:
		return nil, errLost
	case n < l.faults.lostBefore+l.faults.late:
		l.tasks.Go(func() {
			_ = clock.Sleep(context.Background(), time.Duration(l.number(3000))*time.Millisecond)
			_, _ = l.world.Turn(context.Background(), owner, sent)
		})
		_ = clock.Sleep(ctx, time.Duration(l.number(2500))*time.Millisecond)
		return nil, errLost
	case n < l.faults.lostBefore+l.faults.late+l.faults.lostAfter:
		_, _ = l.world.Turn(ctx, owner, sent)
		return nil, errLost
	}
	states, err := l.world.Turn(ctx, owner, sent)
	if l.isDead() {
		return nil, errLost
	}
	if l.lie != nil && err == nil {
		l.lie(nil, states)
	}
	return states, err
}

// replica is one process of the ledger.
type replica struct {
	owner    Owner
	keeper   *lossy
	slices   *Slices
	admitter *hold.Admitter
	stop     context.CancelFunc
	ended    sync.WaitGroup
}

// faults are in percent of turns.
type faults struct {
	lostBefore, lostAfter, late int
	// killEvery and lives are in milliseconds at most: the time between two kills, 0 for none, and how
	// long requests run, in steps of equal probability.
	killEvery int
	lives     []int
	lie       func(turns []Turn, states []State)
	world     func(w *world)
}

// simulation runs replicas, clients and changes against a world, and knows the truth.
type simulation struct {
	faults faults
	world  *world
	prices *price.Book
	tasks  sync.WaitGroup

	mu       sync.Mutex
	random   *rand.Rand
	bytes    *rand.ChaCha8
	replicas []*replica
	lives    byte

	// What is true: requests that were admitted and are not settled, all that were ever admitted, keys
	// that were revoked, and why it is wrong.
	running  map[ids.RequestID]hold.Admission
	admitted map[ids.RequestID]hold.Admission
	begun    map[rateName][]time.Time
	revoked  map[ids.KeyID]bool
	fromPin  int
	refused  map[hold.Outcome]int
	broken   error
}

// rateName names a rate: of a key, or of an account's zero-priced models.
type rateName struct {
	key     ids.KeyID
	account ids.AccountID
}

func newSimulation(seed uint64, f faults) *simulation {
	if f.lives == nil {
		f.lives = []int{1, 100, 1000, 4000}
	}
	s := &simulation{
		faults: f, random: rand.New(rand.NewPCG(seed, 1)), bytes: rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)}),
		world: newWorld(rand.New(rand.NewPCG(seed, 2))), prices: &price.Book{},
		running: map[ids.RequestID]hold.Admission{}, admitted: map[ids.RequestID]hold.Admission{},
		begun: map[rateName][]time.Time{}, revoked: map[ids.KeyID]bool{}, refused: map[hold.Outcome]int{},
	}
	s.prices.Replace(map[string]price.Model{
		"m":    {ID: "m", Class: limit.LLM, Rates: money.Rates{Output: 1000, PayoutOutput: 1000}},
		"free": {ID: "free", Class: limit.LLM},
	})
	s.world.addWallet(1, 1_000_000_000, 100, 60_000, 2)
	s.world.addWallet(2, 4_000, 100, 60_000, 1)
	s.world.addWallet(3, 1_000_000_000, 100, 500, 1)
	s.world.addWallet(4, 1_000_000_000, 12, 60_000, 1)
	s.world.addWallet(5, 1_000, 50, 600, 2)
	if f.world != nil {
		f.world(s.world)
	}
	return s
}

func (s *simulation) number(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.random.IntN(n)
}

func (s *simulation) wait(ctx context.Context, ms int) bool {
	return clock.Sleep(ctx, time.Duration(1+s.number(ms*1000))*time.Microsecond) == nil
}

func (s *simulation) breaks(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken == nil {
		s.broken = fmt.Errorf(format, args...)
	}
}

func (s *simulation) wrong() error {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	return cmp.Or(s.broken, s.world.broken)
}

// start starts a replica.
func (s *simulation) start(ctx context.Context) *replica {
	s.mu.Lock()
	s.lives++
	r := &replica{owner: Owner{ID: [16]byte{s.lives}}, keeper: &lossy{simulation: s, lie: s.faults.lie}}
	skew := shifted(time.Duration(s.random.IntN(20_000)-10_000) * time.Millisecond)
	s.mu.Unlock()
	log := slog.New(slog.DiscardHandler)
	r.slices = New(DefaultConfig(r.owner), Deps{Keeper: r.keeper, Writer: s.world.WritePins, Clock: skew, Log: log})
	r.admitter = hold.NewAdmitter(hold.Config{Batch: 16, Queue: 1000, Writers: 2, Timeout: 5 * time.Second},
		hold.Deps{Prices: s.prices, Store: s.world, Slices: r.slices, Observe: func(hold.Outcome, int) {}})
	ctx, r.stop = context.WithCancel(ctx)
	r.ended.Go(func() { r.slices.Run(ctx) })
	r.ended.Go(func() { r.admitter.Run(ctx) })
	return r
}

// any returns a replica.
func (s *simulation) any() *replica {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.replicas[s.random.IntN(len(s.replicas))]
}

// owner returns the replica with an owner's id, nil when it is dead.
func (s *simulation) owner(id [16]byte) *replica {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.replicas {
		if r.owner.ID == id {
			return r
		}
	}
	return nil
}

// kill ends a replica at once and starts another.
func (s *simulation) kill(ctx context.Context) {
	old, fresh := s.any(), s.start(ctx)
	old.keeper.mu.Lock()
	old.keeper.dead = true
	old.keeper.mu.Unlock()
	s.mu.Lock()
	s.replicas[slices.Index(s.replicas, old)] = fresh
	s.mu.Unlock()
	old.stop()
}

// request is the life of one request.
func (s *simulation) request(ctx context.Context, ask hold.AdmitRequest) {
	s.mu.Lock()
	wasRevoked := s.revoked[ask.Key]
	s.mu.Unlock()
	a, ok := s.admit(ctx, ask)
	if !ok {
		return
	}
	if wasRevoked {
		s.breaks("a request of key %s was admitted after the key was revoked", ask.Key)
	}
	if s.number(500) == 0 { // somebody repeats it
		if again, ok := s.admit(ctx, ask); ok && a.Pin != nil && again.Pin != nil && a.Pin.Epoch == again.Pin.Epoch {
			s.breaks("slice %d admitted request %s twice", a.Pin.Epoch, ask.Request)
		}
	}
	if most := s.faults.lives[s.number(len(s.faults.lives))]; !s.wait(ctx, most) {
		return
	}
	s.settle(ctx, a, ask.Request)
}

// admit asks a replica, and the owner of a slice that it meets.
func (s *simulation) admit(ctx context.Context, ask hold.AdmitRequest) (hold.Admission, bool) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	r := s.any()
	a, err := r.admitter.Admit(ctx, ask)
	if open, ok := hold.AsSliceOpen(err); ok {
		if r = s.owner(open.Owner); r == nil {
			return a, false
		}
		a, err = r.admitter.Admit(ctx, ask)
	}
	if err != nil || r.keeper.isDead() {
		return a, false
	}
	s.note(ask, a)
	return a, true
}

// note checks an admission against the truth.
func (s *simulation) note(ask hold.AdmitRequest, a hold.Admission) {
	s.world.mu.Lock()
	posted, maxOpen := s.world.wallets[a.Account].posted, s.world.wallets[a.Account].maxOpen
	defer s.world.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, repeated := s.admitted[ask.Request]; repeated {
		return
	}
	s.running[ask.Request], s.admitted[ask.Request] = a, a
	if a.Pin != nil {
		s.fromPin++
	}
	if !a.ExpiresAt.IsZero() {
		at := a.ExpiresAt.Add(-a.Lease)
		name := rateName{key: ask.Key}
		s.begun[name] = append(s.begun[name], at)
		if a.Billing == hold.Free {
			name = rateName{account: a.Account}
			s.begun[name] = append(s.begun[name], at)
		}
	}
	s.checkSliceLocked(a)
	var sum money.NanoUSD
	var n int64
	for _, one := range s.running {
		if one.Account == a.Account {
			sum += one.Held
			n++
		}
	}
	if s.broken == nil && sum > posted {
		s.broken = fmt.Errorf("account %s: requests of %d run on a credit of %d", a.Account, sum, posted)
	}
	if s.broken == nil && n > maxOpen {
		s.broken = fmt.Errorf("account %s: %d requests run, of at most %d", a.Account, n, maxOpen)
	}
}

// checkSliceLocked checks that a slice has the credit and the places of all that it admitted and that is
// not written yet, whenever its owner may die.
func (s *simulation) checkSliceLocked(a hold.Admission) {
	if a.Pin == nil {
		return
	}
	var sum money.NanoUSD
	var n int64
	for request, one := range s.running {
		if one.Pin != nil && one.Pin.Epoch == a.Pin.Epoch && s.world.holds[request] == nil {
			sum += one.Held
			n++
		}
	}
	slice := s.world.slices[a.Pin.Epoch]
	if n == 0 || slice != nil && sum <= slice.amount && n <= slice.places || s.broken != nil {
		return
	}
	s.broken = fmt.Errorf("%d requests of %d are unwritten, whose slice %d is %+v", n, sum, a.Pin.Epoch, slice)
}

// settle settles a request at any replica, which writes its hold first.
func (s *simulation) settle(ctx context.Context, a hold.Admission, request ids.RequestID) {
	for a.Pin != nil {
		if err := s.any().slices.Write(ctx, []hold.Pin{*a.Pin}); err == nil {
			break
		}
		if !s.wait(ctx, 100) {
			return
		}
	}
	s.mu.Lock()
	delete(s.running, request)
	s.mu.Unlock()
	if err := s.world.Settle(ctx, request, a.Held/10); err != nil && ctx.Err() == nil {
		s.breaks("request %s, whose pin %+v was written, could not be settled: %w", request, a.Pin, err)
	}
}

// change changes an account, and has its slice recalled as often as it needs to.
func (s *simulation) change(ctx context.Context, id ids.AccountID, do func(one *wallet)) bool {
	for ctx.Err() == nil {
		err := s.world.Change(ctx, id, do)
		if err == nil {
			return true
		}
		open, ok := hold.AsSliceOpen(err)
		if r := s.owner(open.Owner); ok && r != nil {
			_ = r.slices.Recall(ctx, id)
		} else if !s.wait(ctx, 300) {
			break
		}
	}
	return false
}

// revoke revokes a key of an account and gives it another.
func (s *simulation) revoke(ctx context.Context, id ids.AccountID) {
	var revoked ids.KeyID
	if s.change(ctx, id, func(one *wallet) {
		for _, k := range one.keys {
			if !k.revoked {
				k.revoked, revoked = true, k.id
				s.world.addKey(one, k.limits[0])
				return
			}
		}
	}) {
		s.mu.Lock()
		s.revoked[revoked] = true
		s.mu.Unlock()
		for range 3 { // somebody has not heard of it
			ask := s.ask(id)
			ask.Key = revoked
			s.request(ctx, ask)
		}
	}
}

// ask makes a request of a random key of an account.
func (s *simulation) ask(id ids.AccountID) hold.AdmitRequest {
	s.world.mu.Lock()
	var keys []ids.KeyID
	late := s.world.random.IntN(300) == 0 // perhaps a key that was revoked
	for _, k := range s.world.wallets[id].keys {
		if late || !k.revoked {
			keys = append(keys, k.id)
		}
	}
	s.world.mu.Unlock()
	slices.SortFunc(keys, func(a, b ids.KeyID) int { return strings.Compare(a.String(), b.String()) })
	s.mu.Lock()
	defer s.mu.Unlock()
	made := time.Now().Add(time.Duration(s.random.IntN(400)-350) * time.Millisecond)
	request, _ := ids.NewRequest(made, s.bytes)
	r := hold.AdmitRequest{Request: request, Key: keys[s.random.IntN(len(keys))], Model: "m",
		MaxCompletionTokens: int64(1 + s.random.IntN(200))}
	if id[15] == 5 && s.random.IntN(3) > 0 {
		r.Model = "free"
	}
	return r
}

// run runs everything for a time, then lets it end.
func (s *simulation) run(ctx context.Context, d time.Duration) {
	for range 2 {
		s.replicas = append(s.replicas, s.start(ctx))
	}
	load, stop := context.WithTimeout(ctx, d)
	defer stop()
	for n := range byte(5) {
		id := ids.AccountID{15: n + 1}
		s.tasks.Go(func() {
			for s.wait(load, 25) {
				s.tasks.Go(func() { s.request(ctx, s.ask(id)) })
			}
		})
		s.tasks.Go(func() {
			for n != 2 && s.wait(load, 6000) { // a new key has a new rate, which is not used up
				s.revoke(ctx, id)
			}
		})
	}
	if s.faults.killEvery > 0 {
		s.tasks.Go(func() {
			for s.wait(load, s.faults.killEvery) {
				s.kill(ctx)
			}
		})
	}
	s.tasks.Wait()
	for _, r := range s.replicas {
		r.stop()
		r.ended.Wait()
	}
}

// end checks what is left when all requests have ended.
func (s *simulation) end(ctx context.Context) {
	_ = clock.Sleep(ctx, 2*modelReclaim)
	for id := range s.world.wallets { // strands what nobody closed
		_ = s.world.Change(ctx, id, func(*wallet) {})
	}
	_ = clock.Sleep(ctx, 2*modelReclaim)
	_ = s.world.Reclaim(ctx)
	if n := len(s.world.slices); n > 0 {
		s.breaks("%d slices are left", n)
	}
	for request := range s.admitted {
		if h := s.world.holds[request]; h == nil || h.open {
			s.breaks("the hold of request %s is %+v", request, h)
		}
	}
	for name, begun := range s.begun {
		s.checkRate(name, begun)
	}
	for _, r := range s.replicas {
		if n := r.slices.Waiting(); n != 0 {
			s.breaks("%d requests count as unwritten", n)
		}
		if n := r.slices.Open(); n != 0 {
			s.breaks("%d accounts count as having a slice", n)
		}
	}
}

// checkRate checks that no span of time began more requests than a rate allows.
func (s *simulation) checkRate(name rateName, begun []time.Time) {
	slices.SortFunc(begun, time.Time.Compare)
	one := s.world.wallets[name.account]
	if one == nil {
		one = s.world.ofKey[name.key]
	}
	var perMinute int32
	for _, k := range one.keys {
		perMinute = k.limits[0]
	}
	m, at := limit.Meter{PerMinute: perMinute}, time.Time{}
	for _, t := range begun {
		m.Ahead, at = left(m.Ahead, at, t), t
		if m.Room() <= 0 {
			s.breaks("the rate %v of %d a minute was passed", name, perMinute)
		}
		m = m.Take()
	}
}

// simulate runs a simulation, and returns what it found wrong and the share of requests that slices
// admitted.
func simulate(t *testing.T, seed uint64, f faults) (fromSlices, all int, wrong error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newSimulation(seed, f)
		s.run(t.Context(), 12*time.Second)
		s.end(t.Context())
		wrong, fromSlices, all = s.wrong(), s.fromPin, len(s.admitted)
	})
	return fromSlices, all, wrong
}

func TestSlicesAreExactWhateverFails(t *testing.T) {
	for name, f := range map[string]faults{
		"nothing fails":     {},
		"turns fail":        {lostBefore: 5, lostAfter: 5, late: 2},
		"owners are killed": {killEvery: 8000},
		"everything fails":  {lostBefore: 4, lostAfter: 4, late: 2, killEvery: 8000},
	} {
		t.Run(name, func(t *testing.T) {
			var fromSlices, all int
			for seed := range uint64(3) {
				n, of, wrong := simulate(t, seed, f)
				if wrong != nil {
					t.Errorf("seed %d: %v", seed, wrong)
				}
				fromSlices, all = fromSlices+n, all+of
			}
			t.Logf("slices admitted %d of %d requests", fromSlices, all)
			if fromSlices*10 < all {
				t.Errorf("slices admitted %d of %d requests, want a tenth of them", fromSlices, all)
			}
		})
	}
}

// A simulation that finds no fault proves little unless it finds those that are there.
func TestTheSimulationFindsPlantedFaults(t *testing.T) {
	told := func(change func(st *State)) func([]Turn, []State) {
		return func(_ []Turn, states []State) {
			for i := range states {
				change(&states[i])
			}
		}
	}
	sent := func(change func(t *Turn)) func([]Turn, []State) {
		return func(turns []Turn, _ []State) {
			for i := range turns {
				change(&turns[i])
			}
		}
	}
	for name, f := range map[string]faults{
		"an owner has less credit than it thinks": {lie: told(func(st *State) { st.Amount += 500 })},
		"an owner forgets open requests":          {lie: told(func(st *State) { st.Account.Open, st.Places = 0, MaxPlaces })},
		"an owner begins with fresh rates": {lie: told(func(st *State) {
			for i := range st.Keys {
				st.Keys[i].Ahead = [limit.Classes]time.Duration{}
			}
		})},
		"an owner does not write rates":  {lie: sent(func(t *Turn) { t.Ahead = nil })},
		"an owner loses a pin":           {lie: sent(func(t *Turn) { t.Pins = t.Pins[min(1, len(t.Pins)):] })},
		"an owner's time is ahead":       {lie: told(func(st *State) { st.Account.Now = st.Account.Now.Add(time.Second) })},
		"the exact path decides beside":  {world: func(w *world) { w.forgetsGuard = true }},
		"changes do not wait for owners": {world: func(w *world) { w.forgetsChanges = true }},
		"rates of the stranded are fresh": {killEvery: 3000, lostBefore: 10,
			world: func(w *world) { w.forgetsStrandedRates = true }},
		"places of the stranded are free": {killEvery: 3000, lostBefore: 50, lives: []int{20_000},
			world: func(w *world) { w.forgetsPlaces = true }},
		"a pin leaves its amount":      {world: func(w *world) { w.keepsAmount = true }},
		"credit of slices is not held": {world: func(w *world) { w.grantsUnheld = true }},
		"owners are dead too early":    {late: 6, world: func(w *world) { w.lease = Trust / 10 }},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(40) {
				if _, _, wrong := simulate(t, seed, f); wrong != nil {
					t.Logf("seed %d: %v", seed, wrong)
					return
				}
			}
			t.Error("40 seeds found nothing")
		})
	}
}
