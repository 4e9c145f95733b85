package check

import (
	"fmt"
	"strings"
	"testing"
)

// What was measured, and where it stands.
const (
	cpuPerRequest   = 3723e-6     // s, fleet, small request: README.md
	cpuPerEvent     = 48.1e-6     // s, fleet, 512 streams: README.md
	cpuPerAdmission = 95e-6       // s, 10^6 accounts and 10^7 settled requests: README.md
	cpuPerSettle    = 2 / 22146.0 // s, both cores busy with 22,146 settles a second: README.md
	bytesFresh      = 1393        // a settled request: README.md
	bytesKept       = 525         // the same after the retention
	batchLines      = 58809       // a second, services/settlement: README.md
	hubSession      = 32.6        // KiB, deploy/bench/README.md
	routerSession   = 4.58        // KiB, deploy/bench/README.md
	agentsPerHub    = 10_000.0    // as measured
	eventsPerAnswer = 250
)

// TestTheTableOfLoadsIsComputed holds deploy/scale.md to the figures above. They stand in two READMEs, which are
// read, too, so that a new measurement renews the table.
func TestTheTableOfLoadsIsComputed(t *testing.T) {
	text := string(read(t, "deploy/scale.md"))
	for _, c := range []struct{ name, want string }{{"scale", loads()}, {"agents", agents(100_000)}} {
		_, got, _ := strings.Cut(text, "<!-- "+c.name+" -->\n")
		got, _, _ = strings.Cut(got, "<!-- /"+c.name+" -->")
		if got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
	for file, figures := range map[string][]string{
		"README.md":              {"3,723", "48.1", "95 µs", "22,146/s", "1,393 bytes · 525 bytes", "58,809 lines/s"},
		"deploy/bench/README.md": {"32.6 KiB", "4.58 KiB"},
	} {
		text := string(read(t, file))
		for _, figure := range figures {
			if !strings.Contains(text, figure) {
				t.Errorf("%s has no %q any more: renew the constants here, and deploy/scale.md", file, figure)
			}
		}
	}
}

// loads is the table for three rates.
func loads() string {
	var b strings.Builder
	b.WriteString("| requests a minute | 10,000 | 100,000 | 1,000,000 |\n|---|--:|--:|--:|\n")
	for _, row := range []struct {
		name, format string
		of           func(perSecond float64) float64
	}{
		{"requests a second", "%.0f", func(r float64) float64 { return r }},
		{"cores for requests, databases included", "%.1f", func(r float64) float64 { return r * cpuPerRequest }},
		{"cores for events", "%.1f", func(r float64) float64 { return r * eventsPerAnswer * cpuPerEvent }},
		{"cores of the ledger's PostgreSQL alone", "%.2f", func(r float64) float64 {
			return r * (cpuPerAdmission + cpuPerSettle)
		}},
		{"the ledger's disk, GB a day", "%.0f", func(r float64) float64 { return r * 86400 * bytesFresh / 1e9 }},
		{"of it after the retention, GB a day", "%.0f", func(r float64) float64 {
			return r * 86400 * bytesKept / 1e9
		}},
		{"the batch of a day, minutes", "%.0f", func(r float64) float64 { return r * 86400 / batchLines / 60 }},
	} {
		b.WriteString("| " + row.name)
		for _, perMinute := range []float64{1e4, 1e5, 1e6} {
			fmt.Fprintf(&b, " | "+row.format, row.of(perMinute/60))
		}
		b.WriteString(" |\n")
	}
	return b.String()
}

func agents(n float64) string {
	return fmt.Sprintf("| 100,000 agents | |\n|---|--:|\n"+
		"| hubs of 10,000 agents | %.0f |\n| memory of their sessions, GiB | %.1f |\n"+
		"| the view of each router, MiB | %.0f |\n", n/agentsPerHub, n*hubSession/1024/1024, n*routerSession/1024)
}
