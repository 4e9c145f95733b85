package standalone

import (
	"bytes"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"go.yaml.in/yaml/v3"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/node"
	billingledger "svc.internal/services/billing-ledger"
	"svc.internal/services/catalog"
	edgegateway "svc.internal/services/edge-gateway"
	providerhub "svc.internal/services/provider-hub"
	"svc.internal/services/router"
	"svc.internal/services/settlement"
	"svc.internal/services/settlement/signer"
	"svc.internal/services/verifier"
)

var updateChart = flag.Bool("update-chart", false, "write the chart's files anew")

// chartFiles is where the chart keeps what it knows of the services.
const chartFiles = "../../charts/svc/files"

// chartService is what the chart knows of a service. The NetworkPolicies and the peers in
// the settings follow from it.
type chartService struct {
	Name string `yaml:"name"`
	// Peers are called, and Optional are called where they are deployed.
	Peers    []string `yaml:"peers"`
	Optional []string `yaml:"optional"`
	// Callers are the services that may call any of its contracts.
	Callers  []string `yaml:"callers"`
	Database bool     `yaml:"database"`
	Bus      bool     `yaml:"bus"`
}

// programSpecs are the services as programs of their own have them. That of a standalone
// process gives them its own database and bus.
func programSpecs() []node.Spec {
	return []node.Spec{catalog.Spec(), billingledger.Spec(), signer.Spec(), settlement.Spec(), router.Spec(),
		providerhub.Spec(node.DefaultHub), verifier.Spec(), edgegateway.Spec()}
}

func chartServices() []chartService {
	var services []chartService
	for _, spec := range programSpecs() {
		callers := map[string]bool{}
		for _, list := range spec.Callers {
			for _, caller := range list {
				callers[caller] = true
			}
		}
		services = append(services, chartService{Name: spec.Name, Peers: sorted(spec.Peers), Optional: sorted(spec.Optional),
			Callers: slices.Sorted(maps.Keys(callers)), Database: spec.Database, Bus: spec.Bus})
	}
	return services
}

func sorted(names []string) []string { return slices.Sorted(slices.Values(names)) }

// chartUser is a user of the NATS server that the chart has for development.
type chartUser struct {
	User      string   `yaml:"user"`
	Publish   []string `yaml:"publish"`
	Subscribe []string `yaml:"subscribe"`
}

// chartHub stands for the id of a hub in the chart's list of users.
const chartHub = "hub-id"

// grouped are the services that a pod of the chart may have together, in the chart's order.
var grouped = []string{node.ProviderHub, node.Router, node.EdgeGateway}

// chartUsers are the users of all services of the bus but those of hubs.
func chartUsers() []chartUser {
	var users []chartUser
	for _, spec := range programSpecs() {
		if spec.Bus && spec.HubID == "" {
			users = append(users, newChartUser(spec.Name, bus.Identity{Services: []string{spec.Name}}))
		}
	}
	return users
}

// chartHubUser is the user of a hub whose process has these services. The chart writes it once for each hub.
func chartHubUser(services ...string) chartUser {
	return newChartUser(bus.HubName(chartHub), bus.Identity{Services: services, HubID: chartHub})
}

func newChartUser(name string, id bus.Identity) chartUser {
	publish, subscribe := id.Permissions()
	return chartUser{User: name, Publish: publish, Subscribe: subscribe}
}

func TestTheChartKnowsWhoCallsWhom(t *testing.T) {
	if got := len(chartServices()); got != len(node.Names()) {
		t.Errorf("services: got %d, want %d", got, len(node.Names()))
	}
	holdToChart(t, "callers.yaml", map[string]any{"services": chartServices()})
}

func TestTheChartKnowsWhoMayUseWhichSubject(t *testing.T) {
	holdToChart(t, "nats-users.yaml", map[string]any{"users": chartUsers(), "hub": chartHubUser(node.ProviderHub),
		"grouped_hub": chartHubUser(grouped...)})
}

// holdToChart compares a file of the chart with what it should be.
func holdToChart(t *testing.T, name string, content any) {
	t.Helper()
	var want bytes.Buffer
	want.WriteString("# Written by services/standalone/chart_test.go: go test -run TheChart -update-chart .\n")
	encoder := yaml.NewEncoder(&want)
	encoder.SetIndent(2)
	if err := encoder.Encode(content); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(chartFiles, name)
	if *updateChart {
		if err := os.WriteFile(path, want.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want.Bytes()) {
		t.Errorf("charts/svc/files/%s is behind the services: run go test -run TheChart -update-chart . here: got\n%s\n"+
			"want\n%s", name, got, want.Bytes())
	}
}
