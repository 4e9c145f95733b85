package settlement_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/pg/devclock"
	"svc.internal/services/proving/internal/fleet"
	"svc.internal/services/proving/internal/peers"
	"svc.internal/services/proving/internal/store"
	"svc.internal/services/proving/internal/trial"
)

// adoptions is the path of the adoption of the town's chain.
const adoptions = "/api/v1/admin/chains/8453/adoption"

// isSetBack has a payout confirmed, sets settlement's database back to before it, and has an operator adopt it.
func (k *killing) isSetBack(t *testing.T, points []string) {
	books, err := store.Open(t.Context(), k.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer books.Close()
	k.Pass(t, time.Hour+time.Minute) // one an hour
	trial.Until(t, "nothing is under way", func() bool {
		left, err := books.Underway(t.Context())
		return err == nil && left == 0
	})
	before := k.dollars(t, on, k.o.Wallet)
	if err := books.Keep(t.Context()); err != nil {
		t.Fatal(err)
	}
	id := k.request(t, "14", "lost")
	k.waitPayout(t, id, "confirmed", "")
	k.putBack(t, books)
	trial.Until(t, "the chain is halted", func() bool {
		return k.is(`count(*) = 1 FROM settlement.sending_halt WHERE cause = 'nonce_ahead' AND lifted_at IS NULL`)
	})
	k.arm(points...)
	trial.Until(t, "nothing is left to adopt", func() bool {
		k.operate(t, adoptions, `{"reason":"the database was set back"}`)
		status, _, answer := trial.CallAt(t, k.AdminURL(), http.MethodGet, adoptions, k.Env["SVC_ADMIN_TOKEN"], "")
		return status == http.StatusOK && strings.Contains(string(answer), `"complete":true`) &&
			!strings.Contains(string(answer), `"action"`)
	})
	k.waitPayout(t, id, "confirmed", "")
	k.dead(t, points)
	k.gained(t, "the provider", before, k.dollars(t, on, k.o.Wallet), 13_000_000)
	k.posted(t, map[string]int{"payout_requested": 4, "payout_confirmed": 2, "payout_failed": 2})
	if !k.is(`count(*) = 1 FROM settlement.adopted_call`) {
		t.Error("calls that were adopted: got another number, want 1")
	}
	if !k.is(`count(*) = 0 FROM settlement.sending_halt WHERE lifted_at IS NULL`) {
		t.Error("halts: got an open one, want none")
	}
}

// putBack kills settlement, puts the copy of its database in its place, and starts it again.
func (k *killing) putBack(t *testing.T, books *store.Databases) {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	ctx, cancel := context.WithTimeout(t.Context(), trial.Patience)
	defer cancel()
	name := k.Fleet().Replicas(fleet.Settlement)[0]
	if err := k.Fleet().Kill(name); err != nil {
		t.Fatal(err)
	}
	if err := books.PutBack(ctx); err != nil {
		t.Fatal(err)
	}
	if err := k.Fleet().Start(ctx, name); err != nil {
		t.Fatal(err)
	}
}

// valuesCoins buys a coin below the day's price and ends the day.
func (k *killing) valuesCoins(t *testing.T, points []string) {
	k.arm(points...)
	if err := k.peers.BuyTokens(t.Context(), peers.Bought{Chain: "8453", Transaction: "0x" + strings.Repeat("f1", 32),
		Token: "8453:eth", Units: 1_000_000_000, Rate: 2_900_000_000_000}); err != nil {
		t.Fatal(err)
	}
	var now time.Time
	if err := k.db.QueryRow(t.Context(), `SELECT clock_timestamp()`).Scan(&now); err != nil {
		t.Fatal(err)
	}
	k.Pass(t, devclock.NextDay(now))
	trial.Until(t, "the coin is valued", func() bool {
		return k.is(`count(*) = 1 FROM settlement.revaluation WHERE entry_id IS NOT NULL`)
	})
	k.dead(t, points)
	k.posted(t, map[string]int{"revaluation": 1})
	trial.Until(t, "reserves are read on the new day, and suffice", func() bool {
		return k.is(fmt.Sprintf(`count(*) > 2 AND bool_and(NOT short AND read_at > '%s') FROM settlement.reserve`,
			now.Add(devclock.NextDay(now)).Format(time.RFC3339)))
	})
}
