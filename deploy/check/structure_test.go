package check

import (
	"os"
	"path/filepath"
	"testing"

	"svc.internal/deploy/check/structure"
)

const (
	structureList = "deploy/check/structure.txt"
	wordsList     = "deploy/check/words.txt"
)

// TestTheStructureIsNoWorse holds the numbers of package structure to the committed
// numbers. A better number is committed with the change that brings it,
// because otherwise the next change may lose it.
func TestTheStructureIsNoWorse(t *testing.T) {
	tree, err := structure.Read(root)
	if err != nil {
		t.Fatal(err)
	}
	r, err := tree.Measure(structure.ParseWords(string(read(t, wordsList))), structure.Walks)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(filepath.Join(root, structureList), []byte(r.List()), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	committed, err := structure.ParseList(string(read(t, structureList)))
	if err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + r.Table(committed))
	worse, better := r.Compare(committed)
	for _, finding := range worse {
		t.Errorf("the structure is worse: %s", finding)
	}
	for _, finding := range better {
		t.Errorf("the structure is better: %s: run (cd deploy/check && GOWORK=off go test -run Structure -update .)", finding)
	}
}
