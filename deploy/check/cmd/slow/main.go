// Command slow reads go test -json from its standard input, shows what go test
// shows without that flag, and then the slowest tests.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"

	"svc.internal/deploy/check/slow"
)

func main() {
	keep := flag.String("keep", "", "copy the events to a `file`")
	n := flag.Int("n", 30, "show `n` tests")
	flag.Parse()
	if err := run(os.Stdin, os.Stdout, *keep, *n); err != nil {
		fmt.Fprintln(os.Stderr, "slow:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer, keep string, n int) error {
	kept := io.Discard
	if keep != "" {
		file, err := os.Create(keep)
		if err != nil {
			return err
		}
		defer file.Close()
		kept = file
	}
	tests, err := slow.Read(in, kept, out)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\nThe slowest of %d tests:\n", len(tests))
	return slow.Print(out, tests, n)
}
