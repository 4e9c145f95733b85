package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strings"
)

// invocation is what a command is called with.
type invocation struct {
	args, environ    []string
	in               io.Reader
	out, diagnostics io.Writer
	// describe, when set, is given the command's flags, and the command is not run. Shell
	// completion uses it.
	describe func(*flag.FlagSet)
}

// flags makes the set of a command's flags.
func (c invocation) flags(name string) *flag.FlagSet {
	flags := flag.NewFlagSet("svc-agent "+name, flag.ContinueOnError)
	flags.SetOutput(c.diagnostics)
	return flags
}

// parse reads the arguments into flags that are all defined. It refuses arguments that are
// no flags.
func (c invocation) parse(flags *flag.FlagSet) error {
	if c.describe != nil {
		c.describe(flags)
		return flag.ErrHelp
	}
	if err := flags.Parse(c.args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%q is not a flag", flags.Arg(0))
	}
	return nil
}

// operands parses the arguments by flags, which must all be defined, and returns the other arguments.
// Those may stand before, between and after the flags.
func (c invocation) operands(flags *flag.FlagSet) ([]string, error) {
	if c.describe != nil {
		c.describe(flags)
		return nil, flag.ErrHelp
	}
	var operands []string
	for rest := c.args; ; rest = flags.Args()[1:] {
		if err := flags.Parse(rest); err != nil {
			return nil, err
		}
		if flags.NArg() == 0 {
			return operands, nil
		}
		operands = append(operands, flags.Arg(0))
	}
}

// variable is the value of a variable of the environment; empty where it is not set.
func (c invocation) variable(name string) string {
	value := ""
	for _, entry := range c.environ {
		if text, is := strings.CutPrefix(entry, name+"="); is {
			value = text
		}
	}
	return value
}

// subcommand is one entry of the table of commands.
type subcommand struct {
	name, summary string
	run           func(context.Context, invocation) error
}
