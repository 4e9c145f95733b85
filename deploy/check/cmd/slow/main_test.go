package main

import (
	"errors"
	"io"
	"strings"
	"testing"

	"svc.internal/deploy/check/slow"
)

const twoFailed = `{"Action":"fail","Package":"m/p","Test":"TestA","Elapsed":1}
{"Action":"fail","Package":"m/p","Test":"TestB","Elapsed":1}
{"Action":"pass","Package":"m/p","Test":"TestC","Elapsed":1}
{"Action":"fail","Package":"m/p","Elapsed":1}
{"Action":"fail"}
`

// ranAgain returns the names of the tests that run ran again, and its error.
func ranAgain(t *testing.T, events string, again int, fails string) (string, error) {
	t.Helper()
	var names []string
	err := run(strings.NewReader(events), io.Discard, "", 1, again, func(test slow.Test) error {
		names = append(names, test.Name)
		if test.Name == fails {
			return errors.New("it fails")
		}
		return nil
	})
	return strings.Join(names, " "), err
}

func TestWhatPassesAloneFailsNothing(t *testing.T) {
	names, err := ranAgain(t, twoFailed, 2, "")
	if err != nil {
		t.Errorf("got %v, want no error", err)
	}
	if want := "TestA TestB"; names != want {
		t.Errorf("run again: got %q, want %q", names, want)
	}
}

func TestATestThatFailsFailsTheWhole(t *testing.T) {
	race := strings.Replace(twoFailed, "{", `{"Action":"output","Package":"m/p","Output":"WARNING: DATA RACE\n"}`+"\n{", 1)
	for _, c := range []struct {
		name, events, fails, again string
		bound                      int
	}{
		{"alone, too", twoFailed, "TestB", "TestA TestB", 2},
		{"too many", twoFailed, "", "", 1},
		{"none is run again", twoFailed, "", "", 0},
		{"a data race", race, "", "", 2},
		{"go test", `{"Action":"fail"}`, "", "", 2},
	} {
		names, err := ranAgain(t, c.events, c.bound, c.fails)
		if !errors.Is(err, errFailed) {
			t.Errorf("%s: got %v, want %v", c.name, err, errFailed)
		}
		if names != c.again {
			t.Errorf("%s: run again: got %q, want %q", c.name, names, c.again)
		}
	}
}
