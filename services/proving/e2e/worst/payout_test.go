//go:build rehearsal

package worst

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"svc.internal/services/proving/internal/fleet"
	"svc.internal/services/proving/internal/paychain"
	"svc.internal/services/proving/internal/peers"
	"svc.internal/services/proving/internal/store"
	"svc.internal/services/proving/internal/trial"
	"svc.internal/services/settlement/devchain"
)

type object = map[string]any

// paying starts a small fleet that pays its providers on a chain.
func paying(t *testing.T) (*trial.Town, *paychain.Chains) {
	t.Helper()
	dir := trial.Dir(t)
	chains := trial.Chains(t, dir)
	known, allowed, err := chains.Settings()
	if err != nil {
		t.Fatal(err)
	}
	m := trial.StartFleet(t, func(c *fleet.Config) {
		c.Dir, c.Clock = dir, true
		c.Replicas = map[string]int{fleet.Agent: 0, fleet.Engine: 0}
		for _, service := range fleet.Services() {
			c.Replicas[service] = 1
		}
		c.Settings = map[string]map[string]any{
			fleet.Billing: {"billing": object{"seal_interval": "1s"}},
			fleet.Settlement: {"settlement": object{"chains": known, "development": true,
				"quotes":   object{"fixed": object{"8453:eth": paychain.ETHPrice, "254:native": paychain.CoinPrice}},
				"batch":    object{"interval": "500ms"},
				"payouts":  object{"recheck_interval": "1s"},
				"reserves": object{"interval": "1s"}}},
			fleet.Signer: {"signer": object{"chains": allowed}},
		}
	})
	town := &trial.Town{Market: m, DatabaseURL: m.Fleet().DatabaseURL(), Killed: true, Chains: map[uint64]string{}}
	for _, one := range chains.All {
		town.Chains[one.ID()] = one.URL
	}
	return town, chains
}

