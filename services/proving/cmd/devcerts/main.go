// Command devcerts makes certificates for services on this machine:
//
//	devcerts -dir .run/certs [name ...]
//
// A name is a service, or several joined by a plus sign for a process that runs
// them all; a process with a NATS server inside has "nats" among them, and a hub
// <hub id>.provider-hub. Without names each service gets its own, and NATS.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/devcerts"
	"svc.internal/pkg/node"
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
		names = append(node.Names(), bus.ServerName)
	}
	var leaves []devcerts.Leaf
	for _, name := range names {
		services := strings.Split(name, "+")
		if slices.Contains(services, node.ProviderHub) && !strings.Contains(name, ".") {
			// A hub's certificate names itself as well: this is the default's.
			services = append(services, bus.HubName(node.DefaultHub))
		}
		leaves = append(leaves, devcerts.Leaf{File: name, Services: services})
	}
	if err := devcerts.Write(*dir, leaves...); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "  Certificates for %s are in %s, good for %d days.\n",
		strings.Join(names, ", "), *dir, int(devcerts.Validity.Hours()/24))
	return err
}
