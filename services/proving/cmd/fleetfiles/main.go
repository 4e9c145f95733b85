// Command fleetfiles makes what a fleet of containers reads, and asks those whether they
// are ready that cannot say so themselves. It is for deploy/compose.yaml:
//
//	fleetfiles files -dir DIR             makes certificates, secrets and NATS's settings
//	fleetfiles logins -dir DIR -admin URL makes the logins in PostgreSQL, and their URLs
//	fleetfiles ready URL                  ends with 0 when URL answers with 200
//
// Every reader has a folder of its own in DIR, named after the container, so that each
// container is given its own and sees no other's secrets. DIR/kept has what must outlive
// them: the key of the certificates' authority, and the passwords. All commands may be run
// again: certificates are made anew, which lasts 90 days, and everything else stays.
//
// The command is for one machine. A cluster has an issuer of certificates and a store of secrets.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout)
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
	default:
		fmt.Fprintln(os.Stderr, "fleetfiles:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errors.New("want files, logins or ready")
	}
	flags := flag.NewFlagSet("fleetfiles "+args[0], flag.ContinueOnError)
	dir := flags.String("dir", "", "folder of the files")
	admin := flags.String("admin", "", "PostgreSQL's URL of an administrator, without the password")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if args[0] == "ready" {
		if flags.NArg() != 1 {
			return errors.New("ready: want one URL")
		}
		return ready(ctx, flags.Arg(0))
	}
	if *dir == "" || flags.NArg() > 0 {
		return fmt.Errorf("%s: want -dir and no arguments", args[0])
	}
	f, err := open(*dir)
	if err != nil {
		return err
	}
	defer f.close()
	switch args[0] {
	case "files":
		err = f.makeFiles()
	case "logins":
		if *admin == "" {
			return errors.New("logins: want -admin")
		}
		err = f.makeLogins(ctx, *admin)
	default:
		return fmt.Errorf("%q is no command: want files, logins or ready", args[0])
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "  %s made for %s\n", args[0], strings.Join(readers(), ", "))
	return err
}
