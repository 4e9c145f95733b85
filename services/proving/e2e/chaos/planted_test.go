package chaos

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"svc.internal/pkg/crash"
	"svc.internal/services/proving/internal/chaos"
	"svc.internal/services/proving/internal/trial"
)

// seed decides the runs, faults is how many each does.
const (
	seed   = 20
	faults = 2
)

func TestEachPlantedFaultIsFound(t *testing.T) {
	if testing.Short() {
		t.Skip("runs fleets that die and come back")
	}
	t.Parallel()
	for _, plant := range crash.Plants() {
		t.Run(plant, func(t *testing.T) {
			t.Parallel() // most of the time goes by waiting
			report := once(t, chaos.Config{Plant: plant})
			switch noticed := slices.ContainsFunc(report.Faulty, isForgery); {
			case plant == crash.TicketUnchecked && !noticed: // its hold costs nobody anything, and expires
				t.Errorf("no intruder noticed: %v", report.Wrong())
			case plant != crash.TicketUnchecked && !report.Money():
				t.Errorf("nobody noticed: %v", report.Wrong())
			}
		})
	}
}

// isForgery reports whether an intruder succeeded.
func isForgery(faulty string) bool { return strings.HasPrefix(faulty, "forged: ") }

func TestWithoutAPlantedFaultTheSameFaultsLoseNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a fleet that dies and comes back")
	}
	// Not beside the plants: on a machine that is short of time a hold may expire
	// before a hub that comes back can tell what it served.
	report := once(t, chaos.Config{Match: regexp.MustCompile("^(dark/|billing/settled$)")})
	if report.Money() {
		t.Errorf("wrong: %v", report.Wrong())
	}
}

// once makes a short run and shows what came of it.
func once(t *testing.T, cfg chaos.Config) *chaos.Report {
	t.Helper()
	cfg.BinDir = trial.Programs(t, "crashpoints")
	cfg.Seed, cfg.Faults, cfg.Dir = seed, faults, filepath.Join(t.TempDir(), "run")
	t.Cleanup(func() {
		if err := chaos.Clean(cfg.Dir); err != nil {
			t.Error(err)
		}
	})
	report, err := chaos.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := report.Print(&text); err != nil {
		t.Error(err)
	}
	t.Log("\n" + text.String())
	return report
}
