package contracts_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table of gas in README.md anew")

// spending is the gas of the functions in the order of a life.
type spending struct {
	names []string
	gas   map[string]uint64
}

func (s *spending) note(name string, gas uint64) {
	s.names = append(s.names, name)
	s.gas[name] = gas
}

// spend calls each function once.
func spend(w *world) spending {
	w.t.Helper()
	s := spending{gas: map[string]uint64{}}
	s.note("deployment", w.deployment)
	w.fund(w.bob, num(1_000_000))
	w.deposit(w.bob, p2, num(1_000_000)).ok() // the contract holds something before
	w.fund(w.alice, num(3_000_000))
	s.note("deposit, the first", w.deposit(w.alice, p1, num(1_000_000)).ok().gas)
	s.note("deposit, another", w.deposit(w.alice, p1, num(1_000_000)).ok().gas)
	s.note("proposeSlash", w.propose("a", 1_000).ok().gas)
	s.note("appeal", w.do(w.operator, "appeal", id("a")).ok().gas)
	s.note("resolve, upheld, the treasury's first", w.do(w.arbiter, "resolve", id("a"), true).ok().gas)
	for _, name := range []string{"b", "c", "d"} {
		w.propose(name, 1_000).ok()
	}
	w.do(w.operator, "appeal", id("b")).ok()
	s.note("resolve, reversed", w.do(w.arbiter, "resolve", id("b"), false).ok().gas)
	s.note("executeSlash", w.after(appealWindow).do(w.slasher, "executeSlash", id("c")).ok().gas)
	s.note("lapse", w.after(lapseAfter).do(w.stranger, "lapse", id("d")).ok().gas)
	s.note("requestRefund", w.do(w.operator, "requestRefund", p1, w.alice).ok().gas)
	s.note("cancelRefund", w.do(w.operator, "cancelRefund", p1, w.alice).ok().gas)
	s.note("requestExit", w.do(w.alice, "requestExit", p1).ok().gas)
	s.note("cancelExit", w.do(w.alice, "cancelExit", p1).ok().gas)
	w.do(w.operator, "requestRefund", p1, w.alice).ok()
	s.note("executeRefund", w.after(refundWait).do(w.operator, "executeRefund", p1, w.alice).ok().gas)
	return s
}

// The same calls take the same gas on each machine, so the page says exactly what they take.
func TestThePageSaysTheGasOfEachFunction(t *testing.T) {
	t.Parallel()
	token, coin := spend(dollars(t)), spend(newWorld(newChain(t, 254), nil))
	table := "| | TestUSD | coin |\n|---|---:|---:|\n"
	for _, name := range token.names {
		table += fmt.Sprintf("| %s | %d | %d |\n", name, token.gas[name], coin.gas[name])
	}
	const begin, end = "<!-- gas -->\n", "<!-- end of gas -->"
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(page), begin)
	got, after, ok := strings.Cut(rest, end)
	if !ok {
		t.Fatalf("the marks of the table in README.md: got none, want %q and %q", begin, end)
	}
	if *update {
		if err := os.WriteFile("README.md", []byte(before+begin+table+end+after), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got != table {
		t.Errorf("gas in README.md (go test -run Gas -update writes it anew): got\n%swant\n%s", got, table)
	}
}
