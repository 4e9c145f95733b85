// Command slow reads go test -json from its standard input, shows what go test
// shows without that flag, and then the slowest tests. It fails if a test failed.
//
// With -again n up to n tests that failed are run once more, each alone: beside others
// on two cores a process may be too late for a time limit that the test does not claim
// anything about. A test that passes alone is named, and does not fail the whole. A data
// race, a panic and a package that does not build or end are never run again. What
// follows the flags goes to go test.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"

	"svc.internal/deploy/check/slow"
)

func main() {
	keep := flag.String("keep", "", "copy the events to a `file`")
	n := flag.Int("n", 30, "show `n` tests")
	again := flag.Int("again", 0, "run up to `n` tests that failed again, each alone")
	root := flag.String("root", "../..", "the `folder` of the workspace whose tests are run again")
	flag.Parse()
	err := run(os.Stdin, os.Stdout, *keep, *n, *again, func(t slow.Test) error {
		return alone(*root, t, flag.Args())
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "slow:", err)
		os.Exit(1)
	}
}

// errFailed says that tests failed, which their output has said.
var errFailed = errors.New("tests failed")

func run(in io.Reader, out io.Writer, keep string, n, again int, alone func(slow.Test) error) error {
	kept := io.Discard
	if keep != "" {
		file, err := os.Create(keep)
		if err != nil {
			return err
		}
		defer file.Close()
		kept = file
	}
	result, err := slow.Read(in, kept, out)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\nThe slowest of %d tests:\n", len(result.Tests))
	if err := slow.Print(out, result.Tests, n); err != nil {
		return err
	}
	switch {
	case len(result.Wrong) > 0:
		return fmt.Errorf("%w: %v", errFailed, result.Wrong)
	case len(result.Failed) > again:
		return fmt.Errorf("%w: %d of them, and up to %d are run again", errFailed, len(result.Failed), again)
	}
	for _, t := range result.Failed {
		fmt.Fprintf(out, "\nFAILED BESIDE OTHERS: %s %s is run again, alone.\n", t.Package, t.Name)
		if err := alone(t); err != nil {
			return fmt.Errorf("%w: %s %s alone, too: %w", errFailed, t.Package, t.Name, err)
		}
	}
	return nil
}

// alone runs one test.
func alone(root string, t slow.Test, flags []string) error {
	args := append([]string{"test", "-count=1", "-vet=off", "-ldflags=-w", "-timeout=40m"}, flags...)
	cmd := exec.Command("go", append(args, "-run=^"+t.Name+"$", t.Package)...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOWORK=") // make sets it off for this program
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stdout
	return cmd.Run()
}
