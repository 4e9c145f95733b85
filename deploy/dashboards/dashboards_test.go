package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestTheFilesAreWhatTheProgramWrites(t *testing.T) {
	var want []string
	for _, d := range all() {
		text, err := d.render()
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, d.file())
		got, err := os.ReadFile(d.file())
		if err != nil {
			t.Error(err)
		} else if !bytes.Equal(got, text) {
			t.Errorf("%s: got another text than the program writes, want the same: go run .", d.file())
		}
	}
	got, err := filepath.Glob("*.json")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("files: got %v, want %v", got, want)
	}
}

func TestEachPanelHasAUnitATitleAndQueriesWithLegends(t *testing.T) {
	seen := map[string]bool{}
	for _, d := range all() {
		for _, r := range d.rows {
			for _, p := range r.panels {
				name := d.name + ": " + r.title + ": " + p.title
				if seen[name] {
					t.Errorf("%s: got it twice, want once", name)
				}
				seen[name] = true
				if p.unit == "" {
					t.Errorf("%s: got no unit, want one", name)
				}
				if len(p.queries) == 0 {
					t.Errorf("%s: got no query, want one", name)
				}
				for _, q := range p.queries {
					if q.expr == "" {
						t.Errorf("%s: got a query without an expression, want one", name)
					}
					if q.legend == "" {
						t.Errorf("%s: got the query %s without a legend, want one", name, q.expr)
					}
				}
			}
		}
	}
}

func TestAUidIsOfOneDashboard(t *testing.T) {
	uids := map[string]string{}
	for _, d := range all() {
		text, err := d.render()
		if err != nil {
			t.Fatal(err)
		}
		var made struct{ UID string }
		if err := json.Unmarshal(text, &made); err != nil {
			t.Fatal(err)
		}
		if other := uids[made.UID]; other != "" {
			t.Errorf("uid %s: got it for %s and %s, want one", made.UID, other, d.name)
		}
		uids[made.UID] = d.name
	}
}
