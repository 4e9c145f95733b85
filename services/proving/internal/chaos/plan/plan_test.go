package plan

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"svc.internal/pkg/crash"
)

func TestOneSeedIsOnePlan(t *testing.T) {
	for _, n := range []int{0, 1, 500} {
		first, again, other := Make(7, n, Cells()), Make(7, n, Cells()), Make(8, n, Cells())
		if !reflect.DeepEqual(first, again) {
			t.Errorf("%d faults by the same seed: got %+v, want %+v", n, again, first)
		}
		if reflect.DeepEqual(first, other) {
			t.Errorf("%d faults by another seed: got %+v, want any but %+v", n, other, first)
		}
	}
}

func TestEveryCellIsRunTwiceOnceWithAllReplicas(t *testing.T) {
	type runs struct{ n, all int }
	seen := map[string]runs{}
	for i, f := range Make(1, 0, Cells()) {
		if f.Number != i+1 {
			t.Fatalf("fault %d is number: got %d, want %d", i, f.Number, i+1)
		}
		r := seen[f.Cell.Name()]
		r.n++
		if f.All {
			r.all++
		}
		seen[f.Cell.Name()] = r
	}
	for _, c := range Cells() {
		if r := seen[c.Name()]; r != (runs{Rounds, Rounds / 2}) {
			t.Errorf("%s is run: got %+v, want %+v", c.Name(), r, runs{Rounds, Rounds / 2})
		}
	}
}

func TestManyFaultsAreSpreadEvenly(t *testing.T) {
	seen := map[string]int{}
	n := 10*len(Cells()) + 3
	for _, f := range Make(3, n, Cells()) {
		seen[f.Cell.Name()]++
	}
	total := 0
	for name, times := range seen {
		total += times
		if times < 10 || times > 11 {
			t.Errorf("%s is run: got %d, want 10 to 11", name, times)
		}
	}
	if total != n {
		t.Errorf("total: got %d, want %d", total, n)
	}
}

func TestWhatStandsStillDoesSoForLongerThanLeases(t *testing.T) {
	for _, f := range Make(5, 0, Cells()) {
		if long := f.Cell.Kind == Stop || f.Cell.Kind == Stall; long != (f.Away >= StillFor) {
			t.Errorf("%v: long: got %t, want %t", f, long, f.Away >= StillFor)
		}
	}
}

func TestCellsAreDistinctAndStandAtPointsOfTheTree(t *testing.T) {
	points := map[string]bool{}
	mark := regexp.MustCompile(`crash\.At\("([^"]*)"\)`)
	err := filepath.WalkDir("../../../..", func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range mark.FindAllSubmatch(text, -1) {
			points[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, c := range Cells() {
		if seen[c.Name()] {
			t.Errorf("%s is there twice", c.Name())
		}
		seen[c.Name()] = true
		if !points[c.Point] {
			t.Errorf("%s stands at %q, which is nowhere in the tree", c.Name(), c.Point)
		}
	}
}

func TestCellsAreChosenByName(t *testing.T) {
	for _, c := range Select(Cells(), regexp.MustCompile(`^hub/`)) {
		if c.What != "hub" {
			t.Errorf(`chosen: got %q, want "hub"`, c.What)
		}
	}
	if got := len(Select(Cells(), nil)); got != len(Cells()) {
		t.Errorf("nothing chooses %d", got)
	}
	if Make(1, 0, nil) == nil && len(Make(1, 5, nil)) != 0 {
		t.Error("faults without cells")
	}
}

func TestNoFaultMeetsOneWithWhichEverythingWouldBeLost(t *testing.T) {
	class := map[string]Class{}
	for _, c := range Cells() {
		class[c.Name()] = c.Class()
		for _, d := range Cells() {
			if c.Class().Meets(d.Class()) != d.Class().Meets(c.Class()) {
				t.Errorf("%s meets %s, and not the other way round", c.Name(), d.Name())
			}
		}
	}
	for _, pair := range [][2]string{
		{"gateway/answered", "stop-nats/streaming"}, {"hub-lost/final", "gateway/final"},
		{"hub-lost/published", "nats-wiped/published"},
		{"dark/answered", "hub/final"}, {"agent-lost/streaming", "hub-lost/streaming"},
		{"stop-gateway/streaming", "stall-billing-postgres/published"}, {"gateway/held", "stop-billing/admitted"},
	} {
		if class[pair[0]].Meets(class[pair[1]]) {
			t.Errorf("%s meets %s", pair[0], pair[1])
		}
	}
	for _, pair := range [][2]string{{"gateway/answered", "hub/final"}, {"hub-lost/final", "catalog/held"},
		{"stop-hub/final", "postgres/settled"}, {"gateway/held", "gateway/final"},
		{"gateway/held", "billing/writing"}, {"gateway/held", "cut-billing-billing/admitted"},
		{"dark/answered", "forge-ticket/admitted"}} {
		if !class[pair[0]].Meets(class[pair[1]]) {
			t.Errorf("%s does not meet %s", pair[0], pair[1])
		}
	}
}

func TestEveryPlantedFaultHasCellsThatShowIt(t *testing.T) {
	for _, plant := range crash.Plants() {
		if len(Showing(plant)) == 0 {
			t.Error("cells that show a fault: got 0, want at least 1")
		}
	}
}
