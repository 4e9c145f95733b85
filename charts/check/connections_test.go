package check

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// pools are the files that bound the connections of each service with tables.
var pools = map[string]string{
	"catalog": "catalog/program.go", "billing-ledger": "billing-ledger/program.go",
	"chain-signer": "settlement/signer/program.go", "settlement": "settlement/program.go",
	"provider-hub": "provider-hub/program.go", "verifier": "verifier/program.go",
}

var maxConns = regexp.MustCompile(`(?m)^(?:const |\t)maxConns = (\d+)$`)

// connections is the section of the chart's page that says how many connections PostgreSQL must accept.
func connections(t *testing.T) string {
	t.Helper()
	values := fromYAML(t, read(t, chart+"/values.yaml"))
	var page strings.Builder
	page.WriteString("\n## Connections to PostgreSQL\n\n" +
		"A replica opens at most as many as its program allows. A rollout has one replica more of each service but the " +
		"hub.\n\n" +
		"| service | of a replica | by default, in a rollout | with `maxReplicas`, in a rollout |\n" +
		"|---|---:|---:|---:|\n")
	usual, most := 0, 0
	for _, service := range services() {
		if pools[service] == "" {
			continue
		}
		found := maxConns.FindSubmatch(read(t, root+"/services/"+pools[service]))
		if found == nil {
			t.Errorf("%s: got no constant maxConns, want one", pools[service])
			continue
		}
		each, err := strconv.Atoi(string(found[1]))
		if err != nil {
			t.Fatal(err)
		}
		if service == "catalog" {
			each++ // the connection that listens leaves its pool
		}
		surge := 1
		if service == "provider-hub" {
			surge = 0
		}
		replicas, _ := under(values, "services", service)["replicas"].(int)
		maxReplicas, _ := under(values, "services", service, "autoscaling")["maxReplicas"].(int)
		if min(replicas, maxReplicas) == 0 {
			t.Errorf("%s: got %d replicas and at most %d, want some", service, replicas, maxReplicas)
		}
		fmt.Fprintf(&page, "| %s | %d | %d | %d |\n", service, each, each*(replicas+surge), each*(maxReplicas+surge))
		usual, most = usual+each*(replicas+surge), most+each*(maxReplicas+surge)
	}
	// Migrations, tools, monitors, standbys and what PostgreSQL keeps for superusers.
	const others = 30
	fmt.Fprintf(&page, "\nEach replica of settlement opens 2 more for each chain. With 30 for migrations, tools, "+
		"monitors and standbys, `max_connections` must be at least %d by default and %d with `maxReplicas`: PostgreSQL's "+
		"own default of 100 is too low. A pooler between the services and PostgreSQL must pool by session, because "+
		"LISTEN and some advisory locks of the services belong to a session.\n",
		usual+others, most+others)
	return page.String()
}

// TestTheAdaptersRulesNameTheMetricsOfTheAutoscalers holds the sample of prometheus-adapter to the
// values, and its metrics to the dashboards, whose panels are held to a real scrape.
func TestTheAdaptersRulesNameTheMetricsOfTheAutoscalers(t *testing.T) {
	values := fromYAML(t, read(t, chart+"/values.yaml"))
	wanted := map[string]string{}
	for _, service := range services() {
		if metric, _ := under(values, "services", service, "autoscaling")["metric"].(string); metric != "" {
			wanted[metric] = service
		}
	}
	rules := list(under(fromYAML(t, read(t, chart+"/files/prometheus-adapter.yaml")), "rules")["custom"])
	for _, one := range rules {
		query, _ := mapping(one)["seriesQuery"].(string)
		metric, _, _ := strings.Cut(query, "{")
		service, known := wanted[metric]
		if !known {
			t.Errorf("a rule for %q: got one, want none, because no autoscaler asks for it", metric)
			continue
		}
		delete(wanted, metric)
		if !strings.Contains(string(read(t, chart+"/files/dashboards/"+service+".json")), metric) {
			t.Errorf("%s: got no panel of the dashboard of %s, want one", metric, service)
		}
	}
	for metric, service := range wanted {
		t.Errorf("%s, the metric of %s: got no rule, want one", metric, service)
	}
}

var (
	streamOf   = regexp.MustCompile(`(?s)StreamConfig\{\n\tName: +"(\w+)",.*?\n\}`)
	streamSize = regexp.MustCompile(`MaxBytes: (\d+) << (20|30),`)
	streamAge  = regexp.MustCompile(`MaxAge: +(?:(\d+) \* )?24 \* time\.Hour,`)
)

// TestThePageNamesTheSizesOfTheStreams holds the page's table of NATS to the streams' settings.
func TestThePageNamesTheSizesOfTheStreams(t *testing.T) {
	page, found := string(read(t, chart+"/about.md")), 0
	for _, stream := range streamOf.FindAllStringSubmatch(string(read(t, root+"/pkg/bus/subjects.go")), -1) {
		found++
		size := streamSize.FindStringSubmatch(stream[0])
		if size == nil {
			t.Errorf("stream %s: got no size, want one", stream[1])
			continue
		}
		unit := map[string]string{"20": "MiB", "30": "GiB"}[size[2]]
		age := "the last of each provider"
		if days := streamAge.FindStringSubmatch(stream[0]); days != nil {
			age = map[string]string{"": "1 day"}[days[1]]
			if age == "" {
				age = days[1] + " days"
			}
		}
		if row := fmt.Sprintf("| `%s` | %s | %s %s |", stream[1], age, size[1], unit); !strings.Contains(page, row) {
			t.Errorf("charts/svc/about.md: got no row %q, want one", row)
		}
	}
	if found != 4 {
		t.Errorf("streams that the search finds: got %d, want 4", found)
	}
}
