package check

import (
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	instrumentName = regexp.MustCompile(`^svc\.[a-z0-9_.]+$`)
	metricName     = regexp.MustCompile(`\bsvc_[a-z0-9_]+`)
	histogramPart  = regexp.MustCompile(`_(bucket|count|sum)$`)
)

// The exporter writes an instrument's name with underscores and adds the unit
// and, to a counter, "total".
func TestAlertsAndDashboardsNameMetricsThatExist(t *testing.T) {
	exported := map[string]bool{}
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				for _, name := range metricsOf(call, s.file) {
					exported[name] = true
				}
			}
			return true
		})
	}
	if len(exported) < 50 {
		t.Fatalf("instruments that the search finds: got %d, want at least 50", len(exported))
	}
	found := 0
	for _, path := range append(files(t, ".yaml"), files(t, ".json")...) {
		if !strings.HasPrefix(path, "deploy/alerts/") && !strings.HasPrefix(path, "deploy/dashboards/") {
			continue
		}
		for _, name := range metricName.FindAllString(string(read(t, path)), -1) {
			found++
			if !exported[name] && !exported[histogramPart.ReplaceAllString(name, "")] {
				t.Errorf("%s names %s, want a metric that a service exports", path, name)
			}
		}
	}
	if found == 0 {
		t.Error("no alert or dashboard names any metric: the search is broken")
	}
}

// metricsOf returns what Prometheus calls the instrument that a call makes. A
// name that ends in a variable may end in each text of the file.
func metricsOf(call *ast.CallExpr, file *ast.File) []string {
	made := ""
	switch fun := call.Fun.(type) {
	case *ast.SelectorExpr:
		made = fun.Sel.Name
	case *ast.Ident: // a function of the file that makes instruments
		made = fun.Name
	}
	if made == "" || len(call.Args) == 0 {
		return nil
	}
	var names []string
	switch first := call.Args[0].(type) {
	case *ast.BasicLit:
		names = []string{text(first)}
	case *ast.BinaryExpr:
		ast.Inspect(file, func(n ast.Node) bool {
			if end := text(n); end != "" {
				names = append(names, text(first.X)+end)
			}
			return true
		})
	}
	return exportedAs(call, made, names)
}

// exportedAs returns what Prometheus calls the instruments of some names that a call makes.
func exportedAs(call *ast.CallExpr, made string, names []string) []string {
	suffix := ""
	for _, arg := range call.Args[1:] {
		if option, ok := arg.(*ast.CallExpr); ok && len(option.Args) == 1 {
			if f, ok := option.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "WithUnit" {
				suffix = map[string]string{"s": "_seconds", "By": "_bytes", "1": "_ratio"}[text(option.Args[0])]
			}
		}
	}
	counts := strings.HasSuffix(strings.ToLower(made), "counter") && !strings.Contains(made, "UpDown")
	var exported []string
	for _, name := range names {
		if instrumentName.MatchString(name) {
			metric := strings.TrimSuffix(strings.ReplaceAll(name, ".", "_"), suffix) + suffix
			if counts {
				metric += "_total"
			}
			exported = append(exported, metric)
		}
	}
	return exported
}

// text is the value of a string literal, or "".
func text(n ast.Node) string {
	literal, ok := n.(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return ""
	}
	value, err := strconv.Unquote(literal.Value)
	if err != nil {
		return ""
	}
	return value
}
