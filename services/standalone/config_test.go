package standalone

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"svc.internal/services/standalone/localdata"
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
		if err == nil {
			t.Errorf("naming %s: got no error, want one", name)
		} else if !strings.Contains(err.Error(), name) {
			t.Errorf("naming %s: got the error %q, want %q in it", name, err, name)
		}
	}
}

func TestTheDefaultsAreThoseOfTheREADME(t *testing.T) {
	cfg := load(t, "")
	switch {
	case cfg.Gateway.HTTPAddr != "127.0.0.1:8080":
		t.Errorf(`cfg.Gateway.HTTPAddr: got %q, want "127.0.0.1:8080"`, cfg.Gateway.HTTPAddr)
	case cfg.Hub.WSAddr != "127.0.0.1:8081":
		t.Errorf(`cfg.Hub.WSAddr: got %q, want "127.0.0.1:8081"`, cfg.Hub.WSAddr)
	case cfg.DataDir != ".run":
		t.Errorf(`cfg.DataDir: got %q, want ".run"`, cfg.DataDir)
	case !bool(cfg.Demo):
		t.Error("cfg.Demo: got false, want true")
	case !bool(cfg.DemoAgent):
		t.Error("cfg.DemoAgent: got false, want true")
	case !cfg.all():
		t.Errorf("cfg.all(): got false, want true, with %+v", cfg)
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

// Collateral that nobody holds must not let strangers earn, and keys in a file are no keys.
func TestWhatIsForDevelopmentIsForLoopbackAlone(t *testing.T) {
	for on, name := range map[string]string{
		"SVC_SETTLEMENT_DEVELOPMENT_COLLATERAL=true": "settlement: development_collateral",
		"SVC_HUB_DEVELOPMENT_COLLATERAL=true":        "hub: development_collateral",
		"SVC_SIGNER_DEVELOPMENT=true":                "signer: development",
	} {
		load(t, "", on)
		for _, address := range []string{"SVC_HTTP_ADDR=:8080", "SVC_WS_ADDR=0.0.0.0:8081", "SVC_METRICS_ADDR=:9090"} {
			_, err := Load("", "", []string{on, address})
			named(t, err, name)
		}
	}
}

// Whoever reaches a demo from elsewhere must find no operator whose password is in a file, and no free answers.
func TestADemoHasAnOperatorAndAPlaygroundOnLoopbackAlone(t *testing.T) {
	dir, err := localdata.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close() //nolint:errcheck // nothing was written that counts
	for environ, want := range map[string]struct{ operator, playground bool }{
		"SVC_HTTP_ADDR=127.0.0.1:8080":                     {true, true},
		"SVC_HTTP_ADDR=:8080":                              {false, false},
		"SVC_OPERATOR_ADDR=0.0.0.0:8082":                   {false, false},
		"SVC_WS_ADDR=0.0.0.0:8081":                         {false, false},
		"SVC_DEMO_AGENT=off":                               {true, false},
		"SVC_BILLING_PLAYGROUND_DAILY_USD=0":               {true, false},
		"SVC_ADMIN_TOKENS=root:" + strings.Repeat("a", 40): {false, true},
	} {
		cfg := load(t, "", environ)
		_, token, err := withOperator(cfg, dir)
		if err != nil {
			t.Fatal(err)
		}
		if got := token != ""; got != want.operator {
			t.Errorf("%s: the demo makes an operator: got %t, want %t", environ, got, want.operator)
		}
		if got := withPlayground(cfg, "a/b").Gateway.PlaygroundModels != ""; got != want.playground {
			t.Errorf("%s: visitors may ask a model: got %t, want %t", environ, got, want.playground)
		}
	}
}

// Gateways that hash under different secrets would count a visitor anew at each.
func TestAGatewayBesideAnotherProcesssLedgerNeedsTheVisitorSecret(t *testing.T) {
	environ := []string{"SVC_GATEWAY_PLAYGROUND_MODELS=a/b", "SVC_NATS_URL=nats://127.0.0.1:1",
		"SVC_GRPC_ADDR=127.0.0.1:1",
		"SVC_PEERS=billing-ledger=127.0.0.1:1,catalog=127.0.0.1:1,provider-hub=127.0.0.1:1,router=127.0.0.1:1," +
			"settlement=127.0.0.1:1,verifier=127.0.0.1:1"}
	_, err := Load("edge-gateway", "", environ)
	named(t, err, "VisitorSecret")
	load(t, "edge-gateway", append(environ, "SVC_GATEWAY_VISITOR_SECRET=a secret of all gateways")...)
	load(t, "", environ[0])
}

func TestASubsetNeedsAWayToTheServicesItCalls(t *testing.T) {
	_, err := Load("edge-gateway,router", "", nil)
	named(t, err, "edge-gateway needs the address of billing-ledger", "settlement", "provider-hub", "SVC_NATS_URL")
	peers := "SVC_PEERS=catalog=127.0.0.1:1|127.0.0.1:3,billing-ledger=127.0.0.1:1,settlement=127.0.0.1:1," +
		"verifier=127.0.0.1:1"
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
	switch {
	case err != nil:
		t.Errorf("got the error %v, want none", err)
	case cfg.DataDir != "/x":
		t.Errorf(`cfg.DataDir: got %q, want "/x"`, cfg.DataDir)
	case cfg.Gateway.HTTPAddr != "127.0.0.1:2":
		t.Errorf(`cfg.Gateway.HTTPAddr: got %q, want "127.0.0.1:2"`, cfg.Gateway.HTTPAddr)
	case cfg.Gateway.MaxBodyBytes != 5:
		t.Errorf("cfg.Gateway.MaxBodyBytes: got %d, want 5", cfg.Gateway.MaxBodyBytes)
	case cfg.Hub.HubID != "hub-7":
		t.Errorf(`cfg.Hub.HubID: got %q, want "hub-7"`, cfg.Hub.HubID)
	case cfg.Billing.MaxKeys != 3:
		t.Errorf("cfg.Billing.MaxKeys: got %d, want 3", cfg.Billing.MaxKeys)
	case cfg.Log.Level != "debug":
		t.Errorf(`cfg.Log.Level: got %q, want "debug"`, cfg.Log.Level)
	case cfg.Log.Format != "text":
		t.Errorf(`cfg.Log.Format: got %q, want "text"`, cfg.Log.Format)
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
					t.Errorf("the variable of %s: got %v, want %v", here, field.Type.Kind(), reflect.Struct)
					continue
				}
				walk(strings.TrimSuffix(here, "."), field.Type)
				continue
			}
			if other, taken := variables[variable]; taken && !strings.HasPrefix(variable, "SVC_PEPPER") {
				t.Errorf("%s and %s are both %s", here, other, variable)
			}
			variables[variable] = here
		}
	}
	walk("", reflect.TypeFor[Config]())
}