// sent is the number of transactions that the key of payouts has sent on the chain of dollars.
func sent(t *testing.T, chains *paychain.Chains) uint64 {
	t.Helper()
	var count string
	if err := devchain.Ask(t.Context(), chains.Chain(paychain.Dollars).URL, &count, "eth_getTransactionCount",
		chains.Keys["payout"].String(), "latest"); err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseUint(strings.TrimPrefix(count, "0x"), 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// firstNonce raises the first nonce of the key of payouts in the signer's settings.
func firstNonce(t *testing.T, f *fleet.Fleet, nonce uint64) {
	t.Helper()
	path := f.Path("config", f.Replicas(fleet.Signer)[0]+".yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var settings struct {
		Rest   object `yaml:",inline"`
		Signer struct {
			Rest   object   `yaml:",inline"`
			Chains []object `yaml:"chains"`
		} `yaml:"signer"`
	}
	if err := yaml.Unmarshal(text, &settings); err != nil {
		t.Fatal(err)
	}
	for _, one := range settings.Signer.Chains {
		if fmt.Sprint(one["id"]) == fmt.Sprint(paychain.Dollars) {
			one["first_nonces"] = object{"payout": nonce}
		}
	}
	if text, err = yaml.Marshal(settings); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// plan is what settlement's program shows of a chain that is ahead of its database.
type plan struct {
	Calls []struct {
		What, Action string
		Hash         string `json:"transaction_hash"`
	}
}

// adopt runs settlement's own program, and returns what it shows.
func adopt(t *testing.T, f *fleet.Fleet, more ...string) (p plan) {
	t.Helper()
	args := append([]string{"adopt", "--chain", fmt.Sprint(paychain.Dollars), "--json", "-config",
		f.Path("config", f.Replicas(fleet.Settlement)[0]+".yaml")}, more...)
	program := filepath.Join(trial.Programs(t, ""), fleet.Settlement)
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = f.Path()
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	t.Logf("settlement %s: %v\n%s%s", strings.Join(args, " "), err, out, said.String())
	if err := json.Unmarshal(out, &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// takenIn takes in the one transaction that the database does not explain, and waits until only the reserves, which are
// short by its amount, halt sending on the chain.
func (a *audited) takenIn(t *testing.T) {
	t.Helper()
	found := adopt(t, a.fleet).Calls
	if len(found) != 1 {
		t.Fatalf("what the chain has beyond the database: got %+v, want one transaction", found)
	}
	if got := found[0].What + " " + found[0].Action; got != "unknown ask" {
		t.Fatalf("what is said of it: got %q, want \"unknown ask\"", got)
	}
	adopt(t, a.fleet, "--apply", "--reason", "the database was restored", "--accept-unknown", found[0].Hash)
	trial.Until(t, "the reserves alone halt the chain", func() bool {
		var halted bool
		a.disk.must(t, `SELECT count(*) = 1 AND bool_and(cause = 'reserves') FROM settlement.sending_halt
			WHERE chain_id = 8453 AND lifted_at IS NULL`, &halted)
		return halted
	})
}

// A payout of the lost time is on its chain, and neither the books nor settlement nor the signer know of it. The signer
// signs no nonce of that time, because its first nonce is raised, and the same earnings are not paid again before an
// operator has filled up what lacks.
func TestAPayoutOfTheLostTimeIsFoundOnItsChain(t *testing.T) {
	town, chains := paying(t)
	f := town.Fleet()
	if err := paychain.Book(t.Context(), peers.Services{Fleet: f}); err != nil {
		t.Fatal(err)
	}
	d := archiving(t, f)
	if err := f.WaitReady(t.Context(), f.Names()...); err != nil {
		t.Fatal(err)
	}
	books, err := store.Open(t.Context(), f.DatabaseURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(books.Close)
	began := time.Now()
	o := town.NewOwner(t, "kim", 0x51)
	o.Deposit(t, paychain.Dollars, 20)
	o.Serve(t)
	o.WaitStatus(t, "active")
	o.Earn(t, 60)
	town.Pass(t, 24*time.Hour)
	o.Payable(t)
	d.backUp(t)
	d.point(t)
	lost := o.Ask(t, "12.50", "lost")
	o.Confirmed(t, lost)
	for _, name := range f.Names() {
		if err := f.Kill(name); err != nil {
			t.Fatal(err)
		}
	}
	nonce := sent(t, chains)
	if nonce == 0 {
		t.Fatal("transactions of the key of payouts: got none, want some")
	}

	a := &audited{Market: town.Market, fleet: f, disk: d, books: books}
	firstNonce(t, f, nonce)
	a.comeBack(t, began)
	trial.Until(t, "the chain is halted, and the signer says that it begins behind what the chain has", func() bool {
		var halted bool
		d.must(t, fmt.Sprintf(`SELECT count(*) = 1 FROM settlement.sending_halt WHERE cause = 'nonce_ahead'
			AND lifted_at IS NULL AND detail LIKE '%%: the database has 0, the chain %[1]d, the signer %[1]d'`, nonce), &halted)
		return halted
	})
	a.takenIn(t)
	again := o.Ask(t, "12.50", "again")
	trial.Until(t, "the same earnings wait for the reserves", func() bool {
		var waiting string
		d.must(t, `SELECT waiting FROM settlement.payout WHERE payout_id = '`+again+`'`, &waiting)
		return waiting == "reserves_short"
	})
	if got := sent(t, chains); got != nonce {
		t.Fatalf("transactions while reserves are short: got %d, want the %d from before", got, nonce)
	}
	// An operator fills up what lacks, and so pays again.
	if err := chains.Chain(paychain.Dollars).Mint(t.Context(), chains.Keys["payout"], 12_500_000); err != nil {
		t.Fatal(err)
	}
	o.Confirmed(t, again)
	if got := sent(t, chains); got != nonce+1 {
		t.Errorf("transactions in the end: got %d, want %d", got, nonce+1)
	}
	verified(t, d, fleet.Billing)
	verified(t, d, fleet.Settlement)
}
