// Command devcerts makes certificates for services on this machine:
//
//	devcerts -dir .run/certs [name ...]
//
// A name is a service, or several joined by a plus sign for a process that runs
// them all. Without names each service gets its own.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"svc.internal/pkg/devcerts"
	"svc.internal/services/standalone"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "devcerts:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("devcerts", flag.ContinueOnError)
	dir := flags.String("dir", ".run/certs", "where to write them")
	if err := flags.Parse(args); err != nil {
		return err
	}
	names := flags.Args()
	if len(names) == 0 {
		names = standalone.AllServices()
	}
	var leaves []devcerts.Leaf
	for _, name := range names {
		leaves = append(leaves, devcerts.Leaf{File: name, Services: strings.Split(name, "+")})
	}
	if err := devcerts.Write(*dir, leaves...); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "  Certificates for %s are in %s, good for %d days.\n",
		strings.Join(names, ", "), *dir, int(devcerts.Validity.Hours()/24))
	return err
}
