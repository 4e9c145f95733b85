// Command structure prints the structure of a tree of this repository beside the
// numbers that are committed for it.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"svc.internal/deploy/check/structure"
)

func main() {
	root := flag.String("root", "../..", "the tree to measure")
	trace := flag.Bool("trace", false, "print the calls of each walk that change the file")
	flag.Parse()
	if err := run(os.Stdout, *root, *trace); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(out io.Writer, root string, trace bool) error {
	tree, err := structure.Read(root)
	if err != nil {
		return err
	}
	words, err := read(root, "words.txt")
	if err != nil {
		return err
	}
	list, err := read(root, "structure.txt")
	if err != nil {
		return err
	}
	committed, err := structure.ParseList(list)
	if err != nil {
		return err
	}
	r, err := tree.Measure(structure.ParseWords(words), structure.Walks)
	if err != nil {
		return err
	}
	if trace {
		for _, w := range structure.Walks {
			steps, err := tree.Follow(w)
			if err != nil {
				return err
			}
			for _, step := range steps.Trace {
				fmt.Fprintln(out, step)
			}
		}
	}
	_, err = io.WriteString(out, r.Table(committed))
	return err
}

// read returns a file of deploy/check, or nothing where the tree has none yet.
func read(root, name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(root, "deploy", "check", name))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return string(text), err
}
