package check

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestTheChartsCopiesAreTheTrees holds the chart's copies of files that stand elsewhere: a
// chart is packed from its own folder alone.
func TestTheChartsCopiesAreTheTrees(t *testing.T) {
	for _, kind := range []struct{ from, into string }{
		{root + "/deploy/alerts/*.yaml", chart + "/files/alerts"},
		{root + "/deploy/dashboards/*.json", chart + "/files/dashboards"},
		{root + "/deploy/postgres/logins.sql", chart + "/files"},
	} {
		originals, err := filepath.Glob(kind.from)
		if err != nil {
			t.Fatal(err)
		}
		known := map[string]bool{}
		for _, path := range originals {
			known[filepath.Base(path)] = true
			hold(t, filepath.Join(kind.into, filepath.Base(path)), read(t, path))
		}
		if kind.into == chart+"/files" {
			continue
		}
		copies, err := filepath.Glob(kind.into + "/*")
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range copies {
			if !known[filepath.Base(path)] {
				t.Errorf("%s: got a copy, want none, because its original is gone", path)
			}
		}
	}
}

// TestTheGraceCoversEveryStopOfAProcess holds files/stop.yaml, from which the chart computes
// terminationGracePeriodSeconds, to the source of what it counts.
func TestTheGraceCoversEveryStopOfAProcess(t *testing.T) {
	stop := fromYAML(t, read(t, chart+"/files/stop.yaml"))
	for _, bound := range []struct{ name, path, pattern string }{
		{"service", "/pkg/node/run.go", `serviceStop = (\d+) \* time\.(Second)`},
		{"margin", "/pkg/node/run.go", `stopMargin = (\d+) \* time\.(Second)`},
		{"admin", "/pkg/node/run.go", `Name: "admin", StopTimeout: (\d+) \* time\.(Second)`},
		{"grpc", "/pkg/serve/serve.go", `limit = (\d+) \* time\.(Second)`},
		{"bus", "/pkg/node/node.go", `busDrain = (\d+) \* time\.(Second)`},
		{"telemetry", "/pkg/node/run.go", `stopMargin = (\d+) \* time\.(Second)`},
	} {
		found := regexp.MustCompile(bound.pattern).FindSubmatch(read(t, root+bound.path))
		if found == nil {
			t.Errorf("%s: got no match of %s, want one", bound.path, bound.pattern)
			continue
		}
		if got := fmt.Sprint(stop[bound.name]); got != string(found[1]) {
			t.Errorf("seconds of %s in files/stop.yaml: got %s, want %s of %s", bound.name, got, found[1], bound.path)
		}
	}
}

// TestAHubsDrainEndsBeforeItsServiceMust holds the hub's own drain to the bound of a
// service's stop, by the defaults of the program.
func TestAHubsDrainEndsBeforeItsServiceMust(t *testing.T) {
	stop := fromYAML(t, read(t, chart+"/files/stop.yaml"))
	service, _ := stop["service"].(int)
	text, _ := under(printed(t, "provider-hub"), "hub")["drain_timeout"].(string)
	drain, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	if limit := time.Duration(service) * time.Second; drain >= limit {
		t.Errorf("hub.drain_timeout: got %v, want less than %v", drain, limit)
	}
}

// TestTheLeastDelayIsTheOneUnderTest holds the least value of drain.delaySeconds to the delay
// under which the fleet of processes is restarted by turns under load.
func TestTheLeastDelayIsTheOneUnderTest(t *testing.T) {
	found := regexp.MustCompile(`c\.DrainDelay = (\d+) \* time\.Second`).FindSubmatch(
		read(t, root+"/services/proving/internal/fleet/config.go"))
	if found == nil {
		t.Fatal("the fleet's delay: got none, want one")
	}
	schema := fromJSON(t, read(t, chart+"/values.schema.json"))
	got := under(schema, "properties", "drain", "properties", "delaySeconds")["minimum"]
	if want := string(found[1]); fmt.Sprint(got) != want {
		t.Errorf("least drain.delaySeconds: got %v, want %s", got, want)
	}
	drain := under(fromYAML(t, read(t, chart+"/values.yaml")), "drain")
	if got, want := drain["timeoutSeconds"], 20; got != want {
		t.Errorf("drain.timeoutSeconds: got %v, want %d, the default of pkg/node, which the fleet has", got, want)
	}
}

// TestTheMetricsOfAutoscalersAreMade finds each metric by which pods are scaled in the source
// of its service. The exporter writes underscores in the place of dots.
func TestTheMetricsOfAutoscalersAreMade(t *testing.T) {
	for service, file := range map[string]string{
		"edge-gateway": "internal/inference/metrics.go", "provider-hub": "metrics.go",
	} {
		metric, _ := under(fromYAML(t, read(t, chart+"/values.yaml")), "services", service, "autoscaling")["metric"].(string)
		prefix := "svc." + strings.ReplaceAll(service, "-", "_") + "."
		last, ok := strings.CutPrefix(metric, strings.ReplaceAll(prefix, ".", "_"))
		if !ok {
			t.Errorf("metric of %s: got %q, want the prefix %s", service, metric, strings.ReplaceAll(prefix, ".", "_"))
			continue
		}
		source := string(read(t, root+"/services/"+service+"/"+file))
		whole, split := `"`+prefix+strings.ReplaceAll(last, "_", ".")+`"`, `{"`+last+`", `
		composed := strings.Contains(source, split) && strings.Contains(source, `"`+prefix+`"+`)
		if !strings.Contains(source, whole) && !composed {
			t.Errorf("%s of %s: got no instrument of this name in %s, want one", metric, service, file)
		}
	}
}

// TestANewPodIsFoundBeforeTheNextStops holds rollout.minReadySeconds to how often clients look
// replicas up. A cluster's DNS keeps a name for 5 s, and a look may have begun just before.
func TestANewPodIsFoundBeforeTheNextStops(t *testing.T) {
	found := regexp.MustCompile(`LookAgain = (\d+) \* time\.Second`).FindSubmatch(read(t, root+"/pkg/serve/names.go"))
	if found == nil {
		t.Fatal("how often names are looked up: got none, want one")
	}
	interval, err := strconv.Atoi(string(found[1]))
	if err != nil {
		t.Fatal(err)
	}
	const kept = 5
	schema := fromJSON(t, read(t, chart+"/values.schema.json"))
	least, _ := under(schema, "properties", "rollout", "properties", "minReadySeconds")["minimum"].(float64)
	if want := float64(2*interval + kept); least < want {
		t.Errorf("least rollout.minReadySeconds: got %v, want at least %v", least, want)
	}
}
