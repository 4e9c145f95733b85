// Sbom writes what programs are made of, one CycloneDX document for each:
//
//	sbom -out DIR PROGRAM...
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"svc.internal/deploy/sbom/cyclonedx"
)

func main() {
	out := flag.String("out", ".", "folder of the documents")
	flag.Parse()
	if err := run(*out, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(out string, programs []string) error {
	if len(programs) == 0 {
		return errors.New("name the programs")
	}
	if err := os.MkdirAll(out, 0o755); err != nil { //nolint:gosec // the documents are public
		return fmt.Errorf("make the folder: %w", err)
	}
	for _, program := range programs {
		text, err := cyclonedx.Of(program)
		if err != nil {
			return err
		}
		file := filepath.Join(out, filepath.Base(program)+cyclonedx.Extension)
		//nolint:gosec // as above
		if err := os.WriteFile(file, text, 0o644); err != nil {
			return fmt.Errorf("write the document of %s: %w", program, err)
		}
	}
	return nil
}
