package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"svc.internal/services/proving/internal/fleet"
	"svc.internal/services/proving/internal/trial"
)

// A suite on a fleet that does not run by the chart would prove nothing of the chart. So
// each process must have the chart's file, and no setting from elsewhere. DATABASE_URL is there
// for the tools of a program, and is the database of the file.
func TestTheFleetRunsByTheChart(t *testing.T) {
	if os.Getenv(trial.EnvChart) == "" {
		t.Skip("no chart is given: make chart-fleet gives one")
	}
	f := trial.Shared(t).Fleet()
	for _, service := range fleet.Services() {
		for _, name := range f.Replicas(service) {
			want := []string{"-config", f.Path("place", name, "etc", "svc", "config", "config.yaml")}
			if got := ofProcess(t, f.Pid(name), "cmdline")[1:]; !slices.Equal(got, want) {
				t.Errorf("the arguments of %s: got %q, want %q", name, got, want)
			}
			url := "DATABASE_URL=file:" + f.Path("place", name, "etc", "svc", "database", "url")
			for _, variable := range ofProcess(t, f.Pid(name), "environ") {
				setting, _, _ := strings.Cut(variable, "=")
				if variable == url {
					continue
				}
				own := strings.HasPrefix(setting, "SVC_") || strings.HasPrefix(setting, "DATABASE_")
				if own && service != fleet.Hub {
					t.Errorf("the environment of %s: got %s, want the chart's file alone", name, setting)
				}
			}
		}
	}
}

// ofProcess is a list that Linux keeps of a process.
func ofProcess(t *testing.T, pid int, list string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(pid), list))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimRight(string(text), "\x00"), "\x00")
}
