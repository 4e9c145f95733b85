//go:build watch

package watch

import (
	"maps"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"testing"

	"svc.internal/pkg/ethereum"
	"svc.internal/services/proving/internal/fleet"
	"svc.internal/services/proving/internal/paychain"
	"svc.internal/services/proving/internal/peers"
	"svc.internal/services/proving/internal/trial"
)

// object is a mapping of a file of settings.
type object = map[string]any

// own adds settings of a service's own section to those that it has, of which it keeps the others.
func own(c *fleet.Config, service, section string, more object) {
	if c.Settings == nil {
		c.Settings = map[string]map[string]any{}
	}
	has, _ := c.Settings[service][section].(object)
	with := maps.Clone(more)
	for name, value := range has {
		if _, set := with[name]; !set {
			with[name] = value
		}
	}
	c.Settings[service] = object{section: with}
}

// onChains starts both chains, and returns what has a fleet pay its providers there. Its database's time can be moved.
func onChains(t *testing.T) (*paychain.Chains, func(*fleet.Config)) {
	t.Helper()
	dir := trial.Dir(t)
	chains := trial.Chains(t, dir)
	known, allowed, err := chains.Settings()
	if err != nil {
		t.Fatal(err)
	}
	return chains, func(c *fleet.Config) {
		c.Dir, c.Clock = dir, true
		own(c, fleet.Billing, "billing", object{"seal_interval": "1s", "reconcile_interval": "2s",
			"webhooks": object{"development": true}})
		own(c, fleet.Settlement, "settlement", object{"chains": known, "development": true,
			"quotes":     object{"fixed": object{"8453:eth": paychain.ETHPrice, "254:native": paychain.CoinPrice}},
			"batch":      object{"interval": "500ms"},
			"payouts":    object{"recheck_interval": "1s"},
			"collateral": object{"card": true},
			"reserves":   object{"interval": "1s"}})
		own(c, fleet.Signer, "signer", object{"chains": allowed})
	}
}

// inTown is a fleet's market as owners of providers meet it, once the books know what the wallets of its chains hold.
func inTown(t *testing.T, m *trial.Market, chains *paychain.Chains) *trial.Town {
	t.Helper()
	if err := paychain.Book(t.Context(), peers.Services{Fleet: m.Fleet()}); err != nil {
		t.Fatal(err)
	}
	town := &trial.Town{Market: m, DatabaseURL: m.Fleet().DatabaseURL(), Chains: map[uint64]string{}}
	for _, one := range chains.All {
		town.Chains[one.ID()] = one.URL
	}
	return town
}

// chained is a small fleet that pays its providers on chains, one process of each service, before a Prometheus that has
// seen the chains read. There is no agent, no engine and no load. Options change sections of settings with own.
func chained(t *testing.T, options ...func(*fleet.Config)) (*trial.Town, *server, *paychain.Chains) {
	t.Helper()
	chains, pays := onChains(t)
	small := func(c *fleet.Config) {
		c.Replicas = map[string]int{fleet.Agent: 0, fleet.Engine: 0}
		for _, service := range fleet.Services() {
			c.Replicas[service] = 1
		}
	}
	m := trial.StartFleet(t, append([]func(*fleet.Config){small, pays}, options...)...)
	town := inTown(t, m, chains)
	s := startPrometheus(t, m.Fleet())
	trial.Until(t, "Prometheus sees chains that are read", func() bool {
		read := s.query(t, `svc_settlement_chain_block > 0 and svc_settlement_chain_stalled_seconds < 60`)
		return len(read) == len(chains.All)
	})
	return town, s, chains
}

// depositAddress is where an owner, as a consumer, deposits on a chain.
func depositAddress(t *testing.T, town *trial.Town, o *trial.Owner, chain uint64) string {
	t.Helper()
	where := town.Wants(t, http.StatusOK, http.MethodGet, "/api/v1/consumer/deposit-address", o.Token, "")
	list, _ := trial.At(where, "chains").([]any)
	for _, one := range list {
		if id, _ := trial.At(one, "chain_id").(float64); uint64(id) == chain {
			return trial.Text(t, one, "address")
		}
	}
	t.Fatalf("deposit addresses: got %v, want one of chain %d", where, chain)
	return ""
}

// waitCredited waits until a deposit of an owner's is credited.
func waitCredited(t *testing.T, town *trial.Town, o *trial.Owner) {
	t.Helper()
	trial.Until(t, "the deposit is credited", func() bool {
		_, _, list := town.Call(t, http.MethodGet, "/api/v1/consumer/deposits", o.Token, "")
		return strings.Contains(string(list), `"state":"credited"`)
	})
}

// word is a value as an argument of a contract's function.
func word(value []byte) []byte { return append(make([]byte, 32-len(value)), value...) }

// transferOf is the call that sends so many millionths of the test dollar.
func transferOf(t *testing.T, to string, micros int64) []byte {
	t.Helper()
	at := address(t, to)
	return slices.Concat([]byte{0xa9, 0x05, 0x9c, 0xbb}, word(at[:]), word(big.NewInt(micros).Bytes()))
}

// address reads an address.
func address(t *testing.T, text string) ethereum.Address {
	t.Helper()
	a, err := ethereum.ParseAddress(text)
	if err != nil {
		t.Fatal(err)
	}
	return a
}
