// Command svc-agent offers the models of local inference engines to the
// marketplace.
//
//	svc-agent setup    finds the engines, opens the account and writes the settings
//	svc-agent run      connects and serves until it is stopped
//	svc-agent check    reads models.json and asks every engine once
//	svc-agent status   shows where the account stands, and why requests come or do not
//	svc-agent doctor   looks for what keeps this machine from earning
//	svc-agent models   lists what the catalog asks for, and what is offered here; adds or
//	                   removes a model
//	svc-agent bench    measures how fast the engines answer
//	svc-agent earnings compares what was served here with the signed daily statements
//	svc-agent pause    has the running agent take no new requests; resume ends that
//	svc-agent drain    has the running agent end once its requests have ended
//	svc-agent service  makes the agent a service of this machine
//	svc-agent version  prints the version
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"svc.internal/services/provider-agent/internal/service"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second signal ends the process at once.
	context.AfterFunc(ctx, stop)
	err := invocation{
		args: os.Args[1:], environ: os.Environ(), in: os.Stdin, out: os.Stdout, diagnostics: os.Stderr,
	}.command(ctx)
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errUnfit):
		os.Exit(1)
	default:
		fmt.Fprintln(os.Stderr, "svc-agent:", service.Printable(err.Error())) // an engine's words may be in it
		os.Exit(1)
	}
}

// commands are all commands, in the order of the usage.
func commands() []subcommand {
	return []subcommand{
		{"setup", "find the engines, open the account and write the settings; asks what it needs", setUp},
		{"run", "connect to the hub and serve requests until stopped", run},
		{"check", "read models.json and ask every engine whether it serves its models", check},
		{"status", "show where the account stands, and why requests come or do not", status},
		{"doctor", "look for what keeps this machine from earning, and say what mends it", examine},
		{"models", "list what the catalog asks for and what is offered here; add or remove a model", models},
		{"bench", "measure how fast the engines answer", bench},
		{"earnings", "hold what was served here against the signed daily statements", earned},
		{"pause", "take no new requests, and stay connected", pause},
		{"resume", "take requests again", resume},
		{"drain", "let the requests under way end, and then the agent", drain},
		{"service", "install or uninstall the agent as a service of this machine, or show the service", serviceCommand},
		{"completion", "print the script that completes commands in bash, zsh or fish",
			func(ctx context.Context, c invocation) error { return completion(ctx, c, commands()) }},
		{"version", "print the version", printVersion},
	}
}

// command does what the first argument names.
func (c invocation) command(ctx context.Context) error {
	name := ""
	if len(c.args) > 0 {
		name, c.args = c.args[0], c.args[1:]
	}
	switch name {
	case "help", "-h", "-help", "--help":
		return usage(c.out)
	}
	for _, known := range commands() {
		if known.name == name {
			return known.run(ctx, c)
		}
	}
	return errors.Join(usage(c.diagnostics), fmt.Errorf("%q is not a command", name))
}

// usage prints the commands.
func usage(out io.Writer) error {
	text := "usage: svc-agent <command> [flags]\n\n"
	for _, known := range commands() {
		text += fmt.Sprintf("  %-11s%s\n", known.name, known.summary)
	}
	_, err := io.WriteString(out, text+`
"svc-agent run -h" lists the flags of run, and likewise for every command. Settings come from config.yaml in the
agent's state folder. Variables that begin with SVC_ win over config.yaml, and flags win over both.
`)
	return err
}

func printVersion(_ context.Context, c invocation) error {
	_, err := fmt.Fprintln(c.out, "svc-agent", version())
	return err
}
