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
)

// The exporter writes an instrument's name with underscores and adds the unit
// and, to a counter, "total".
func TestAlertsNameMetricsThatExist(t *testing.T) {
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
	for _, path := range files(t, ".yaml") {
		if !strings.HasPrefix(path, "deploy/alerts/") {
			continue
		}
		for _, name := range metricName.FindAllString(string(read(t, path)), -1) {
			found++
			if !exported[name] {
				t.Errorf("%s names %s, want a metric that a service exports", path, name)
			}
		}
	}
	if found == 0 {
		t.Error("no alert names any metric: the search is broken")
	}
}

// metricsOf returns what Prometheus calls the instrument that a call makes. A
// name that ends in a variable may end in each text of the file.
func metricsOf(call *ast.CallExpr, file *ast.File) []string {
	made, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) == 0 {
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
	suffix := ""
	for _, arg := range call.Args[1:] {
		if option, ok := arg.(*ast.CallExpr); ok && len(option.Args) == 1 {
			if f, ok := option.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "WithUnit" {
				suffix = map[string]string{"s": "_seconds", "By": "_bytes", "1": "_ratio"}[text(option.Args[0])]
			}
		}
	}
	if strings.HasSuffix(made.Sel.Name, "Counter") && !strings.Contains(made.Sel.Name, "UpDown") {
		suffix += "_total"
	}
	var exported []string
	for _, name := range names {
		if instrumentName.MatchString(name) {
			exported = append(exported, strings.ReplaceAll(name, ".", "_")+suffix)
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
