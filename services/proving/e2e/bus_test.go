package e2e

import (
	"testing"

	"svc.internal/services/proving/internal/intruder"
	"svc.internal/services/proving/internal/trial"
)

func TestTheFleetsBusTakesNothingFromAnybodyElse(t *testing.T) {
	f := trial.Shared(t).Fleet()
	strangers, err := intruder.Strangers(f, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range strangers {
		if nc, err := s.Connect(); err == nil {
			nc.Close()
			t.Errorf("%s: got a connection, want it refused", s.Name)
		}
	}
	for _, file := range intruder.Clients(f) {
		nc, err := intruder.As(f, file)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, subject := range intruder.Foreign(f, file) {
			refused, err := nc.Refused(subject, []byte("forged"))
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if !refused {
				t.Errorf("%s publishes on %s: got it taken, want it refused", file, subject)
			}
		}
		nc.Close()
	}
}
