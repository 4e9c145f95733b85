package check

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// stages is a Makefile for .ci/run whose targets print their names. A target that
// FAIL names fails, and a target that BURN names takes three seconds of CPU time. With
// AWAIT chaos ends behind lint.
const stages = `SHELL := /bin/bash
ALL := prepare reference console-check drift unit suites attack verification payout-sim payout-stories
$(ALL) generate-check lint chaos engine:
	@echo "made $@ CI=$$CI faults=$$CHAOS_FAULTS nice=$$(nice) lab=$$LAB slow=$$SLOW_MACHINE"
	@[[ " $$BURN " != *" $@ "* ]] || (ulimit -t 3; while :; do :; done) || true
	@[ $@ != lint ] || touch .ci/linted
	@[ $@ != chaos ] || [ -z "$$AWAIT" ] || timeout 60 bash -c 'until [ -e .ci/linted ]; do sleep 0.1; done'
	@[ "$@" != "$$FAIL" ]
`

// runStages runs .ci/run on stages and returns what it prints and whether it passes.
// The budget of e2e is 10 s there, of chaos 2 s, because waiting takes some on a busy
// machine, of the others 0 s, and the reference 1 s.
func runStages(t *testing.T, environ ...string) (out string, passes bool) {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, ".ci"), 0o700); err != nil {
		t.Fatal(err)
	}
	budget := regexp.MustCompile(`(?m)^(\w+) +\d+$`).ReplaceAllString(string(read(t, ".ci/budget")), "$1 0")
	budget = strings.Replace(budget, "e2e 0", "e2e 10", 1)
	budget = strings.Replace(budget, "chaos 0", "chaos 2", 1)
	budget = strings.Replace(budget, "reference 0", "reference 1", 1)
	run := string(read(t, ".ci/run"))
	for name, text := range map[string]string{"Makefile": stages, ".ci/budget": budget, ".ci/run": run} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil { //nolint:gosec // it is run
			t.Fatal(err)
		}
	}
	// Another test may fork while the file is still open for writing, so bash reads it instead of the kernel.
	cmd := exec.Command("bash", filepath.Join(dir, ".ci", "run")) //nolint:gosec // the file just written
	// A slow machine runs this test, too, and has said so in its environment.
	cmd.Env = append(append(os.Environ(), "SLOW_MACHINE="), environ...)
	text, err := cmd.CombinedOutput()
	if _, failed := err.(*exec.ExitError); err != nil && !failed {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("got %v in the tree after the run (%v), want Makefile and .ci alone", entries, err)
	}
	return string(text), err == nil
}

// verdict is what the table at the end says of a stage, empty if it has no line.
func verdict(out, stage string) string {
	line := regexp.MustCompile(`(?m)^` + stage + ` +\d+ +\d+ +\S+  (.*)$`).FindStringSubmatch(out)
	if line == nil {
		return ""
	}
	return line[1]
}

func TestEveryStageRunsAndHasABudget(t *testing.T) {
	out, passes := runStages(t)
	if !passes {
		t.Errorf("got a failure, want none:\n%s", out)
	}
	for _, stage := range []string{
		"prepare", "reference", "console", "drift", "unit", "e2e", "attack", "verify", "payouts", "lint", "chaos", "engine",
	} {
		if got := verdict(out, stage); got != "ok" {
			t.Errorf("got %q for %s, want ok:\n%s", got, stage, out)
		}
	}
	for _, want := range []string{
		"made chaos CI=true faults=each nice=", "made lint CI=true faults= nice=19", "made generate-check",
		"made engine CI=true faults= nice=", "made drift CI=true faults= nice=19",
		`made verification CI=true faults= nice=\d+ lab=short`,
	} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("got no %q in\n%s", want, out)
		}
	}
}

func TestASlowMachineDoesLess(t *testing.T) {
	for factor, want := range map[string][]string{
		"1.24": {"made unit .* slow=\n", "made chaos .*faults=each "},
		"1.25": {"made unit .* slow=-race=false\n", "made chaos .*faults=16 ", "this machine is slow"},
	} {
		out, _ := runStages(t, "CI_CPU_FACTOR="+factor)
		for _, one := range want {
			if !regexp.MustCompile(one).MatchString(out) {
				t.Errorf("factor %s: got no %q in\n%s", factor, one, out)
			}
		}
	}
}

func TestAStageThatFailsEndsTheRun(t *testing.T) {
	for _, c := range []struct{ target, stage, never string }{
		{"console-check", "console", "unit"},
		{"unit", "unit", "suites"},
		{"suites", "e2e", "attack"},
		{"attack", "attack", "verification"},
		{"verification", "verify", "payouts"},
		{"payout-sim", "payouts", "payout-stories"},
		{"payout-stories", "payouts", "chaos"},
		{"chaos", "chaos", "engine"},
		{"lint", "lint", "engine"},
		{"generate-check", "lint", "engine"},
		{"engine", "engine", ""},
		{"drift", "drift", ""},
	} {
		t.Run(c.target, func(t *testing.T) {
			t.Parallel()
			out, passes := runStages(t, "FAIL="+c.target)
			if passes {
				t.Errorf("got a pass, want a failure:\n%s", out)
			}
			if got := verdict(out, c.stage); got != "FAILED" {
				t.Errorf("got %q for %s, want FAILED:\n%s", got, c.stage, out)
			}
			if c.never != "" && strings.Contains(out, "made "+c.never) {
				t.Errorf("got %s after %s failed:\n%s", c.never, c.target, out)
			}
			// Lint goes on beside chaos, and what it says is not lost.
			if c.target == "chaos" && verdict(out, "lint") != "ok" {
				t.Errorf("got %q for lint, want ok:\n%s", verdict(out, "lint"), out)
			}
		})
	}
}

func TestAStageAboveItsBudgetFailsAfterAllHaveRun(t *testing.T) {
	out, passes := runStages(t, "BURN=prepare drift lint")
	if passes {
		t.Errorf("got a pass, want a failure:\n%s", out)
	}
	const above = "ABOVE ITS BUDGET"
	verdicts := map[string]string{"prepare": "ok", "drift": above, "unit": "ok", "lint": above, "engine": "ok"}
	for stage, want := range verdicts {
		if got := verdict(out, stage); got != want {
			t.Errorf("got %q for %s, want %s:\n%s", got, stage, want, out)
		}
	}
}

func TestAStageDoesNotCountTheOneBesideIt(t *testing.T) {
	out, _ := runStages(t, "BURN=lint", "AWAIT=yes")
	if got, want := verdict(out, "chaos"), "ok"; got != want {
		t.Errorf("got %q for chaos, want %q:\n%s", got, want, out)
	}
	if got, want := verdict(out, "lint"), "ABOVE ITS BUDGET"; got != want {
		t.Errorf("got %q for lint, want %q:\n%s", got, want, out)
	}
}

func TestASlowerMachineHasLargerBudgets(t *testing.T) {
	out, _ := runStages(t, "CI_CPU_FACTOR=1.5")
	if want := regexp.MustCompile(`(?m)^e2e +\d+ +\d+ +15  ok$`); !want.MatchString(out) {
		t.Errorf("got no budget of 15 s for e2e, want 1.5 times 10 s:\n%s", out)
	}
}

func TestAMachineIsComparedByItsReference(t *testing.T) {
	out, _ := runStages(t, "BURN=reference")
	if want := regexp.MustCompile(`(?m)^e2e +\d+ +\d+ +[234]\d  ok$`); !want.MatchString(out) {
		t.Errorf("got no budget of 10 s times the 3 s that the reference took, or nearly:\n%s", out)
	}
}
