package settlement_test

import (
	"context"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"svc.internal/pkg/crash"
	"svc.internal/pkg/crash/crashtest"
	"svc.internal/pkg/pg/devclock"
	"svc.internal/services/proving/internal/fleet"
	"svc.internal/services/proving/internal/paychain"
	"svc.internal/services/proving/internal/peers"
	"svc.internal/services/proving/internal/trial"
)

// killing is a town of separate processes with one chain, whose settlement, chain-signer and billing-ledger are killed
// at the points that are armed, and started again.
type killing struct {
	*town
	t      *testing.T
	paid   *paychain.Chains
	points *crashtest.Controller
	peers  peers.Services
	o      *owner

	// from is the block behind which the first story happens.
	from *big.Int
	// month is that of the plan that was sold.
	month string

	// mu is held while a process is killed and started, and while time passes.
	mu sync.Mutex
	// left are the points that were armed and not reached yet.
	left map[string]bool
}

// on is the town's chain.
const on = paychain.Dollars

// hot is what the wallet for payouts begins with, in millionths of a dollar.
const hot = 1_000_000_000

// impatience is how far the database's time moves when a process was killed, so that what the dead one had taken for
// itself is due again.
const impatience = time.Minute

func newKilling(t *testing.T) *killing {
	t.Helper()
	bin := trial.Programs(t, "crashpoints")
	k := &killing{t: t, town: &town{Town: &trial.Town{Killed: true}}, left: map[string]bool{}}
	var err error
	if k.points, err = crashtest.New(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.points.Close(); err != nil {
			t.Error(err)
		}
	})
	dir := trial.Dir(t)
	k.startChain(t, paychain.Seed(dir))
	k.DatabaseURL = trial.MovableDatabase(t)
	configure := k.settings(t)
	k.Market = trial.StartFleet(t, func(c *fleet.Config) {
		c.Dir, c.BinDir, c.DatabaseURL, c.Settings = dir, bin, k.DatabaseURL, configure
		c.Environ = []string{crash.EnvSocket + "=" + k.points.Socket()}
		c.Replicas = map[string]int{fleet.Agent: 0, fleet.Engine: 0}
		for _, service := range fleet.Services() {
			c.Replicas[service] = 1
		}
	})
	k.peers = peers.Services{Fleet: k.Fleet()}
	k.open(t)
	if err := k.peers.BuyTokens(t.Context(), peers.Bought{Chain: "8453", Transaction: "0x" + strings.Repeat("f0", 32),
		Token: "8453:usdc", Units: hot}); err != nil {
		t.Fatal(err)
	}
	k.o = k.newOwner(t, "kim", 0x51)
	return k
}

// startChain starts the chain, for the signer whose seed is in a file.
func (k *killing) startChain(t *testing.T, seed string) {
	t.Helper()
	var err error
	if k.paid, err = paychain.Start(t.Context(), seed, on); paychain.MayBeMissing(err) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.paid.Stop)
	if err := k.paid.Chain(on).Mint(t.Context(), k.paid.Keys["payout"], hot); err != nil {
		t.Fatal(err)
	}
	k.Chains = map[uint64]string{on: k.paid.Chain(on).URL}
}

// settings are those of the processes that know the chain, and of a ledger that closes its days at once.
func (k *killing) settings(t *testing.T) map[string]map[string]any {
	t.Helper()
	chains, allowed, err := k.paid.Settings()
	if err != nil {
		t.Fatal(err)
	}
	return map[string]map[string]any{
		fleet.Billing: {"billing": map[string]any{"seal_interval": "1s"}},
		fleet.Settlement: {"settlement": map[string]any{"chains": chains, "development": true,
			"quotes": map[string]any{"fixed": map[string]any{"8453:eth": "3000"}}, "batch": map[string]any{"interval": "500ms"},
			"payouts": map[string]any{"alone_usd": alone}, "collateral": map[string]any{"card": true}}},
		fleet.Signer: {"signer": map[string]any{"chains": allowed}},
	}
}

// alone is the most of a payout, in dollars, that needs no operator.
const alone = 20

