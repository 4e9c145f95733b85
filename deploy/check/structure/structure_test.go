package structure

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// plant writes files into a new tree and reads it.
func plant(t *testing.T, files map[string]string) *Tree {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		name = filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tree, err := Read(root)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func measure(t *testing.T, tree *Tree, words ...Word) *Report {
	t.Helper()
	r, err := tree.Measure(words, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func same[T comparable](t *testing.T, what string, got, want []T) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestAnArrowIsAPairOfFilesWhateverKindOfNameMakesIt(t *testing.T) {
	for kind, use := range map[string]string{
		"type":               "var a thing",
		"function":           "var a = make1()",
		"constant":           "const a = limit",
		"variable":           "var a = count",
		"method":             "func a(u user) { u.use() }",
		"interface's method": "func a(u speaker) { u.speak() }",
	} {
		tree := plant(t, map[string]string{
			"pkg/x/a.go": "package x\n" + use + "\ntype user struct{ field int }\n",
			"pkg/x/b.go": "package x\ntype thing int\nfunc make1() int { return 1 }\nconst limit = 1\nvar count = 1\n" +
				"func (user) use() {}\ntype speaker interface { speak() }\nvar again, more limit\n",
		})
		// b names a's user as the receiver, and a names what the case says.
		g := tree.arrows(tree.packages["pkg/x"])
		if got := g.count(); got != 2 {
			t.Errorf("arrows by a %s: got %d, want 2", kind, got)
		}
		if got := g.upward(); got != 1 {
			t.Errorf("upward arrows by a %s: got %d, want 1", kind, got)
		}
	}
}

func TestAFieldALocalNameAndATestMakeNoArrow(t *testing.T) {
	tree := plant(t, map[string]string{
		"pkg/x/a.go": "package x\ntype user struct{ field int }\nvar local int\n",
		"pkg/x/b.go": "package x\nimport \"x/y\"\n" +
			"func f(field int) int { local := field; y.Local(local); return 1 }\n",
		"pkg/x/c.go":      "package x\nfunc g() int { return h().field }\n",
		"pkg/x/d.go":      "package x\nfunc h() user { return user{field: 1} }\n",
		"pkg/x/x_test.go": "package x\nvar _ = local\n",
	})
	if got := tree.arrows(tree.packages["pkg/x"]).count(); got != 2 {
		t.Errorf("arrows: got %d, want 2, c to d and d to a", got)
	}
}

func TestTheFewestArrowsPointBack(t *testing.T) {
	ring := make(graph, 30)
	for i := range ring {
		ring[i] = make([]bool, len(ring))
		ring[i][(i+1)%len(ring)] = true
	}
	full := make(graph, 30)
	for i := range full {
		full[i] = make([]bool, len(full))
		for j := range full {
			full[i][j] = i != j
		}
	}
	for _, c := range []struct {
		name string
		g    graph
		want int
	}{
		{"a ring that is searched", ring, 1},
		{"all arrows, searched", full, 30 * 29 / 2},
		{"all arrows, exact", full.part([]int{0, 1, 2, 3, 4, 5}), 6 * 5 / 2},
		{"a chain", ring.part([]int{0, 1, 2, 3}), 0},
		{"two triangles that share a file", graph{
			{false, true, false, true, false},
			{false, false, true, false, false},
			{true, false, false, false, false},
			{false, false, false, false, true},
			{true, false, false, false, false},
		}, 2},
		{"two triangles that share an arrow", graph{
			{false, true, false, false},
			{false, false, true, true},
			{true, false, false, false},
			{true, false, false, false},
		}, 1},
	} {
		if got := c.g.upward(); got != c.want {
			t.Errorf("upward arrows of %s: got %d, want %d", c.name, got, c.want)
		}
	}
}

// TestTheSearchFindsWhatIsExact compares both ways on cycles that both can do.
func TestTheSearchFindsWhatIsExact(t *testing.T) {
	state := uint32(7)
	for range 30 {
		g := make(graph, 12)
		for i := range g {
			g[i] = make([]bool, len(g))
			for j := range g {
				state = state*1664525 + 1013904223
				g[i][j] = i != j && state>>16%4 == 0
			}
		}
		if got, want := g.search(), g.fewest(); got != want {
			t.Errorf("upward arrows: got %d by the search, want %d", got, want)
		}
	}
}

// walked is a service whose value, a request, goes back and forth.
var walked = map[string]string{
	"services/s/internal/web/web.go": `package web
import "svc.internal/services/s/internal/run"
type Handler struct{ r run.Runner }
type request struct{}
func (h Handler) serve(x *request) {
	h.check(x)
	c := prepare(x)
	c.Done = func() { after(c) }
	h.r.Run(c)
	plain()
	each(c, after)
}
func (h Handler) check(x *request) {}
`,
	"services/s/internal/web/steps.go": `package web
import "svc.internal/services/s/internal/run"
func prepare(x *request) *run.Call { return inner(x) }
func after(c *run.Call) {}
func each(c *run.Call, f func(*run.Call)) { f(c) }
func plain() {}
`,
	"services/s/internal/web/inner.go": `package web
import "svc.internal/services/s/internal/run"
func inner(x *request) *run.Call { again(x); return nil }
`,
	"services/s/internal/web/again.go": "package web\nfunc again(x *request) {}\n",
	"services/s/internal/run/run.go": `package run
type Call struct{ Done func() }
type Runner struct{}
type session struct{ call *Call }
func (r Runner) Run(c *Call) { s := &session{c}; s.loop() }
`,
	"services/s/internal/run/loop.go":  "package run\nfunc (s *session) loop() { unrelated(1) }\n",
	"services/s/internal/run/apart.go": "package run\nfunc unrelated(n int) {}\n",
}

func TestAWalkFollowsTheValueInTheOrderOfTheSource(t *testing.T) {
	steps, err := plant(t, walked).Follow(Walk{Name: "w", Under: "services/s", Start: "internal/web.Handler.serve",
		Forms: []string{"internal/web.request", "internal/run.Call"}})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "the walk", steps.Trace, []string{
		"enters     services/s/internal/web/web.go: internal/web.Handler.serve",
		"enters     services/s/internal/web/steps.go: internal/web.prepare",
		"enters     services/s/internal/web/inner.go: internal/web.inner",
		"enters     services/s/internal/web/again.go: internal/web.again",
		"returns to services/s/internal/web/steps.go: internal/web.after",
		"enters     services/s/internal/run/run.go: internal/run.Runner.Run",
		"enters     services/s/internal/run/loop.go: internal/run.session.loop",
		"returns to services/s/internal/web/steps.go: internal/web.each",
	})
	same(t, "entered and returned", []int{steps.Entered, steps.Returned}, []int{6, 2})
}

func TestAWalkThatLostItsWayIsAFault(t *testing.T) {
	tree := plant(t, walked)
	for _, w := range []Walk{
		{Name: "w", Under: "services/s", Start: "internal/web.Handler.gone", Forms: []string{"internal/web.request"}},
		{Name: "w", Under: "services/s", Start: "internal/web.Handler.serve", Forms: []string{"internal/web.gone"}},
		{Name: "w", Under: "services/s", Start: "internal/web.Handler.check", Forms: []string{"internal/run.Call"}},
	} {
		if _, err := tree.Follow(w); err == nil {
			t.Errorf("the walk from %s that follows %v: got no error, want one", w.Start, w.Forms)
		}
	}
}

// boxes has methods that are called with a mutex held, without, and both.
const boxes = `package x
import "sync"
type box struct { mu sync.Mutex; n int; name string; all map[string]int }
func (b *box) Add() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.grow()
	if b.n > 3 {
		b.mu.Unlock()
		b.released()
		b.mu.Lock()
	}
	if b.n > 4 {
		b.mu.Unlock()
		return
	}
	b.afterBranch()
	b.readyLocked()
	b.title()
	b.sometimes()
	b.relocks()
	go func() { b.elsewhere() }()
	go b.spawned()
	run(func() { b.literal() })
}
func (b *box) Maybe(lock bool) {
	if lock {
		b.mu.Lock()
	}
	b.maybe()
	b.mu.Unlock()
	for lock {
		b.mu.Lock()
	}
	b.afterLoop()
}
type other struct { mu sync.Mutex; n int; b *box }
func (o *other) Add()       { o.mu.Lock(); o.needs(); o.mu.Unlock() }
func (o *other) needs()     { o.n++; o.b.foreign() }
func run(f func())          { f() }
func (b *box) Close() {
	b.mu.Lock()
	b.mu.Unlock()
	b.sometimes()
	b.locks()
}
func (b *box) grow()         { b.deeper() }
func (b *box) deeper()       { b.all["x"] = 1 }
func (b *box) afterBranch()  { b.n++ }
func (b *box) readyLocked()  { b.n++ }
func (b *box) title() string { return b.name }
func (b *box) sometimes()    { b.n++; b.below() }
func (b *box) below()        { b.n++ }
func (b *box) released()     { b.n++ }
func (b *box) elsewhere()    { b.n++ }
func (b *box) relocks()      { b.mu.Unlock(); b.n++; b.mu.Lock() }
func (b *box) spawned()      { b.n++ }
func (b *box) literal()      { b.n++ }
func (b *box) maybe()        { b.n++ }
func (b *box) afterLoop()    { b.n++ }
func (b *box) foreign()      { b.n++ }
func (b *box) unused()       { b.n++ }
func (b *box) locks()        { b.mu.Lock(); b.n++; b.mu.Unlock() }
func (b *box) reads() int    { b.all = nil; return b.n }
`

func TestTheMethodsThatNeedTheMutexAreFound(t *testing.T) {
	tree := plant(t, map[string]string{"pkg/x/x.go": boxes})
	var got []string
	for _, fn := range tree.unlocked(tree.packages["pkg/x"]) {
		got = append(got, fn.Name.Name)
	}
	same(t, "methods that need the mutex", got, []string{"needs", "grow", "deeper", "afterBranch"})
}

func TestWhatIsTooLongIsCountedByModule(t *testing.T) {
	long := "func f() {" + strings.Repeat("\n", 70) + "}\n"
	fits := "func g() {" + strings.Repeat("\n", 69) + "}\n"
	wide := "\t//" + strings.Repeat("ä", maxColumns-2) + "\n"
	full := "\t//" + strings.Repeat("ä", maxColumns-3) + "\n"
	r := measure(t, plant(t, map[string]string{
		"services/s/internal/a/a.go": "package a\n" + long + fits + wide + full,
		"services/s/a_test.go":       "package s\n" + wide,
		"services/s/b.go":            "package s\n//go:generate " + strings.Repeat("x", maxColumns) + "\n",
		"pkg/p/gen.go":               "// DO NOT EDIT\npackage p\n" + wide,
	}))
	want := map[string]int{"functions over 70 lines services/s": 1, "lines over 120 columns services/s": 2}
	if !maps.Equal(r.Numbers, want) {
		t.Errorf("numbers: got %v, want %v", r.Numbers, want)
	}
	same(t, "places", r.Places["lines over 120 columns services/s"],
		[]string{"services/s/internal/a/a.go:143", "services/s/a_test.go:2"})
}

func TestANameWithAReplacedWordIsOutsideTheGlossary(t *testing.T) {
	tree := plant(t, map[string]string{
		"pkg/p/p.go": "package p\ntype deskKey struct{}\nvar desktop, theDesk, HTTPDesk int\nvar again = theDesk\n",
		"pkg/q/q.go": "package q\nfunc book(rig int) {}\n",
		"pkg/r/r.go": "package r\nfunc book(rig int) {}\n",
	})
	words := ParseWords("# replaced\n\ndesk\nbook pkg/q\nrig pkg/r/\n")
	r := measure(t, tree, words...)
	want := map[string]int{
		"names outside the glossary pkg/p": 3, "names outside the glossary pkg/q": 1, "names outside the glossary pkg/r": 1,
	}
	if !maps.Equal(r.Numbers, want) {
		t.Errorf("numbers: got %v, want %v", r.Numbers, want)
	}
}

// checks has a test whose checks hold one claim or several.
const checks = `package s
import (
	"net/http"
	"testing"
)
func TestX(t *testing.T) {
	if x != 1 { t.Errorf("one") }
	if err != nil || x != 1 { t.Errorf("two") }
	if err != nil || ok && x != 1 { a.b.Fatal("two behind a term") }
	if ok && (err != nil || x != 1) { t.Error("two below a term") }
	if (ok || again) && x != 1 { t.Error("one behind two terms") }
	if x < 1 || x > 2 { t.Fatalf("a range") }
	if y.n() >= 2 || y.n() < 1 || (x == 0) || (x > 2) { t.Fatalf("two ranges") }
	if x < 1 || y > 2 { t.Errorf("two ends of nothing") }
	if x == 1 || x > 2 { t.Errorf("no range") }
	if err != nil || x != 1 { http.Error(w, "no check", 500) }
	if err != nil || x != 1 { return }
	if err != nil { } else if a || b { x = 2; t.Error("two after another") }
}
`

func TestAChecksClaimsAreWhatItsConditionJoins(t *testing.T) {
	r := measure(t, plant(t, map[string]string{"services/s/internal/a/a_test.go": checks, "pkg/p/p.go": "package p\n" +
		"func f() { if a || b { t.Error(1) } }\n"}))
	want := map[string]int{"checks of several claims services/s": 7}
	if !maps.Equal(r.Numbers, want) {
		t.Errorf("numbers: got %v, want %v", r.Numbers, want)
	}
	var places []string
	for _, line := range []string{"8", "9", "10", "13", "14", "15", "18"} {
		places = append(places, "services/s/internal/a/a_test.go:"+line)
	}
	same(t, "places", r.Places["checks of several claims services/s"], places)
}

func TestTheLinesOfModulesArePrintedAndSummed(t *testing.T) {
	r := &Report{Lines: map[string]int{}}
	for _, path := range []string{"pkg/a/a.go", "pkg/b/c/d.go", "services/a/a.go", "services/a/internal/b/b.go"} {
		r.Lines[moduleOf(path)] += 10
	}
	var got []string
	for line := range strings.Lines(r.Table(nil)) {
		if strings.Contains(line, "lines of production code") {
			got = append(got, strings.Join(strings.Fields(line), " "))
		}
	}
	same(t, "lines", got, []string{
		"20 lines of production code pkg", "20 lines of production code services/a", "40 lines of production code",
	})
}

func TestANumberMayOnlyFallAndWhenItFallsIsCommitted(t *testing.T) {
	r := &Report{Numbers: map[string]int{"as before": 2, "worse": 3, "better": 1, "new": 1},
		Places: map[string][]string{"worse": {"a.go:1"}}}
	committed, err := ParseList("2 as before\n2 worse\n2 better\n2 gone\n")
	if err != nil {
		t.Fatal(err)
	}
	worse, better := r.Compare(committed)
	same(t, "worse", worse, []string{"new: got 1, want 0", "worse: got 3, want 2\n\ta.go:1"})
	same(t, "better", better, []string{"better: got 1, want 2", "gone: got 0, want 2"})
	again, err := ParseList(r.List())
	if err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(again, r.Numbers) {
		t.Errorf("the list that is written and read: got %v, want %v", again, r.Numbers)
	}
	for _, bad := range []string{"x two\n", "2\n", "\n"} {
		if _, err := ParseList(bad); err == nil {
			t.Errorf("the list %q: got no error, want one", bad)
		}
	}
}
