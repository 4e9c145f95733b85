package endings_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"svc.internal/services/proving/internal/endings"
)

const (
	readme = "../../../../README.md"
	begin  = "<!-- endings -->\n"
	end    = "<!-- /endings -->\n"
)

var update = flag.Bool("update", false, "write the table into the README")

func TestTheREADMEHasTheTableOfEndings(t *testing.T) {
	text, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	table, after, closed := strings.Cut(rest, end)
	if !ok {
		t.Fatalf("the README has a place for the table, between %q and %q: ok of strings.Cut(string(text), begin): got "+
			"false, want true", begin, end)
	}
	if !closed {
		t.Fatalf("the README has a place for the table, between %q and %q: closed of strings.Cut(rest, end): got false, "+
			"want true", begin, end)
	}
	if table == endings.Markdown() {
		return
	}
	if !*update {
		t.Fatal("the README has another table: run go test ./services/proving/internal/endings -update")
	}
	if err := os.WriteFile(readme, []byte(before+begin+endings.Markdown()+end+after), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestEveryLineHasANameOfItsOwn(t *testing.T) {
	seen := map[string]bool{}
	for _, l := range endings.Table() {
		switch {
		case l.Name == "":
			t.Error(`line: l.Name: got "", want some text`)
		case l.Ending == "":
			t.Error(`line: l.Ending: got "", want some text`)
		case seen[l.Name]:
			t.Error("line: seen[l.Name]: got true, want false")
		}
		seen[l.Name] = true
		if l.Told == endings.Refused && !l.Free() {
			t.Errorf("%s: an error is charged", l.Name)
		}
		if l.Told == endings.Broken && l.Prompt != endings.Nothing && l.Name != "wall_limit" && l.Name != "blamed_inside" {
			t.Errorf("%s: an answer that was broken off charges the prompt", l.Name)
		}
	}
}
