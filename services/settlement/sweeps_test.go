package settlement

import (
	"context"
	"log/slog"
	"math/big"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/metric/noop"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/pgtest"
	signerv1 "svc.internal/proto/svc/signer/v1"
	"svc.internal/services/settlement/devchain"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/store"
	"svc.internal/services/settlement/signer/development"
)

// sweeping is a chain with its watcher, a deposit address, the real chain-signer, and sweeps on a real database.
type sweeping struct {
	chain   *devchain.Chain
	pool    *pgxpool.Pool
	chains  *chainWork
	payouts *payoutWork
	sweeps  *sweepWork
	id      chain.ID
	address chain.Address
}

func newSweeping(t *testing.T, id chain.ID) *sweeping {
	t.Helper()
	s := &sweeping{chain: startChain(t, id), id: id, pool: pgtest.Pool(t, Schema, Role, store.Migrations)}
	seed := filepath.Join(t.TempDir(), "seed")
	addresses, err := development.Addresses(seed)
	must(t, err)
	_, err = s.chain.Deploy(t.Context(), devchain.Roles{Operator: addresses["operator"], Slasher: addresses["slasher"],
		Arbiter: addresses["arbiter"]})
	must(t, err)
	must(t, s.chain.Fund(t.Context(), addresses["gas"], coins(1)))
	must(t, s.chain.Mine(t.Context(), 8))
	cfg := DefaultConfig()
	cfg.Development = true
	settings, err := devchain.Settings(s.chain)
	must(t, err)
	must(t, cfg.Chains.UnmarshalText([]byte(settings)))
	cfg.Quotes.Fixed = map[string]string{"254:native": "2", "8453:eth": "2000"}
	must(t, cfg.Validate())
	deps := Deps{Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Meters: noop.NewMeterProvider(),
		Clock: clock.System, Posting: posted{}, Signer: newSigner(t, s.chain, seed)}
	st := store.New(s.pool)
	s.chains, err = newChainWork(cfg, st, deps)
	must(t, err)
	s.payouts, err = newPayoutWork(cfg, st, s.chains, deps)
	must(t, err)
	s.sweeps, err = newSweepWork(cfg, st, s.chains, s.payouts, deps)
	must(t, err)
	a, err := s.chains.address(t.Context(), ids.AccountID{0: 1, 6: 0x70, 8: 0x80, 15: 7})
	must(t, err)
	s.address = a.Address
	s.watch(t)
	return s
}

// watch reads the chain until the test ends, and waits until the watcher has begun.
func (s *sweeping) watch(t *testing.T) {
	t.Helper()
	running, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.chains.run(running)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	waitFor(t, func() bool { return s.is(t, `SELECT count(*) = 1 FROM chain_cursor`) })
}

// is reports what a query says.
func (s *sweeping) is(t *testing.T, query string) (so bool) {
	t.Helper()
	must(t, s.pool.QueryRow(t.Context(), query).Scan(&so))
	return so
}

// consumer is the second account of a development chain.
const consumer = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"

// deposit sends dollars, or half as many coins, to the deposit address, and waits until a total of deposits is
// credited.
func (s *sweeping) deposit(t *testing.T, usd int64, total int) {
	t.Helper()
	if s.id == chain.SVC {
		must(t, s.chain.Send(t.Context(), devchain.Transaction{From: consumer, To: s.address.String(),
			Value: coins(usd / 2)}))
	} else {
		// As a bridge makes them: straight to the address, from the zero address.
		must(t, s.chain.Mint(t.Context(), s.address, uint64(usd)*1_000_000))
	}
	must(t, s.chain.Mine(t.Context(), 3))
	waitFor(t, func() bool {
		return s.is(t, `SELECT count(*) FILTER (WHERE state = 'credited') = `+strconv.Itoa(total)+` FROM transfer`)
	})
}

// maxPasses bounds the passes of a test. Each mines a block, and few blocks make a sweep final.
const maxPasses = 200

// passes makes passes, and moves transactions and blocks on, until the one sweep is done.
func (s *sweeping) passes(t *testing.T) {
	t.Helper()
	for range maxPasses {
		if s.is(t, `SELECT count(*) = 1 AND bool_and(state = 'done') FROM sweep`) {
			return
		}
		if s.is(t, `SELECT count(*) > 0 FROM sweep WHERE state = 'failed'`) {
			t.Fatal("the sweep failed, want it done")
		}
		s.sweeps.pass(t.Context())
		if _, err := s.payouts.pipeline.Pass(t.Context(), s.id); err != nil {
			t.Log(err)
		}
		must(t, s.chain.Mine(t.Context(), 1))
	}
	t.Fatalf("the sweep is not done after %d passes", maxPasses)
}

