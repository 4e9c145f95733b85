package standalone

import (
	"strings"
	"testing"

	"svc.internal/pkg/config"
)

func load(t *testing.T, environ ...string) Config {
	t.Helper()
	cfg, err := config.Load[Config](environ)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func TestTheDefaultsAreThoseOfTheREADME(t *testing.T) {
	cfg := load(t)
	if cfg.HTTPAddr != "127.0.0.1:8080" || cfg.WSAddr != "127.0.0.1:8081" || cfg.DataDir != ".run" || !cfg.Demo || !cfg.DemoAgent {
		t.Errorf("%+v", cfg)
	}
	if err := cfg.Select(""); err != nil || !cfg.all() {
		t.Errorf("all services: %v", err)
	}
}

func TestABadConfigurationNamesEveryFault(t *testing.T) {
	_, err := config.Load[Config]([]string{"SVC_HTTP_ADDR=8080", "SVC_WS_ADDR=x", "SVC_GRPC_ADDR=0.0.0.0:1", "SVC_PEERS=nobody=127.0.0.1:1"})
	for _, name := range []string{"SVC_HTTP_ADDR", "SVC_WS_ADDR", "SVC_GRPC_ADDR", "SVC_PEERS"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s is not named in: %v", name, err)
		}
	}
	if _, err := config.Load[Config]([]string{"SVC_DEMO_AGENT=maybe"}); err == nil {
		t.Error("maybe is on or off")
	}
}

func TestASubsetNeedsAWayToTheRest(t *testing.T) {
	alone := load(t)
	err := alone.Select("edge-gateway,router")
	for _, want := range []string{"billing-ledger", "catalog", "settlement", "provider-hub"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not named in: %v", want, err)
		}
	}
	peers := "SVC_PEERS=catalog=127.0.0.1:1,billing-ledger=127.0.0.1:1,settlement=127.0.0.1:1"
	half := load(t, peers)
	err = half.Select("edge-gateway,router,provider-hub")
	for _, want := range []string{"SVC_GRPC_ADDR", "SVC_NATS_URL", "SVC_PEPPER"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not named in: %v", want, err)
		}
	}
	good := load(t, peers, "SVC_GRPC_ADDR=127.0.0.1:2", "SVC_NATS_URL=nats://127.0.0.1:3", "SVC_PEPPER="+strings.Repeat("ab", 32))
	if err := good.Select("edge-gateway,router,provider-hub"); err != nil {
		t.Error(err)
	}
	if err := good.Select("edge-gatewax"); err == nil {
		t.Error("a service that does not exist was selected")
	}
}
