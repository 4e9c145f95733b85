package sim_test

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"svc.internal/services/proving/internal/sim"
)

func TestNoHistoryLosesOrDoublesMoney(t *testing.T) {
	histories := 2000
	if testing.Short() {
		histories = 200
	}
	report, err := sim.Campaign{Seed: 1, Histories: histories, Workers: runtime.GOMAXPROCS(0)}.Play()
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := report.Print(&text); err != nil {
		t.Fatal(err)
	}
	t.Log(text.String())
	if len(report.Failures) > 0 {
		t.Error("histories break what must hold")
	}
	// A simulator in which nothing happens finds nothing.
	if report.Histories != histories || report.Settled < 4*histories || report.ByGateway == 0 ||
		!testing.Short() && report.Orphans == 0 || report.Released == 0 || report.Expired == 0 ||
		report.Struck < 2*histories {
		t.Errorf("too little happened: %+v", report.Totals)
	}
}

func TestOneSeedIsOneHistory(t *testing.T) {
	// Two runners at once, which share only the machine.
	traces := make(chan [][]byte, 2)
	for range 2 {
		go func() {
			var runner sim.Runner
			var all [][]byte
			for seed := range uint64(40) {
				trace := &sim.Trace{}
				if _, err := runner.Run(sim.Config{Seed: seed, Trace: trace}); err != nil {
					t.Error(err)
				}
				all = append(all, trace.Text())
			}
			traces <- all
		}()
	}
	first, second := <-traces, <-traces
	for seed, text := range first {
		if len(text) < 500 || !bytes.Equal(text, second[seed]) {
			t.Errorf("seed %d is played in two ways:\n%s\n%s", seed, text, second[seed])
		}
	}
	if bytes.Equal(first[1], first[2]) {
		t.Error("two seeds are one history")
	}
}

func TestATraceChangesNothing(t *testing.T) {
	var runner sim.Runner
	for seed := range uint64(20) {
		with, err := runner.Run(sim.Config{Seed: seed, Trace: &sim.Trace{}})
		if err != nil {
			t.Fatal(err)
		}
		without, err := runner.Run(sim.Config{Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(with) != fmt.Sprint(without) {
			t.Errorf("seed %d comes to %+v with a trace and to %+v without", seed, with, without)
		}
	}
}

func TestPlantedFaultsAreFound(t *testing.T) {
	for _, c := range []struct {
		name   string
		cfg    sim.Config
		within int
		tells  []string
	}{
		{"a journal that does not sync", sim.Config{NoFsync: true}, 4000, []string{"lost", "unpaid"}},
		{"an acknowledgement before the commit", sim.Config{EarlyAck: true}, 2000, []string{"lost", "drift"}},
		{"no look at the primary key", sim.Config{NoPrimaryKey: true}, 100, []string{"doubled", "overdrawn"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if testing.Short() && c.within > 1000 {
				t.Skip("takes too many histories")
			}
			report, err := sim.Campaign{Seed: 1, Histories: c.within, Workers: 1, Config: c.cfg}.Play()
			if err != nil {
				t.Fatal(err)
			}
			if len(report.Failures) == 0 {
				t.Fatalf("%d histories pass", report.Histories)
			}
			first := report.Failures[0]
			t.Logf("after %d histories, seed %d: %v, %v", report.Histories, first.Seed, first.Broken, first.Faults)
			if !slices.ContainsFunc(c.tells, func(word string) bool { return strings.HasPrefix(first.Broken[0], word) }) {
				t.Errorf("it tells of something else: %v", first.Broken)
			}
			if !strings.Contains(first.Trace, "AUDITOR") {
				t.Error("the trace does not say where it breaks")
			}
		})
	}
}

func TestAFailureIsShrunkToItsFaults(t *testing.T) {
	var runner sim.Runner
	// From 1 on, 604 is the first seed whose history breaks by three faults.
	for seed := uint64(604); ; seed++ {
		cfg := sim.Config{Seed: seed, EarlyAck: true}
		broken, err := runner.Run(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if len(broken.Broken) == 0 || len(broken.Faults) < 3 {
			continue
		}
		least, err := runner.Shrink(cfg, broken)
		if err != nil {
			t.Fatal(err)
		}
		if len(least.Broken) == 0 || len(least.Faults) >= len(broken.Faults) {
			t.Errorf("seed %d: %d faults are shrunk to %v, which break %v", seed, len(broken.Faults), least.Faults, least.Broken)
		}
		for i := range least.Faults {
			cfg.Faults = slices.Delete(slices.Clone(least.Faults), i, i+1)
			fewer, err := runner.Run(cfg)
			if err != nil {
				t.Fatal(err)
			}
			if len(fewer.Broken) > 0 {
				t.Errorf("seed %d breaks as well without %v", seed, least.Faults[i])
			}
		}
		return
	}
}

func TestACampaignKeepsItsBounds(t *testing.T) {
	report, err := sim.Campaign{Seed: 7, Histories: 25, Workers: 3}.Play()
	if err != nil || report.Histories != 25 {
		t.Errorf("%d histories of 25: %v", report.Histories, err)
	}
	report, err = sim.Campaign{Seed: 1, For: time.Nanosecond}.Play()
	if err != nil || report.Histories != 0 {
		t.Errorf("%d histories in no time: %v", report.Histories, err)
	}
}