// program is the program that stands at a point.
func program(point string) string {
	switch first, _, _ := strings.Cut(point, "."); first {
	case "signer":
		return fleet.Signer
	case "billing":
		return fleet.Billing
	default:
		return fleet.Settlement
	}
}

// matters says of points that are passed without a story's work too when it is the story's. All others matter always.
var matters = map[string]func(*killing) bool{
	"settlement.watch.before_commit": func(k *killing) bool {
		p, err := k.o.readPosition(context.Background(), on, "finalized")
		return err == nil && p.free.Sign() > 0 && !k.is(k.read())
	},
	"settlement.watch.committed": func(k *killing) bool { return k.is(k.read()) },
	"settlement.position.before_commit": func(k *killing) bool {
		return k.is(k.read() + ` AND NOT EXISTS (SELECT FROM settlement.position_event WHERE units <> 0)`)
	},
	"settlement.position.applied": func(k *killing) bool {
		return k.is(`EXISTS (SELECT FROM settlement.position_event WHERE units <> 0)`)
	},
}

// read is an expression that says whether the contract's event of the story was read.
func (k *killing) read() string {
	return fmt.Sprintf(`EXISTS (SELECT FROM settlement.chain_event WHERE block > %s)`, k.from)
}

// is reports what an expression says in the database.
func (k *killing) is(expression string) (so bool) {
	if err := k.db.QueryRow(context.Background(), `SELECT `+expression).Scan(&so); err != nil {
		k.t.Errorf("%s: %v", expression, err)
	}
	return so
}

// arm has a process killed when it first comes to each of the points from now on.
func (k *killing) arm(points ...string) {
	for _, point := range points {
		k.mu.Lock()
		k.left[point] = true
		k.mu.Unlock()
		stand := k.points.Arm(point, 1)
		go func() {
			for {
				select {
				case pid := <-stand.Reached():
					if when := matters[point]; when == nil || when(k) {
						k.kill(point, pid)
						stand.Release()
						return
					}
				case <-k.t.Context().Done():
					stand.Release()
					return
				}
				passed := stand
				stand = k.points.Arm(point, 1)
				passed.Release()
			}
		}()
	}
}

// kill kills the process that stands at a point and starts it again. One that stands at several points dies once for
// all of them.
func (k *killing) kill(point string, pid int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	defer delete(k.left, point)
	name := k.Fleet().Replicas(program(point))[0]
	if k.Fleet().Pid(name) != pid {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), trial.Patience)
	defer cancel()
	if err := k.Fleet().Kill(name); err != nil {
		k.t.Errorf("kill at %s: %v", point, err)
	}
	if _, err := devclock.Advance(ctx, k.DatabaseURL, impatience); err != nil {
		k.t.Errorf("let time pass after %s: %v", point, err)
	}
	if err := k.Fleet().Start(ctx, name); err != nil {
		k.t.Errorf("start again after %s: %v", point, err)
	}
}

// dead waits until a process was killed at each of the points.
func (k *killing) dead(t *testing.T, points []string) {
	t.Helper()
	var left []string
	defer func() {
		if len(left) > 0 {
			t.Errorf("nobody came to %q", left)
		}
	}()
	trial.Until(t, "a process was killed at every point", func() bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		left = slices.DeleteFunc(slices.Clone(points), func(point string) bool { return !k.left[point] })
		return len(left) == 0
	})
}

// Pass lets time pass while nobody is being killed.
func (k *killing) Pass(t *testing.T, by time.Duration) {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.Town.Pass(t, by)
}

// posted checks how many entries of each kind the books have.
func (k *killing) posted(t *testing.T, want map[string]int) {
	t.Helper()
	for kind, n := range want {
		if got := k.entries(t, kind); got != n {
			t.Errorf("entries of %s: got %d, want %d", kind, got, n)
		}
	}
}

// gained checks what an account got in millionths of a dollar since it had so many.
func (k *killing) gained(t *testing.T, of string, before, now *big.Int, want int64) {
	t.Helper()
	if got := new(big.Int).Sub(now, before); got.Cmp(big.NewInt(want)) != 0 {
		t.Errorf("what %s received: got %s, want %d", of, got, want)
	}
}
