package store_test

import (
	"strings"
	"testing"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/pgtest"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/store"
)

func TestASettlementChainChangesWithItsHistory(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t, store.Schema, store.Role, store.Migrations)
	chains := store.SettlementChains{Store: store.New(pool)}
	provider := ids.ProviderID(newID(t))
	for _, to := range []chain.ID{chain.Default, chain.SVC, chain.SVC, chain.Ethereum} {
		if err := chains.SetSettlementChain(t.Context(), provider, to, "provider"); err != nil {
			t.Fatalf("chain %s: got the error %v, want none", to, err)
		}
	}
	var history string
	if err := pool.QueryRow(t.Context(), `SELECT string_agg(chain_id::text, ' ' ORDER BY since)
		FROM settlement_chain_change WHERE provider_id = $1`, provider).Scan(&history); err != nil {
		t.Fatal(err)
	}
	if want := "254 1"; history != want {
		t.Errorf("history: got %q, want %q", history, want)
	}
	for name, attack := range map[string]struct{ sql, says string }{
		"a change without an entry": {`UPDATE provider SET settlement_chain_id = 8453 WHERE provider_id = $1`,
			"with an entry"},
		"an entry without a change": {`INSERT INTO settlement_chain_change (provider_id, chain_id, actor)
			VALUES ($1, 8453, 'platform')`, "with the change"},
		"a chain that there is not": {`UPDATE provider SET settlement_chain_id = 5 WHERE provider_id = $1`, "violates check"},
		"an entry that is changed":  {`UPDATE settlement_chain_change SET chain_id = 1 WHERE provider_id = $1`, "denied"},
		"an entry that is deleted":  {`DELETE FROM settlement_chain_change WHERE provider_id = $1`, "denied"},
		"a time of one's own": {`INSERT INTO settlement_chain_change (provider_id, chain_id, actor, since)
			VALUES ($1, 8453, 'platform', '2020-01-01')`, "denied"},
	} {
		if _, err := pool.Exec(t.Context(), attack.sql, provider); err == nil {
			t.Errorf("%s: got the error %v, want one with %q", name, err, attack.says)
		} else if !strings.Contains(err.Error(), attack.says) {
			t.Errorf("%s: got the error %v, want one with %q", name, err, attack.says)
		}
	}
}
