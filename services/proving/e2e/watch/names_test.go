//go:build watch

package watch

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// expression is a query with where it stands.
type expression struct {
	where, text string
	// mayBeEmpty reports whether the panel's description says when it has no data.
	mayBeEmpty bool
}

// panels returns the queries of all dashboards.
func panels(t *testing.T) []expression {
	t.Helper()
	var found []expression
	for path, text := range tree(t, "deploy/dashboards/*.json") {
		var board struct {
			Panels []struct {
				Title, Description string
				Targets            []struct{ Expr string }
			}
		}
		if err := json.Unmarshal(text, &board); err != nil {
			t.Fatal(err)
		}
		for _, p := range board.Panels {
			for _, target := range p.Targets {
				found = append(found, expression{filepath.Base(path) + ": " + p.Title,
					strings.ReplaceAll(target.Expr, "$__rate_interval", "1m"), strings.HasPrefix(p.Description, "Empty ")})
			}
		}
	}
	return found
}

// rules returns the expressions of all alerts and records, and those of deploy/slo.md.
func rules(t *testing.T) []expression {
	t.Helper()
	var found []expression
	for path, text := range tree(t, "deploy/alerts/*.yaml") {
		var file struct {
			Groups []struct {
				Rules []struct{ Alert, Record, Expr string }
			}
		}
		if err := yaml.Unmarshal(text, &file); err != nil {
			t.Fatal(err)
		}
		for _, group := range file.Groups {
			for _, r := range group.Rules {
				found = append(found, expression{filepath.Base(path) + ": " + r.Alert + r.Record, r.Expr, false})
			}
		}
	}
	for path, text := range tree(t, "deploy/slo.md") {
		for _, block := range promql.FindAllStringSubmatch(string(text), -1) {
			found = append(found, expression{filepath.Base(path), block[1], false})
		}
	}
	return found
}

var (
	promql     = regexp.MustCompile("(?s)```promql\n(.*?)```")
	quoted     = regexp.MustCompile(`"[^"]*"`)
	metricName = regexp.MustCompile(`\b(?:svc|rpc|gen_ai|go|process)_[a-z0-9_]+|\bslo:[a-z0-9_:]+|\bup\b`)
	selectors  = regexp.MustCompile(`\{[^}]*\}`)
	matcher    = regexp.MustCompile(`(\w+)\s*(?:=~|!=|!~|=)`)
	grouping   = regexp.MustCompile(`\bby \(([^)]*)\)`)
	groups     = regexp.MustCompile(`_(bucket|sum|count)$`)
)

// metrics are the metrics that an expression names.
func (e expression) metrics() []string {
	bare := grouping.ReplaceAllString(selectors.ReplaceAllString(quoted.ReplaceAllString(e.text, `""`), ""), "")
	return metricName.FindAllString(bare, -1)
}

// labels are the labels that an expression selects or groups by.
func (e expression) labels() []string {
	var found []string
	text := quoted.ReplaceAllString(e.text, `""`)
	for _, selector := range selectors.FindAllString(text, -1) {
		for _, m := range matcher.FindAllStringSubmatch(selector, -1) {
			found = append(found, m[1])
		}
	}
	for _, by := range grouping.FindAllStringSubmatch(text, -1) {
		for label := range strings.SplitSeq(by[1], ",") {
			found = append(found, strings.TrimSpace(label))
		}
	}
	return found
}
