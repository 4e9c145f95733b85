package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
)

// shells are what completion writes scripts for.
var shells = []string{"bash", "zsh", "fish"}

// completion prints a script that completes commands and flags. The flags are those that the
// commands define.
func completion(ctx context.Context, c invocation, commands []subcommand) error {
	shell := ""
	if len(c.args) > 0 && !strings.HasPrefix(c.args[0], "-") {
		shell, c.args = c.args[0], c.args[1:]
	}
	flags := c.flags("completion")
	flags.StringVar(&shell, "shell", shell, "`name` of the shell: bash, zsh or fish; the first argument may name it, too")
	if err := c.parse(flags); err != nil {
		return err
	}
	if !slices.Contains(shells, shell) {
		return fmt.Errorf("name the shell: svc-agent completion %s", strings.Join(shells, "|"))
	}
	return c.say("%s", script(shell, described(ctx, commands)))
}

// words are a command, its flags and its arguments.
type words struct {
	name, summary string
	flags         []*flag.Flag
	// arguments are the words that may follow the command.
	arguments []string
}

// described asks every command for its flags.
func described(ctx context.Context, commands []subcommand) []words {
	var all []words
	for _, known := range commands {
		w := words{name: known.name, summary: known.summary, arguments: argumentsOf[known.name]}
		asked := invocation{out: io.Discard, diagnostics: io.Discard, describe: func(flags *flag.FlagSet) {
			flags.VisitAll(func(f *flag.Flag) { w.flags = append(w.flags, f) })
		}}
		_ = known.run(ctx, asked) // the command ends when it has described its flags
		all = append(all, w)
	}
	return all
}

// argumentsOf are the words that follow commands.
var argumentsOf = map[string][]string{
	"service": {"install", "uninstall", "status"}, "completion": shells, "models": {"add", "remove"},
}

func script(shell string, all []words) string {
	switch shell {
	case "fish":
		return fish(all)
	case "zsh":
		// zsh reads scripts of bash.
		return "#compdef svc-agent\nautoload -U +X bashcompinit && bashcompinit\n" + bash(all)
	}
	return bash(all)
}

// bash completes by a function that looks at the command.
func bash(all []words) string {
	var names []string
	var cases strings.Builder
	for _, w := range all {
		names = append(names, w.name)
		follow := slices.Clone(w.arguments)
		for _, f := range w.flags {
			follow = append(follow, "--"+f.Name)
		}
		if len(follow) > 0 {
			fmt.Fprintf(&cases, "    %s) words=\"%s\" ;;\n", w.name, strings.Join(follow, " "))
		}
	}
	return fmt.Sprintf(`# Completion of svc-agent: source <(svc-agent completion bash)
_svc_agent() {
  local current=${COMP_WORDS[COMP_CWORD]} words=""
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    words="%s help"
  else case ${COMP_WORDS[1]} in
%s  esac; fi
  case $current in
    -*|"") COMPREPLY=($(compgen -W "$words" -- "$current")) ;;
    *) COMPREPLY=($(compgen -W "$words" -- "$current") $(compgen -f -- "$current")) ;;
  esac
}
complete -F _svc_agent svc-agent
`, strings.Join(names, " "), cases.String())
}

// fish completes with what each word means.
func fish(all []words) string {
	var b strings.Builder
	b.WriteString("# Completion of svc-agent: svc-agent completion fish | source\ncomplete -c svc-agent -f\n")
	quote := func(text string) string { return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(text) + "'" }
	for _, w := range all {
		fmt.Fprintf(&b, "complete -c svc-agent -n __fish_use_subcommand -a %s -d %s\n", w.name, quote(w.summary))
		after := quote("__fish_seen_subcommand_from " + w.name)
		for _, word := range w.arguments {
			fmt.Fprintf(&b, "complete -c svc-agent -n %s -a %s\n", after, word)
		}
		for _, f := range w.flags {
			_, usage := flag.UnquoteUsage(f)
			needs := " -r"
			if isSwitch(f) {
				needs = ""
			}
			fmt.Fprintf(&b, "complete -c svc-agent -n %s -l %s%s -d %s\n", after, f.Name, needs, quote(usage))
		}
	}
	return b.String()
}

// isSwitch reports whether a flag takes no value, by the rule of package flag.
func isSwitch(f *flag.Flag) bool {
	value, is := f.Value.(interface{ IsBoolFlag() bool })
	return is && value.IsBoolFlag()
}