// has returns what an address has of what is credited on the chain.
func (s *sweeping) has(t *testing.T, of chain.Address) chain.Amount {
	t.Helper()
	reader := s.chains.chains[s.id]
	block, err := reader.Final(t.Context())
	must(t, err)
	var got chain.Amount
	if s.id == chain.SVC {
		got, err = reader.Balance(t.Context(), of, block)
	} else {
		usd, _ := chain.ParseAddress(devchain.USD)
		got, err = reader.TokenBalance(t.Context(), usd, of, block)
	}
	must(t, err)
	return got
}

// wantBooks checks that the rows of deposits and sweeps agree.
func (s *sweeping) wantBooks(t *testing.T) {
	t.Helper()
	report, err := Verify(t.Context(), s.pool)
	must(t, err)
	for _, i := range report.Invariants {
		if i.Drift > 0 {
			t.Errorf("%s: got %d drifts (%q), want none", i.Name, i.Drift, i.Examples)
		}
	}
}

func coins(n int64) *big.Int {
	return new(big.Int).Mul(big.NewInt(n), new(big.Int).Exp(big.NewInt(10), big.NewInt(18), nil))
}

func TestDepositsAreSweptToTheTreasuryOnRealChains(t *testing.T) {
	t.Parallel()
	treasury, err := chain.ParseAddress(devchain.Treasury)
	must(t, err)
	for _, id := range []chain.ID{chain.Base, chain.SVC} {
		t.Run(id.String(), func(t *testing.T) {
			t.Parallel()
			s := newSweeping(t, id)
			s.deposit(t, 150, 1)
			before := s.has(t, treasury)
			s.passes(t)
			rest := s.has(t, s.address)
			received, _ := s.has(t, treasury).Sub(before)
			all := chain.NewAmount(150_000_000)
			if id == chain.SVC {
				all, _ = chain.ParseAmount(coins(75).String())
			}
			var took string
			must(t, s.pool.QueryRow(t.Context(), `SELECT amount::text FROM sweep`).Scan(&took))
			swept, err := chain.ParseAmount(took)
			must(t, err)
			if left, _ := all.Sub(rest); left != swept {
				t.Errorf("left the address: got %s of %s, want %s, as the sweep says", left, all, swept)
			}
			gas, ok := swept.Sub(received)
			if !ok {
				t.Errorf("received: got %s, want at most the %s of the sweep", received, swept)
			}
			if paid := !gas.IsZero(); paid != (id == chain.SVC) {
				t.Errorf("received: got %s of %s, want all of a token, and of coins all but their gas", received, swept)
			}
			if id != chain.SVC && !rest.IsZero() {
				t.Errorf("rest: got %s, want none of a token", rest)
			}
			s.wantBooks(t)
			// The balance of the address covers what comes later, and below $100 it stays there.
			s.deposit(t, 2, 2)
			s.sweeps.pass(t.Context())
			if !s.is(t, `SELECT count(*) = 1 FROM sweep`) {
				t.Error("a deposit of $2: it is swept, want it left there")
			}
			s.wantBooks(t)
		})
	}
}

func TestWithoutASignerOrATreasuryNothingIsSwept(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		treasury string
		signer   bool
		sweeps   bool
	}{
		"without a signer":   {devchain.Treasury, false, false},
		"without a treasury": {"", true, false},
		"with both":          {devchain.Treasury, true, true},
	} {
		deps := Deps{Log: slog.New(slog.DiscardHandler), Meters: noop.NewMeterProvider()}
		if c.signer {
			deps.Signer = signerv1.NewSignerServiceClient(nil)
		}
		cfg := Config{Chains: chain.Configs{{ID: chain.Base, Treasury: c.treasury}}}
		w, err := newSweepWork(cfg, nil, &chainWork{}, &payoutWork{}, deps)
		must(t, err)
		if got := w.sweeper != nil; got != c.sweeps {
			t.Errorf("%s: got %t, want %t", name, got, c.sweeps)
		}
		if !c.sweeps {
			w.run(t.Context()) // returns at once
		}
	}
}
