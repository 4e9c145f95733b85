package config

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

type spelt struct {
	Addr  string `yaml:"addr" env:"SVC_HTTP_ADDR"`
	Inner struct {
		Count int `yaml:"count" env:"SVC_ONLY_HERE"`
	} `yaml:"inner"`
}

func TestAMisspeltVariableIsAFaultWithTheNearestName(t *testing.T) {
	var cfg spelt
	err := Read(&cfg, "", []string{
		"SVC_HTPP_ADDR=127.0.0.1:1", "SVC_ONLY_HER=1", "SVC_LOGLEVEL=info", "SVC_XYZZY=1", "SVC_=1", "SVC_ONLY_HERE=many",
	})
	for _, want := range []string{
		"SVC_HTPP_ADDR is no setting; did you mean SVC_HTTP_ADDR?", "SVC_ONLY_HER is no setting; did you mean SVC_ONLY_HERE?",
		"SVC_LOGLEVEL is no setting; did you mean SVC_LOG_LEVEL?", "SVC_XYZZY is no setting; -print shows all",
		"SVC_ is no setting",
		"Count",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to say %q", err, want)
		}
	}
}

func TestARetiredVariableIsAFaultThatNamesWhatReplacedIt(t *testing.T) {
	var cfg spelt
	err := Read(&cfg, "", []string{"SVC_GATEWAY_PLAYGROUND_KEY=sk-svc-hunter2"})
	const want = "SVC_GATEWAY_PLAYGROUND_KEY is no setting any more; remove it: an account of the platform pays, " +
		"up to SVC_BILLING_PLAYGROUND_DAILY_USD of billing-ledger"
	switch {
	case err == nil:
		t.Error("got no error, want one")
	case !strings.Contains(err.Error(), want):
		t.Errorf("got the error %q, want it to say %q", err, want)
	case strings.Contains(err.Error(), "hunter2"):
		t.Errorf("got the error %q, want it without the value", err)
	}
}

func TestEachRetiredVariableIsReadNoMoreAndWhatReplacedItIs(t *testing.T) {
	known := strings.Fields(everyName)
	for line := range strings.Lines(retiredNames) {
		name, advice, _ := strings.Cut(strings.TrimSpace(line), " ")
		if advice == "" {
			t.Errorf("%s: got no advice, want some", name)
		}
		if slices.Contains(known, name) {
			t.Errorf("%s: got it among the variables, want it retired", name)
		}
		for _, other := range regexp.MustCompile(`SVC_[A-Z_]+`).FindAllString(advice, -1) {
			if !slices.Contains(known, other) {
				t.Errorf("%s: got the advice %q, want a variable that a program reads", name, advice)
			}
		}
	}
}

func TestWhatOtherProgramsReadIsNoFault(t *testing.T) {
	var cfg spelt
	err := Read(&cfg, "", []string{
		"SVC_HTTP_ADDR=127.0.0.1:1", "SVC_ONLY_HERE=3", "SVC_E2E_ENV=x", "SVC_API_KEY=x", "SVC_HUB_ID=hub-1",
		"SVC_DEMO_AGENT=off",
		"HOME=/", "svc_http_addr=x", "MY_SVC_THING=1",
		// What Kubernetes makes of a Service called svc-gateway.
		"SVC_GATEWAY_SERVICE_HOST=10.0.0.1", "SVC_GATEWAY_SERVICE_PORT=80", "SVC_GATEWAY_SERVICE_PORT_HTTP=80",
		"SVC_GATEWAY_PORT=tcp://10.0.0.1:80", "SVC_GATEWAY_PORT_80_TCP=tcp://10.0.0.1:80",
		"SVC_GATEWAY_PORT_80_TCP_ADDR=10.0.0.1",
	})
	if err != nil || cfg.Inner.Count != 3 {
		t.Errorf("got %v and %+v, want no fault", err, cfg)
	}
}

func TestAFaultOfAVariableShowsNoValue(t *testing.T) {
	path := filepath.Join(t.TempDir(), "svc.yaml")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var cfg spelt
	if err := Read(&cfg, path, []string{"SVC_ADMIN_TOKENZ=alice:hunter2"}); err == nil ||
		strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %v, want a fault without the value", err)
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"abc", "abc", 0}, {"abc", "", 3}, {"", "ab", 2}, {"abc", "acb", 1}, {"abc", "abd", 1},
		{"abc", "abcd", 1}, {"kitten", "sitting", 3}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("%q to %q: got %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
