package main

import (
	"strings"
	"testing"
	"time"
)

func TestTheProcessorIsNamedOnce(t *testing.T) {
	text := "processor\t: 0\nmodel name\t: Intel(R)  Xeon(R) Processor\nprocessor\t: 1\nmodel name\t: Other\n"
	if got, want := cpuModel(text), "Intel(R) Xeon(R) Processor"; got != want {
		t.Errorf("model: got %q, want %q", got, want)
	}
	if got := cpuModel("Features : fp asimd\n"); got != "" {
		t.Errorf("where none is named: got %q, want none", got)
	}
}

func TestTheVersionIsInWhatPostgresPrints(t *testing.T) {
	for text, want := range map[string]string{
		"postgres (PostgreSQL) 15.19 (Debian 15.19-0+deb12u1)": "15.19", "postgres (PostgreSQL) 18beta1": "18", "": "",
	} {
		if got := postgresVersion(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestTheDayIsThatOfUTC(t *testing.T) {
	now := time.Date(2026, 11, 30, 23, 30, 0, 0, time.FixedZone("west", -3600))
	var all []string
	for _, r := range machine(now, "postgres (PostgreSQL) 15.19") {
		all = append(all, r.Text)
	}
	for _, want := range []string{"2026-12-01", "PostgreSQL 15.19", "Go 1."} {
		if !strings.Contains(strings.Join(all, "|"), want) {
			t.Errorf("machine: got %q, want %q in it", all, want)
		}
	}
}
