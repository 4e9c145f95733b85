// Command verifier runs the verifier as a process of its own, and has tools for operators.
//
//	verifier [-config file.yaml] [-check]
//	verifier replay [-config file.yaml] VERDICT
//	verifier replay -file evidence.json VERDICT
//	verifier canary [-config file.yaml] TEXT
//	verifier seal FILE
//
// Without a subcommand it serves; see the service's README for its settings. replay computes
// a verdict again from its evidence, prints a table, and ends with 1 where a bit differs;
// with -file it needs neither database nor keys. canary names the probes that a text was
// seen in, and ends with 1 where there is none. seal makes new sealed settings in a file that
// is not there yet, for the Secret of a cluster, from which the service cannot make its own.
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
	"time"

	"svc.internal/pkg/config"
	"svc.internal/pkg/node"
	"svc.internal/services/verifier"
)

type program struct {
	node.Config `yaml:",inline"`
	Verifier    verifier.Config `yaml:"verifier"`
}

// Validate returns every fault.
func (p *program) Validate() error {
	return errors.Join(p.Check(p.Specs()...), p.Verifier.Validate(),
		p.Verifier.CheckListeners(p.GRPCAddr, p.GRPCAdvertise, p.AdminAddr))
}

// Specs are the services of the process.
func (p *program) Specs() []node.Spec { return []node.Spec{verifier.Spec()} }

// Build adds the service to the process.
func (p *program) Build(ctx context.Context, n *node.Node) error {
	return verifier.Build(ctx, p.Verifier, n)
}

func main() {
	p := &program{node.DefaultConfig(), verifier.DefaultConfig()}
	if len(os.Args) >= 2 && os.Args[1] == "seal" {
		os.Exit(seal(os.Args[2:], os.Stderr))
	}
	if len(os.Args) >= 2 && (os.Args[1] == "replay" || os.Args[1] == "canary") {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		os.Exit(tool(ctx, p, os.Args[1], os.Args[2:], os.Stdout, os.Stderr))
	}
	os.Exit(node.Main(node.Verifier, p))
}

// seal makes new sealed settings and returns the exit code: 0, or 2 when there are none.
func seal(args []string, errs io.Writer) int {
	if len(args) != 1 || args[0] == "" || strings.HasPrefix(args[0], "-") {
		fmt.Fprintln(errs, "usage: verifier seal FILE")
		return 2
	}
	if err := verifier.Seal(args[0]); err != nil {
		fmt.Fprintf(errs, "verifier seal: %v\n", err)
		return 2
	}
	return 0
}

// tool runs a subcommand and returns the exit code: 0 when all is well, 1 when a replay
// differs or no canary is found, 2 otherwise.
func tool(ctx context.Context, p *program, name string, args []string, out, errs io.Writer) int {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(errs)
	settings := flags.String("config", "", "file of settings (YAML); the environment wins over it")
	file := ""
	if name == "replay" {
		flags.StringVar(&file, "file", "", "exported evidence, instead of the database")
	}
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if flags.NArg() == 0 || name == "replay" && flags.NArg() != 1 {
		fmt.Fprintf(errs, "usage: verifier replay [-config file.yaml | -file evidence.json] VERDICT\n"+
			"       verifier canary [-config file.yaml] TEXT\n")
		return 2
	}
	err := run(ctx, p, name, *settings, file, strings.Join(flags.Args(), " "), out)
	if err != nil {
		fmt.Fprintf(errs, "verifier %s: %v\n", name, err)
	}
	switch {
	case err == nil:
		return 0
	case verifier.Differs(err), errors.Is(err, errNoCanary):
		return 1
	default:
		return 2
	}
}

var errNoCanary = errors.New("no probe has a canary of this text")

func run(ctx context.Context, p *program, name, settings, file, arg string, out io.Writer) error {
	if file != "" {
		from, err := os.Open(file)
		if err != nil {
			return fmt.Errorf("open the exported evidence: %w", err)
		}
		return errors.Join(verifier.ReplayExported(arg, from, out), from.Close())
	}
	if err := config.Read(p, settings, os.Environ()); err != nil {
		return err
	}
	tools, err := verifier.OpenTools(ctx, p.Verifier, p.DatabaseURL.Reveal())
	if err != nil {
		return err
	}
	defer tools.Close()
	if name == "replay" {
		return tools.Replay(ctx, arg, out)
	}
	found, err := tools.Canary(ctx, arg)
	if err != nil {
		return err
	}
	for _, f := range found {
		fmt.Fprintf(out, "probe %s of provider %s, model %s, at %s\n", f.Probe, f.Provider, f.Model,
			f.EndedAt.Format(time.RFC3339))
	}
	if len(found) == 0 {
		return errNoCanary
	}
	return nil
}
