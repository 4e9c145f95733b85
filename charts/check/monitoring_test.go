package check

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestWhatIsWatchedIsFoundByTheNamesInTheAlerts renders the set of values with monitoring. Alerts know a service by its
// job, and lead to runbooks at the deployment's own address.
func TestWhatIsWatchedIsFoundByTheNamesInTheAlerts(t *testing.T) {
	monitors, alerts := 0, 0
	for _, o := range render(t, chart+"/ci/platform-values.yaml") {
		switch kind(o) {
		case "ServiceMonitor":
			monitors++
			expect(t, "jobLabel", under(o, "spec")["jobLabel"], "app.kubernetes.io/component")
		case "PrometheusRule":
			for _, group := range list(under(o, "spec")["groups"]) {
				for _, rule := range list(mapping(group)["rules"]) {
					if mapping(rule)["alert"] == nil {
						continue
					}
					alerts++
					runbook := fmt.Sprint(under(mapping(rule), "annotations")["runbook_url"])
					if !strings.HasPrefix(runbook, "https://git.example.com/market/deploy/runbooks/") {
						t.Errorf("%v: got the runbook %q, want one below the address of the values", mapping(rule)["alert"], runbook)
					}
				}
			}
		}
	}
	expect(t, "monitors", monitors, 1)
	expect(t, "there are alerts", alerts > 50, true)
}

// scraped are the pods of a release that Prometheus reads, each by its jobs.
func scraped(all []object) map[string][]string {
	found := map[string][]string{}
	for _, o := range all {
		if !isServing(o) {
			continue
		}
		found[name(o)] = nil
		for _, service := range all {
			labels := under(service, "metadata", "labels")
			if kind(service) == "Service" && labels["svc.internal/metrics"] == "true" && selects(service, o) {
				found[name(o)] = append(found[name(o)], fmt.Sprint(labels["app.kubernetes.io/component"]))
			}
		}
	}
	return found
}

// selects reports whether a Service leads to the pods of an object.
func selects(service, o object) bool {
	labels := under(o, "spec", "template", "metadata", "labels")
	for label, value := range under(service, "spec", "selector") {
		if labels[label] != value {
			return false
		}
	}
	return true
}

// TestEachPodIsScrapedOnceByAJobOfItsOwn finds the Services by which Prometheus finds a pod. A process has one /metrics
// of all its services: a pod that was found by two Services would count each of its requests twice.
func TestEachPodIsScrapedOnceByAJobOfItsOwn(t *testing.T) {
	eachSet(t, func(t *testing.T, set string, all []object) {
		pods := map[string]string{}
		for pod, jobs := range scraped(all) {
			if len(jobs) != 1 {
				t.Errorf("jobs that read the pods of %s: got %v, want one", pod, jobs)
				continue
			}
			if other := pods[jobs[0]]; other != "" {
				t.Errorf("job %s: got it for %s and %s, want one", jobs[0], pod, other)
			}
			pods[jobs[0]] = pod
		}
		want := len(services())
		switch set {
		case "minimal":
			want = 7
		case "grouped":
			want = 6
		}
		expect(t, "pods that are scraped", len(pods), want)
	})
}

// jobMatcher is what a query asks of the label job, and answeredCalls is a query of calls that services answer.
var (
	jobMatcher    = regexp.MustCompile(`job(=~?)\\?"([^"\\]+)\\?"`)
	answeredCalls = regexp.MustCompile(`rpc_server_call_duration_seconds_\w+\{([^}]*)\}`)
)

// queries are the files of alerts and dashboards by their names.
func queries(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, pattern := range []string{"/files/alerts/*.yaml", "/files/dashboards/*.json"} {
		found, err := filepath.Glob(chart + pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			texts[filepath.Base(path)] = string(read(t, path))
		}
	}
	return texts
}

// TestEachQueryFindsTheServicesOfEveryForm holds what alerts and dashboards ask of the label job to the jobs of each
// set of values: a query that finds no pod is blind, and one that finds two pods mixes them.
func TestEachQueryFindsTheServicesOfEveryForm(t *testing.T) {
	eachSet(t, func(t *testing.T, set string, all []object) {
		var jobs []string
		for _, of := range scraped(all) {
			jobs = append(jobs, of...)
		}
		asked := 0
		for file, text := range queries(t) {
			for _, found := range jobMatcher.FindAllStringSubmatch(text, -1) {
				asked++
				var hit []string
				for _, name := range strings.Split(found[2], "|") {
					if slices.Contains(jobs, name) {
						hit = append(hit, name)
					}
				}
				away := set == "minimal" && found[2] == "chain-signer"
				if len(hit) == 0 && !away {
					t.Errorf("%s: job%s%q: got none of the jobs %v, want one", file, found[1], found[2], jobs)
				}
				if strings.HasSuffix(file, ".json") && len(hit) > 1 {
					t.Errorf("%s: job%s%q: got the jobs %v, want one", file, found[1], found[2], hit)
				}
			}
		}
		if asked < 80 {
			t.Errorf("queries that ask for a job: got %d, want at least 80", asked)
		}
	})
}

// TestAnAlertWatchesEachPod finds each job of each set of values in the alert on replicas that are away.
func TestAnAlertWatchesEachPod(t *testing.T) {
	replica := regexp.MustCompile(`(?m)^\s+expr: up\{job=~"([^"]+)"\} == 0$`).FindStringSubmatch(queries(t)["fleet.yaml"])
	if replica == nil {
		t.Fatal("the alert ReplicaDown: got no list of jobs, want one")
	}
	eachSet(t, func(t *testing.T, _ string, all []object) {
		for pod, jobs := range scraped(all) {
			for _, job := range jobs {
				if !slices.Contains(strings.Split(replica[1], "|"), job) {
					t.Errorf("ReplicaDown: got no job %s of %s, want it", job, pod)
				}
			}
		}
	})
}

// TestADashboardShowsTheCallsOfItsOwnServiceAlone holds queries of calls to the contracts of one service, because a
// process with several services answers those of all.
func TestADashboardShowsTheCallsOfItsOwnServiceAlone(t *testing.T) {
	owners := map[string]string{}
	for file, text := range queries(t) {
		for _, found := range answeredCalls.FindAllStringSubmatch(text, -1) {
			_, after, ok := strings.Cut(found[1], `rpc_method=~\"svc[.]`)
			contracts, _, whole := strings.Cut(after, `[.].*\"`)
			if !ok {
				t.Errorf("%s: got calls by %s, want those of one package of contracts", file, found[1])
				continue
			}
			if !whole {
				t.Errorf("%s: got the calls %s, want all of the package's", file, found[1])
				continue
			}
			if other := owners[contracts]; other != "" && other != file {
				t.Errorf("contracts of %s: got them in %s and %s, want one", contracts, file, other)
			}
			owners[contracts] = file
		}
	}
	// edge-gateway answers no gRPC.
	if got, want := len(owners), len(services())-1; got != want {
		t.Errorf("services whose calls are shown: got %d, want %d", got, want)
	}
}
