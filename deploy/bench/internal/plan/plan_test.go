package plan

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "plan.json")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func names(p Plan) (out []string) {
	for _, t := range p.Targets {
		out = append(out, t.Name)
	}
	for _, s := range p.Scenarios {
		out = append(out, s.Name)
	}
	return out
}

func setup(t *testing.T) Plan {
	t.Helper()
	p, err := Read(write(t, `{"reference":"nginx","rounds":3,"targets":[{"name":"nginx"},{"name":"goproxy"}],
		"scenarios":[{"name":"chat-1","warm_ms":500,"dur_ms":1500},{"name":"chat-16","dur_ms":1000},
			{"name":"huge","dur_ms":1000,"extra":true},{"name":"mem","dur_ms":1000,"memory":true}]}`))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestTheCommittedPlanIsRead(t *testing.T) {
	p, err := Read("../../conf/compare.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Only("", ""); err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if p.Reference != "nginx" {
		t.Errorf(`reference: got %q, want "nginx"`, p.Reference)
	}
}

func TestUnknownMembersAreRefused(t *testing.T) {
	if _, err := Read(write(t, `{"rounds":1,"rouns":2}`)); err == nil {
		t.Error("a misspelt member was taken")
	}
	if _, err := Read(write(t, `{}`)); err == nil {
		t.Error("a plan without rounds was taken")
	}
}

func TestOnlyKeepsWhatIsNamed(t *testing.T) {
	for _, c := range []struct{ targets, scenarios, want string }{
		{"", "", "nginx goproxy chat-1 chat-16 mem"},
		{"", "chat-*", "nginx goproxy chat-1 chat-16"},
		{"goproxy", "chat-1,huge", "goproxy chat-1 huge"},
	} {
		p := setup(t)
		if err := p.Only(c.targets, c.scenarios); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(names(p), " "); got != c.want {
			t.Errorf("%q and %q leave: got %q, want %q", c.targets, c.scenarios, got, c.want)
		}
	}
}

func TestANameThatIsNowhereIsAnError(t *testing.T) {
	p := setup(t)
	err := p.Only("ngnix", "chat-*,nope")
	switch {
	case err == nil:
		t.Error("naming what is nowhere: got no error, want one")
	case !strings.Contains(err.Error(), "ngnix"):
		t.Errorf(`naming what is nowhere: got the error %q, want "ngnix" in it`, err)
	case !strings.Contains(err.Error(), "nope"):
		t.Errorf(`naming what is nowhere: got the error %q, want "nope" in it`, err)
	}
}

func TestWithoutTheReferenceTheProxyIsIt(t *testing.T) {
	p := setup(t)
	if err := p.Only("goproxy", ""); err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if p.Reference != "goproxy" {
		t.Errorf(`reference: got %q, want "goproxy"`, p.Reference)
	}
}

func TestShortenLeavesASecond(t *testing.T) {
	p := setup(t)
	p.Shorten(0.1)
	if s := p.Scenarios[0]; s.WarmMs != 300 {
		t.Errorf("shortened: got %d, want 300", s.WarmMs)
	} else if s.DurMs != 1000 {
		t.Errorf("s.DurMs: got %d, want 1000", s.DurMs)
	}
}

func TestTimeCountsWhatRuns(t *testing.T) {
	p := setup(t)
	p.Targets[1].Skip = []string{"chat-*"}
	p.Scenarios[0].MaxMs = 4500
	p.FirstWarmMs = 3000
	if err := p.Only("", "chat-1,mem"); err != nil {
		t.Fatal(err)
	}
	// nginx: 3 rounds of chat-1; both: mem once, and a first warm-up.
	rest := 2*1500*time.Millisecond + 6*time.Second
	least, longest := p.Time()
	if want := 3*2500*time.Millisecond + rest; least != want {
		t.Errorf("least: got %v, want %v", least, want)
	}
	if want := 3*5500*time.Millisecond + rest; longest != want {
		t.Errorf("longest: got %v, want %v", longest, want)
	}
}

func TestATargetOfTheSameNameIsRefused(t *testing.T) {
	p := setup(t)
	if err := p.Add(write(t, `{"name":"nginx"}`)); err == nil {
		t.Error("a second nginx was taken")
	}
	if err := p.Add(write(t, `{"name":"mine","base":"http://127.0.0.1:1/v1"}`)); err != nil {
		t.Error(err)
	}
}

func TestAnEndedProcessIsNoTarget(t *testing.T) {
	if _, err := (Target{Pids: []int{1 << 30}}).Group(); err == nil {
		t.Error("a process that is not there was taken")
	}
	g, err := (Target{Pids: []int{os.Getpid()}}).Group()
	if err != nil {
		t.Errorf("our own processes: got the error %v, want none", err)
	} else if len(g.Pids()) == 0 {
		t.Errorf("our own processes: len(g.Pids()): got 0, want at least 1, in %v", g.Pids())
	}
}

func TestAScenarioLeavesTargetsOut(t *testing.T) {
	s := Scenario{Name: "open-900", Skip: []string{"direct", "fl*"}}
	for name, want := range map[string]bool{"direct": true, "fleet": true, "nginx": false} {
		if got := (Target{Name: name}).Skips(s); got != want {
			t.Errorf("%s is left out: got %v, want %v", name, got, want)
		}
	}
}

// What a person waits for is bounded: 28 minutes. Building, starting and what is
// measured alone take five of them, and targets that are slow to come to enough
// requests two.
func TestTheLoadsByDefaultTakeLessThanTwentyOneMinutes(t *testing.T) {
	p, err := Read("../../conf/compare.json")
	if err != nil {
		t.Fatal(err)
	}
	p.Targets = append(p.Targets, Target{Name: "standalone"}, Target{Name: "grouped"}, Target{Name: "fleet"})
	if err := p.Only("", ""); err != nil {
		t.Fatal(err)
	}
	if least, _ := p.Time(); least > 21*time.Minute {
		t.Errorf("least time of the loads: got %v, want at most 21 minutes", least)
	}
}

func TestTheLoadsByDefaultAreOfEnoughRequests(t *testing.T) {
	p, err := Read("../../conf/compare.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Only("", ""); err != nil {
		t.Fatal(err)
	}
	if p.Rounds != 5 {
		t.Errorf("rounds: got %d, want 5", p.Rounds)
	}
	if p.FirstWarm() != 3*time.Second {
		t.Errorf("warm-up before the first load: got %v, want 3 s", p.FirstWarm())
	}
	for _, s := range p.Scenarios {
		if s.Memory {
			continue
		}
		if s.Enough != 2000 {
			t.Errorf("%s: enough: got %d requests or events, want 2000", s.Name, s.Enough)
		}
		if s.Max() != 5*time.Second {
			t.Errorf("%s: longest: got %v, want 5 s", s.Name, s.Max())
		}
	}
}

func TestAllocationsAreCountedWhereThereAreProfilesOrInMorePrograms(t *testing.T) {
	one := Target{Pprof: []string{"a"}}
	if got := one.Counted(); !slices.Equal(got, []string{"a"}) {
		t.Errorf("with profiles alone: got %q, want a", got)
	}
	one.Metrics = []string{"a", "b"}
	if got := one.Counted(); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("with more programs: got %q, want a and b", got)
	}
}
