package main

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"svc.internal/services/proving/internal/chaos"
	"svc.internal/services/proving/internal/chaos/plan"
)

func TestTheCommandLineIsWhatIsRun(t *testing.T) {
	args := []string{"-seed", "18446744073709551615", "-faults", "7", "-cells", "^hub/", "-lanes", "4", "-dir", "d",
		"-json"}
	o, err := parse(args, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case o.cfg.Seed != 1<<64-1:
		t.Errorf("o.cfg.Seed: got %d, want 1<<64-1", o.cfg.Seed)
	case o.cfg.Faults != 7:
		t.Errorf("o.cfg.Faults: got %d, want 7", o.cfg.Faults)
	case !o.cfg.Match.MatchString("hub/final"):
		t.Error(`o.cfg.Match.MatchString("hub/final"): got false, want true`)
	case !o.json:
		t.Error("o.json: got false, want true")
	case o.cfg.Dir != filepath.Join("d", "18446744073709551615"):
		t.Errorf("o.cfg.Dir: got %q, want %q", o.cfg.Dir, filepath.Join("d", "18446744073709551615"))
	}
	want := "make chaos CHAOS_SEED=18446744073709551615 CHAOS_FAULTS=7 CHAOS_CELLS='^hub/' CHAOS_FLAGS='-lanes 4'"
	if got := o.cfg.Replay(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if one, other := must(t), must(t); one == other {
		t.Errorf("two runs have the seed: got %d, want any but %d", one, other)
	}
}

func must(t *testing.T) uint64 {
	t.Helper()
	o, err := parse([]string{"-seed", ""}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return o.cfg.Seed
}

func TestWhatCannotBeRunIsRefused(t *testing.T) {
	for _, args := range [][]string{
		{"-seed", "x"}, {"-seed", "-1"}, {"-faults", "-1"}, {"-cells", "("}, {"-plant", "none"}, {"more"}, {"-unknown"},
	} {
		if _, err := parse(args, io.Discard); err == nil {
			t.Errorf("%q is accepted", args)
		}
	}
	if _, err := parse([]string{"-h"}, io.Discard); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("got the error %v, want %v", err, flag.ErrHelp)
	}
}

func TestEveryCellIsListed(t *testing.T) {
	var out bytes.Buffer
	if right, err := run(t.Context(), []string{"-list"}, &out, io.Discard); err != nil {
		t.Fatalf("got the error %v, want none", err)
	} else if !right {
		t.Fatal("right: got false, want true")
	}
	if n := strings.Count(out.String(), "\n"); n != len(plan.Cells()) {
		t.Errorf("%d cells are listed", n)
	}
}

func TestProgressIsOneLineADozenSecondsAndAllOfItIsLogged(t *testing.T) {
	var out, log bytes.Buffer
	s := newShow(&out, &log)
	for range 5 {
		s.progress(chaos.Progress{Stage: "hurting", Last: "#1 hub/final"})
	}
	s.progress(chaos.Progress{Stage: "hurting", Last: "#2 hub/final", Note: "not served again"})
	s.end()
	if got := strings.Count(out.String(), "\n"); got != 2 {
		t.Errorf("shown: strings.Count(…): got %d, want 2", got)
	} else if !strings.Contains(out.String(), "#2 hub/final: not served again") {
		t.Errorf(`shown: out: got %q, want "#2 hub/final: not served again" in it`, out.String())
	}
	if got := strings.Count(log.String(), "\n"); got != 6 {
		t.Errorf("logged: %s: got %d, want 6", log.String(), got)
	}
}
