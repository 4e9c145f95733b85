package check

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the committed lists anew")

const variables = "pkg/config/variables.txt"

// TestTheListOfVariablesIsThatOfTheTree holds the list by which pkg/config tells a
// misspelt variable from another program's to what programs and scripts name.
func TestTheListOfVariablesIsThatOfTheTree(t *testing.T) {
	name := regexp.MustCompile(`\bSVC_[A-Z0-9]+(_[A-Z0-9]+)*\b`)
	found := map[string]bool{}
	collect := func(path string) {
		for _, n := range name.FindAllString(string(read(t, path)), -1) {
			found[n] = true
		}
	}
	for _, s := range sources(t) {
		if !s.test {
			collect(s.path)
		}
	}
	for _, path := range append(files(t, ".sh"), "Makefile", ".ci/run") {
		collect(path)
	}
	want := strings.Join(slices.Sorted(maps.Keys(found)), "\n") + "\n"
	if *update {
		if err := os.WriteFile(filepath.Join(root, variables), []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got := string(read(t, variables)); got != want {
		t.Errorf("%s is behind the tree: run (cd deploy/check && GOWORK=off go test -run Variables -update .): got %q, want "+
			"%q", variables, got, want)
	}
}
