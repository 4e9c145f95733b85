package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"svc.internal/pkg/node"
	"svc.internal/services/settlement"
)

func TestAdoptionsAreReadStrictly(t *testing.T) {
	t.Parallel()
	const hash, id = "0x" + "0000000000000000000000000000000000000000000000000000000000000001",
		"0192f0c0-0000-7000-8000-000000000001"
	a, file, asJSON, err := readAdoption([]string{"--chain", "8453", "--json", "--apply", "--reason", "restored",
		"-config", "x.yaml", "--accept-unknown", hash + "," + hash, "--match", hash + "=" + id, "--give-back", id},
		&bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(a.Chain, a.Apply, a.Reason), "8453 truerestored"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := fmt.Sprint(file, asJSON), "x.yamltrue"; got != want {
		t.Errorf("the file and JSON: got %s, want %s", got, want)
	}
	if got := fmt.Sprint(len(a.Words.Accept), len(a.Words.Match), len(a.Words.GiveBack)); got != "1 1 1" {
		t.Errorf("words: got %s, want one of each", got)
	}
	for _, args := range []string{"", "--chain 0", "--chain x", "--chain 1 more", "--chain 1 --since yesterday",
		"--chain 1 --accept-unknown 0x1", "--chain 1 --match " + hash, "--chain 1 --give-back x"} {
		p := &program{node.DefaultConfig(), settlement.DefaultConfig()}
		var errs bytes.Buffer
		if got := runAdopt(t.Context(), &bytes.Buffer{}, &errs, p, strings.Fields(args)); got != exitUnknown {
			t.Errorf("%q: got the exit code %d, want %d", args, got, exitUnknown)
		}
		if !strings.Contains(errs.String(), "usage: settlement adopt") {
			t.Errorf("%q: got %q, want the usage", args, errs.String())
		}
	}
}
