package settlement

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/config"
	"svc.internal/pkg/pgtest"
	"svc.internal/services/settlement/internal/audit"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/payout"
)

// verified compares the rows with the chain, by its RPCs or by others.
func (p *paying) verified(t *testing.T, rpcs ...string) audit.Report {
	t.Helper()
	cfg := p.reader.Config()
	if len(rpcs) > 0 {
		cfg.RPCs = nil
	}
	for _, one := range rpcs {
		cfg.RPCs = append(cfg.RPCs, config.NewSecret(one))
	}
	found, err := verifyChain(t.Context(), p.pool, cfg)
	must(t, err)
	return audit.NewReport(found)
}

// forge changes rows behind the back of all triggers, as who has the database can.
func (p *paying) forge(t *testing.T, sql string) {
	t.Helper()
	must(t, pgx.BeginFunc(t.Context(), pgtest.Owner(t, p.pool), func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), `SET LOCAL session_replication_role = replica`); err != nil {
			return err
		}
		_, err := tx.Exec(t.Context(), sql)
		return err
	}))
}

func printed(t *testing.T, r audit.Report) string {
	t.Helper()
	var out bytes.Buffer
	must(t, r.Print(&out))
	return out.String()
}

// wantSound ends the test unless every check could be made and found no drift.
func wantSound(t *testing.T, name string, r audit.Report) {
	t.Helper()
	if r.Drift > 0 {
		t.Fatalf("%s: got a drift of %d, want none: %s", name, r.Drift, printed(t, r))
	}
	if r.Unknown > 0 {
		t.Fatalf("%s: got %d checks that could not be made, want none: %s", name, r.Unknown, printed(t, r))
	}
}

func TestVerifyFindsWhatTheChainDoesNotSay(t *testing.T) {
	t.Parallel()
	p := newPaying(t, chain.Base)
	p.until(t, p.ask(t).ID, payout.Confirmed)
	sound := p.verified(t)
	wantSound(t, "a sound chain", sound)
	for _, forged := range []struct{ sql, undo, says string }{
		{`UPDATE payout SET amount = amount + 1`, `UPDATE payout SET amount = amount - 1`, "no such transfer"},
		{`UPDATE payout SET address = '\x0100000000000000000000000000000000000000'`, ``, "no such transfer"},
		{`UPDATE sender SET next = 0 WHERE key = 'payout'`, `UPDATE sender SET next = 1 WHERE key = 'payout'`,
			"1 transactions, and 0 nonces"},
		{`UPDATE call_end SET outcome = 'reverted'`, `UPDATE call_end SET outcome = 'succeeded'`, "stored as reverted"},
		{`UPDATE chain_call SET data = '\x00'`, ``, "do something else"},
	} {
		p.forge(t, forged.sql)
		r := p.verified(t)
		text := printed(t, r)
		if r.Drift == 0 {
			t.Errorf("%s: got no drift, want some: %s", forged.sql, text)
		}
		if !strings.Contains(text, forged.says) {
			t.Errorf("%s: got %s, want it to say %q", forged.sql, text, forged.says)
		}
		if forged.undo != "" {
			p.forge(t, forged.undo)
		}
	}
}

func TestVerifyComparesPositionsWithTheContract(t *testing.T) {
	t.Parallel()
	p := newPaying(t, chain.Base)
	final, err := p.reader.Final(t.Context())
	must(t, err)
	if _, err := p.pool.Exec(t.Context(), `INSERT INTO chain_cursor (chain_id, block, block_hash, fence, again)
		VALUES (8453, $1, $2, 1, $1)`, final.Number, final.Hash[:]); err != nil {
		t.Fatal(err)
	}
	wantSound(t, "no positions", p.verified(t))
	p.forge(t, `INSERT INTO position (chain_id, subject, depositor, free, escrow, booked, counted, number)
		VALUES (8453, decode(repeat('01', 32), 'hex'), decode(repeat('02', 20), 'hex'), 5, 0, 0, true, 1)`)
	text := printed(t, p.verified(t))
	for _, want := range []string{"by the contract 0 and 0", "all positions come to 5, by the contract to 0",
		"8453:collateral holds 0 units and owes 5"} {
		if !strings.Contains(text, want) {
			t.Errorf("got %s, want %q", text, want)
		}
	}
}

// What cannot be asked is neither sound nor drift.
func TestVerifyDoesNotKnowAChainThatCannotBeAsked(t *testing.T) {
	t.Parallel()
	p := newPaying(t, chain.Base)
	p.until(t, p.ask(t).ID, payout.Confirmed)
	silent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer silent.Close()
	own := p.reader.Config().RPCs[0].Reveal()
	r := p.verified(t, own, silent.URL)
	if r.Drift != 0 {
		t.Errorf("drift: got %d, want none", r.Drift)
	}
	if r.Unknown == 0 {
		t.Error("not known: got no check, want some")
	}
	text := printed(t, r)
	if !strings.Contains(text, "not known") {
		t.Errorf("got %s, want that it says so", text)
	}
	if strings.Contains(text, silent.URL) {
		t.Errorf("got %s, want no address of an RPC", text)
	}
}

func TestOtherRPCsTakeThePlaceOfTheConfigured(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	cfg.Chains = chain.Configs{{ID: chain.Base, Name: "Base", BlockTime: 1, MaxGasPrice: chain.NewAmount(1),
		RPCs: []config.Secret{config.NewSecret("http://127.0.0.1:1")}}}
	other, err := cfg.WithRPCs([]string{"8453=http://127.0.0.1:2,http://127.0.0.1:3"})
	must(t, err)
	if got := len(other.Chains[0].RPCs); got != 2 {
		t.Errorf("RPCs: got %d, want 2", got)
	}
	if got := cfg.Chains[0].RPCs[0].Reveal(); got != "http://127.0.0.1:1" {
		t.Errorf("the configuration: got %q, want that it stays", got)
	}
	for _, text := range []string{"", "8453", "8453=", "254=http://127.0.0.1:2", "8453=ftp://127.0.0.1"} {
		if _, err := cfg.WithRPCs([]string{text}); err == nil {
			t.Errorf("%q: got no error, want one", text)
		}
	}
}
