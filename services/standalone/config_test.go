package standalone

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func load(t *testing.T, services string, environ ...string) Config {
	t.Helper()
	cfg, err := Load(services, "", environ)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func named(t *testing.T, err error, wanted ...string) {
	t.Helper()
	for _, name := range wanted {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s is not named in: %v", name, err)
		}
	}
}

func TestTheDefaultsAreThoseOfTheREADME(t *testing.T) {
	cfg := load(t, "")
	if cfg.Gateway.HTTPAddr != "127.0.0.1:8080" || cfg.Hub.WSAddr != "127.0.0.1:8081" || cfg.DataDir != ".run" ||
		!bool(cfg.Demo) || !bool(cfg.DemoAgent) || !cfg.all() {
		t.Errorf("%+v", cfg)
	}
}

func TestABadConfigurationNamesEveryFault(t *testing.T) {
	_, err := Load("", "", []string{
		"SVC_HTTP_ADDR=8080", "SVC_WS_ADDR=x", "SVC_GRPC_ADDR=0.0.0.0:1", "SVC_PEERS=router=127.0.0.1:1",
		"SVC_TLS_CERT=a", "SVC_DRAIN_DELAY=-1s", "SVC_LOG_LEVEL=loud", "SVC_TRACE_RATIO=2", "SVC_HUB_ID=Hub 1",
	})
	named(t, err, "SVC_HTTP_ADDR", "SVC_WS_ADDR", "router runs in this process", "key is missing", "ca is missing",
		"drain_delay", "loud", "trace ratio", "hub id")
	_, err = Load("", "", []string{"SVC_GRPC_ADDR=0.0.0.0:1"})
	named(t, err, "SVC_GRPC_ADDR", "loopback")
	if _, err := Load("", "", []string{"SVC_DEMO_AGENT=maybe"}); err == nil {
		t.Error("maybe is on or off")
	}
}

func TestASubsetNeedsAWayToTheServicesItCalls(t *testing.T) {
	_, err := Load("edge-gateway,router", "", nil)
	named(t, err, "edge-gateway needs the address of billing-ledger", "settlement", "provider-hub", "SVC_NATS_URL")
	peers := "SVC_PEERS=catalog=127.0.0.1:1|127.0.0.1:3,billing-ledger=127.0.0.1:1,settlement=127.0.0.1:1"
	_, err = Load("edge-gateway,router,provider-hub", "", []string{peers})
	named(t, err, "SVC_GRPC_ADDR", "SVC_NATS_URL", "SVC_PEPPER")
	load(t, "edge-gateway,router,provider-hub", peers, "SVC_GRPC_ADDR=127.0.0.1:2", "SVC_NATS_URL=nats://127.0.0.1:3",
		"SVC_PEPPER="+strings.Repeat("ab", 32))
	if _, err := Load("edge-gatewax", "", nil); err == nil {
		t.Error("a service that does not exist was selected")
	}
}

func TestAFileHasASectionForEachServiceAndTheEnvironmentWins(t *testing.T) {
	path := filepath.Join(t.TempDir(), "svc.yaml")
	text := "data_dir: /x\ngateway: {http_addr: 127.0.0.1:1, max_body_bytes: 5}\nhub: {id: hub-7}\n" +
		"billing: {max_keys: 3}\nlog: {level: debug}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := Load("", path, []string{"SVC_HTTP_ADDR=127.0.0.1:2"})
	if err != nil || cfg.DataDir != "/x" || cfg.Gateway.HTTPAddr != "127.0.0.1:2" || cfg.Gateway.MaxBodyBytes != 5 ||
		cfg.Hub.HubID != "hub-7" || cfg.Billing.MaxKeys != 3 || cfg.Log.Level != "debug" || cfg.Log.Format != "text" {
		t.Errorf("%v %+v", err, cfg)
	}
	if err := os.WriteFile(path, []byte("gateway: {htp_addr: x, max_bodies: 1}\nhubb: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = Load("", path, nil)
	named(t, err, "htp_addr", "max_bodies", "hubb")
}

// TestEverySettingHasOneNameInTheFileAndOneInTheEnvironment also finds a field
// that was added without tags, which YAML would name in its own way.
func TestEverySettingHasOneNameInTheFileAndOneInTheEnvironment(t *testing.T) {
	variables := map[string]string{}
	var walk func(path string, typ reflect.Type)
	walk = func(path string, typ reflect.Type) {
		for i := range typ.NumField() {
			field := typ.Field(i)
			key, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
			if !field.IsExported() || key == "-" {
				continue
			}
			here := path + "." + key
			if key == "" && !field.Anonymous {
				t.Errorf("%s.%s has no name in the file", path, field.Name)
			}
			variable := field.Tag.Get("env")
			if variable == "" {
				if field.Type.Kind() != reflect.Struct {
					t.Errorf("%s has no variable", here)
					continue
				}
				walk(strings.TrimSuffix(here, "."), field.Type)
				continue
			}
			if other, taken := variables[variable]; taken && variable != "SVC_PEPPER" {
				t.Errorf("%s and %s are both %s", here, other, variable)
			}
			variables[variable] = here
		}
	}
	walk("", reflect.TypeFor[Config]())
}
