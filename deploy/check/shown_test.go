package check

import (
	"encoding/json"
	"go/ast"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// instrumentMaker is the name of a method or function that makes an instrument.
	instrumentMaker = regexp.MustCompile(`(?i)(counter|gauge|histogram)$`)
	// meterMethod is that of OpenTelemetry's methods.
	meterMethod = regexp.MustCompile(`^(Int64|Float64)(Observable)?(Counter|UpDownCounter|Gauge|Histogram)$`)
	promql      = regexp.MustCompile("(?s)```promql\n(.*?)```")
	ruleText    = regexp.MustCompile(`(?m)^\s*(#|summary:|description:).*$`)
)

// leftOut returns the metrics that watch leaves out with a reason, or their beginnings.
func leftOut(t *testing.T) []string {
	t.Helper()
	var found []string
	for _, s := range sources(t) {
		if s.path != "services/proving/e2e/watch/watch_test.go" {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			v, ok := n.(*ast.ValueSpec)
			if !ok || v.Names[0].Name != "leftOut" {
				return true
			}
			for _, e := range v.Values[0].(*ast.CompositeLit).Elts {
				found = append(found, text(e.(*ast.KeyValueExpr).Key))
			}
			return false
		})
	}
	if len(found) == 0 {
		t.Fatal("no metric is left out by leftOut of watch: the search is broken")
	}
	return found
}

// shownMetrics are those of the queries of dashboards, alerts and objectives.
func shownMetrics(t *testing.T) map[string]bool {
	t.Helper()
	var queries []string
	for _, path := range files(t, ".json") {
		if strings.HasPrefix(path, "deploy/dashboards/") {
			var board struct {
				Panels []struct{ Targets []struct{ Expr string } }
			}
			if err := json.Unmarshal(read(t, path), &board); err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			for _, p := range board.Panels {
				for _, target := range p.Targets {
					queries = append(queries, target.Expr)
				}
			}
		}
	}
	for _, path := range files(t, ".yaml") {
		if strings.HasPrefix(path, "deploy/alerts/") && !strings.Contains(path, "/tests/") {
			queries = append(queries, ruleText.ReplaceAllString(string(read(t, path)), ""))
		}
	}
	for _, block := range promql.FindAllStringSubmatch(string(read(t, "deploy/slo.md")), -1) {
		queries = append(queries, block[1])
	}
	shown := map[string]bool{}
	for _, query := range queries {
		for _, name := range metricName.FindAllString(query, -1) {
			shown[name], shown[histogramPart.ReplaceAllString(name, "")] = true, true
		}
	}
	return shown
}

// A metric that nobody looks at is a fault that nobody sees. make watch-check asks the same of
// a fleet, which does not expose what only a fault or a chain brings about.
func TestDashboardsAlertsOrObjectivesKnowEachMetric(t *testing.T) {
	shown, out, made := shownMetrics(t), leftOut(t), 0
	for _, s := range sources(t) {
		if s.test || !strings.HasPrefix(s.path, "services/") && !strings.HasPrefix(s.path, "pkg/") {
			continue
		}
		for _, i := range instrumentsOf(s.file) {
			if len(i.metrics) == 0 && i.method && !i.given {
				t.Errorf("%s: got an instrument whose name this check cannot read, want a literal, a parameter, or a literal "+
					"and a field of the list that is ranged over", s.path)
			}
			for _, name := range i.metrics {
				made++
				if !shown[name] && !slices.ContainsFunc(out, func(o string) bool { return strings.HasPrefix(name, o) }) {
					t.Errorf("%s makes %s: got it in no dashboard, alert or objective, and not in leftOut of watch; want it in one",
						s.path, name)
				}
			}
		}
	}
	if made < 150 {
		t.Errorf("metrics that the search finds: got %d, want at least 150", made)
	}
}

// instrument is a call that makes an instrument.
type instrument struct {
	metrics []string
	// method reports whether the call is of OpenTelemetry's, and given whether its name is, or
	// has, a parameter of the function around it. The callers of that function name it then.
	method, given bool
}

// instrumentsOf returns the instruments that a file makes.
func instrumentsOf(file *ast.File) []instrument {
	ends, parameters := map[ast.Node][]string{}, map[ast.Node]map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.RangeStmt:
			if list, ok := n.X.(*ast.CompositeLit); ok {
				calls(n.Body, func(c *ast.CallExpr) { ends[c] = textsOf(list) })
			}
		case *ast.FuncDecl:
			takes(parameters, n.Type, n.Body)
		case *ast.FuncLit:
			takes(parameters, n.Type, n.Body)
		}
		return true
	})
	var found []instrument
	calls(file, func(c *ast.CallExpr) {
		made := ""
		switch fun := c.Fun.(type) {
		case *ast.SelectorExpr:
			made = fun.Sel.Name
		case *ast.Ident:
			made = fun.Name
		}
		if !instrumentMaker.MatchString(made) || len(c.Args) == 0 {
			return
		}
		i := instrument{method: meterMethod.MatchString(made), metrics: exportedAs(c, made, namesOf(c.Args[0], ends[c]))}
		ast.Inspect(c.Args[0], func(n ast.Node) bool {
			if name, ok := n.(*ast.Ident); ok {
				i.given = i.given || parameters[c][name.Name]
			}
			return true
		})
		found = append(found, i)
	})
	return found
}

// calls visits the calls below a node.
func calls(of ast.Node, visit func(*ast.CallExpr)) {
	ast.Inspect(of, func(n ast.Node) bool {
		if c, ok := n.(*ast.CallExpr); ok {
			visit(c)
		}
		return true
	})
}

// takes notes the parameters of a function for each call in its body.
func takes(parameters map[ast.Node]map[string]bool, of *ast.FuncType, body *ast.BlockStmt) {
	if body == nil {
		return
	}
	calls(body, func(c *ast.CallExpr) {
		if parameters[c] == nil {
			parameters[c] = map[string]bool{}
		}
		for _, field := range of.Params.List {
			for _, name := range field.Names {
				parameters[c][name.Name] = true
			}
		}
	})
}

// textsOf returns all texts below a node.
func textsOf(of ast.Node) (all []string) {
	ast.Inspect(of, func(n ast.Node) bool {
		if one := text(n); one != "" {
			all = append(all, one)
		}
		return true
	})
	return all
}

// namesOf returns the names that an argument may be: a text, or a text with one of some ends.
func namesOf(argument ast.Expr, ends []string) []string {
	if sum, ok := argument.(*ast.BinaryExpr); ok {
		var names []string
		for _, end := range ends {
			names = append(names, text(sum.X)+end)
		}
		return names
	}
	return []string{text(argument)}
}
