package settlement_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/pkg/ethereum"
	"svc.internal/pkg/pg/devclock"
	"svc.internal/pkg/pg/pgserver"
	"svc.internal/services/proving/internal/paychain"
	"svc.internal/services/proving/internal/trial"
	settlement "svc.internal/services/settlement"
	"svc.internal/services/settlement/anvil"
	"svc.internal/services/settlement/devchain"
)

func TestMain(m *testing.M) { trial.Main(m) }

// repository is the folder of the workspace.
const repository = "../../../.."

// town is a marketplace with three chains, whose collateral counts.
type town struct {
	*trial.Town
	dir string // of the market's data
	db  *pgxpool.Pool
}

func newTown(t *testing.T, environ ...string) *town {
	t.Helper()
	path := anvilPath(t)
	c := &town{Town: &trial.Town{Chains: map[uint64]string{}, DatabaseURL: newDatabase(t)}, dir: trial.Dir(t)}
	c.Market = trial.StartIn(t, c.dir, append([]string{"DATABASE_URL=" + c.DatabaseURL, "SVC_ANVIL=" + path,
		"SVC_DEVELOPMENT_CHAINS=1,254,8453", "SVC_DEMO_COLLATERAL=chain", "SVC_DEMO_AGENT=off", "SVC_LOG_LEVEL=info"},
		environ...)...)
	for chain := range strings.SplitSeq(c.Env["SVC_CHAIN_URLS"], ",") {
		var id uint64
		name, url, _ := strings.Cut(chain, "=")
		if _, err := fmt.Sscan(name, &id); err != nil {
			t.Fatalf("SVC_CHAIN_URLS: %v", err)
		}
		c.Chains[id] = url
	}
	c.open(t)
	return c
}

// anvilPath is where the program of the chains is. Where it cannot be installed, the test is skipped, but not in CI.
func anvilPath(t *testing.T) string {
	t.Helper()
	path, err := anvil.Install(t.Context(), repository)
	if errors.Is(err, anvil.ErrMissing) && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// newDatabase starts a PostgreSQL server whose time can be moved, and returns its superuser's URL. A shift of time is
// the whole server's.
func newDatabase(t *testing.T) string {
	t.Helper()
	server, err := pgserver.Start(t.Context(), pgserver.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := devclock.Install(t.Context(), server.URL()); err != nil {
		t.Fatal(err)
	}
	return server.URL()
}

// open connects to the database.
func (c *town) open(t *testing.T) {
	t.Helper()
	var err error
	if c.db, err = pgxpool.New(context.Background(), c.DatabaseURL); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.db.Close)
}

// nextDay ends the day and returns it.
func (c *town) nextDay(t *testing.T) (day string) {
	t.Helper()
	var now time.Time
	if err := c.db.QueryRow(t.Context(), `SELECT clock_timestamp()`).Scan(&now); err != nil {
		t.Fatal(err)
	}
	c.Pass(t, devclock.NextDay(now))
	return now.UTC().Format(time.DateOnly)
}

// dollars is how many of the test dollar's millionths an account has on a chain.
func (c *town) dollars(t *testing.T, chain uint64, of ethereum.Address) *big.Int {
	t.Helper()
	return c.ask(t, chain, "eth_call", map[string]string{"to": devchain.USD,
		"data": "0x70a08231" + hex.EncodeToString(word(of[:]))}, "latest")
}

// ask asks a chain for a number.
func (c *town) ask(t *testing.T, chain uint64, method string, params ...any) *big.Int {
	t.Helper()
	var text string
	if err := devchain.Ask(t.Context(), c.Chains[chain], &text, method, params...); err != nil {
		t.Fatal(err)
	}
	n, ok := new(big.Int).SetString(text, 0)
	if !ok {
		t.Fatalf("%s: got %q, want a number", method, text)
	}
	return n
}

// password is that of all users.
const password = trial.Password

// dear is a model of which one answer costs some dollars.
const dear = trial.Dear

// owner is a user who owns a provider.
type owner struct {
	*trial.Owner
	town *town
}

// newOwner signs an owner up.
func (c *town) newOwner(t *testing.T, name string, wallet byte) *owner {
	t.Helper()
	return &owner{c.NewOwner(t, name, wallet), c}
}

// coins is an amount of a chain's coin, in wei.
func coins(whole int64) *big.Int { return paychain.Whole(whole) }

// word is a value as an argument of a contract's function.
func word(value []byte) []byte { return append(make([]byte, 32-len(value)), value...) }

// write writes a file of the test's.
func write(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// verified fails the test unless settlement's own verification and the ledger's find nothing wrong.
func (c *town) verified(t *testing.T) {
	t.Helper()
	c.Balanced(t)
	cfg := c.db.Config()
	cfg.ConnConfig.RuntimeParams["search_path"] = settlement.Schema
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	report, err := settlement.Verify(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range report.Invariants {
		if i.Drift > 0 {
			t.Errorf("settlement verify: %s: %q", i.Name, i.Examples)
		}
	}
}
