package settlement_test

import (
	"context"
	"encoding/hex"
	"math/big"
	"os"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/pkg/ethereum"
	"svc.internal/services/proving/internal/paychain"
	"svc.internal/services/proving/internal/trial"
	settlement "svc.internal/services/settlement"
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
	c := &town{dir: trial.Dir(t)}
	c.Town = trial.StartTown(t, c.dir, environ...)
	c.open(t)
	return c
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
