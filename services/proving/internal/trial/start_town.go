package trial

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/pg/devclock"
	"svc.internal/pkg/pg/pgserver"
	"svc.internal/services/settlement/anvil"
)

// workspace is the folder of the workspace, from that of a package of end-to-end tests.
const workspace = "../../../.."

// StartTown starts a marketplace with three chains, whose collateral counts, on a data directory and a database of its
// own. The variables in environ, as NAME=value, are added.
func StartTown(t *testing.T, dir string, environ ...string) *Town {
	t.Helper()
	return StartTownBack(t, dir, 0, environ...)
}

// StartTownBack is StartTown in a past, of which CatchUp is the end.
func StartTownBack(t *testing.T, dir string, back time.Duration, environ ...string) *Town {
	t.Helper()
	path := anvilPath(t)
	c := &Town{Chains: map[uint64]string{}, DatabaseURL: MovableDatabase(t)}
	if err := devclock.SetBack(t.Context(), c.DatabaseURL, back); err != nil {
		t.Fatal(err)
	}
	c.Market = StartIn(t, dir, append([]string{"DATABASE_URL=" + c.DatabaseURL, "SVC_ANVIL=" + path,
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
	return c
}

// anvilPath is where the program of the chains is. Where it cannot be installed, the test is skipped, but not in CI.
func anvilPath(t *testing.T) string {
	t.Helper()
	path, err := anvil.Install(t.Context(), workspace)
	if errors.Is(err, anvil.ErrMissing) && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// MovableDatabase starts a PostgreSQL server whose time can be moved, and returns its superuser's URL. A shift of time
// is the whole server's.
func MovableDatabase(t *testing.T) string {
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

// NextDay ends the day and returns it.
func (c *Town) NextDay(t testing.TB) (day string) {
	t.Helper()
	_, now, err := devclock.Where(t.Context(), c.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	c.Pass(t, devclock.NextDay(now))
	return now.UTC().Format(time.DateOnly)
}

// CatchUp ends the past of a town that began in one: the database has the machine's time again.
func (c *Town) CatchUp(t testing.TB) {
	t.Helper()
	if _, err := devclock.CatchUp(t.Context(), c.DatabaseURL); err != nil {
		t.Fatal(err)
	}
}
