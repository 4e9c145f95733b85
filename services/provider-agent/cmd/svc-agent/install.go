package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	provideragent "svc.internal/services/provider-agent"
	"svc.internal/services/provider-agent/internal/unit"
)

// place is where a service's file belongs, and which commands make the system know it.
type place struct {
	path                string
	start, stop, status []string // the commands, in words
	ofMachine, launchd  bool
}

// serviceCommand installs the agent as a service of this machine, uninstalls the service, or
// shows its status.
func serviceCommand(ctx context.Context, c invocation) error {
	verb := ""
	if len(c.args) > 0 && !strings.HasPrefix(c.args[0], "-") {
		verb, c.args = c.args[0], c.args[1:]
	}
	cfg, err := c.settings()
	if err != nil {
		return err
	}
	flags := c.flags("service " + verb)
	ofMachine := flags.Bool("system", false, "a service of the machine, which starts with it, instead of the user's own")
	user := flags.String("user", "", "`name` of the user of a machine's service (default: root)")
	dry := flags.Bool("dry-run", false, "print what would be written and run, and change nothing")
	flags.StringVar(&cfg.StateDir, "state", cfg.StateDir, "`folder` of the agent's state (SVC_STATE_DIR)")
	flags.StringVar(&cfg.Models, "models", cfg.Models, "`file` that lists the models (SVC_MODELS)")
	if err := c.parse(flags); err != nil {
		return err
	}
	at, err := placeOf(runtime.GOOS, c, *ofMachine)
	if err != nil {
		return err
	}
	switch verb {
	case "install":
		return c.install(ctx, cfg, at, *user, *dry)
	case "uninstall":
		return c.uninstall(ctx, at, *dry)
	case "status":
		return c.execute(ctx, at.status)
	}
	return errors.New("name what to do: svc-agent service install, uninstall or status")
}

// placeOf is the place of a system.
func placeOf(system string, c invocation, ofMachine bool) (place, error) {
	home := c.variable("HOME")
	if !ofMachine && home == "" {
		return place{}, errors.New("HOME is not set, so the user has no services; -system makes a service of the machine")
	}
	switch {
	case system == "darwin":
		dir, domain := "/Library/LaunchDaemons", "system"
		if !ofMachine {
			dir, domain = filepath.Join(home, "Library", "LaunchAgents"), fmt.Sprintf("gui/%d", os.Getuid())
		}
		path := filepath.Join(dir, unit.Label+".plist")
		return place{path: path, launchd: true, ofMachine: ofMachine,
			start:  []string{"launchctl", "bootstrap", domain, path},
			stop:   []string{"launchctl", "bootout", domain + "/" + unit.Label},
			status: []string{"launchctl", "print", domain + "/" + unit.Label}}, nil
	case system != "linux":
		return place{}, fmt.Errorf("svc-agent cannot install a service on %s: have the system start svc-agent run", system)
	case ofMachine:
		return systemd("/etc/systemd/system", "systemctl"), nil
	}
	config := c.variable("XDG_CONFIG_HOME")
	if !filepath.IsAbs(config) {
		config = filepath.Join(home, ".config")
	}
	at := systemd(filepath.Join(config, "systemd", "user"), "systemctl", "--user")
	at.ofMachine = false
	return at, nil
}

func systemd(dir string, ctl ...string) place {
	with := func(words ...string) []string { return append(append([]string{}, ctl...), words...) }
	return place{path: filepath.Join(dir, unit.Name+".service"), ofMachine: true,
		start: with("enable", "--now", unit.Name), stop: with("disable", "--now", unit.Name),
		status: with("status", "--no-pager", unit.Name)}
}

// install writes the service's file and starts the service.
func (c invocation) install(ctx context.Context, cfg environment, at place, user string, dry bool) error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	text, err := unitOf(c, cfg, at, program, user)
	if err != nil {
		return err
	}
	if err := c.say("%s\n\n%s\n%s\n", at.path, text, strings.Join(at.start, " ")); err != nil {
		return err
	}
	if dry {
		return c.say("nothing was changed (-dry-run)\n")
	}
	if err := os.MkdirAll(cfg.StateDir, 0o700); err != nil {
		return fmt.Errorf("make the state folder: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(at.path), 0o755); err != nil { //nolint:gosec // the system reads it
		return fmt.Errorf("make the folder of services: %w", err)
	}
	if err := os.WriteFile(at.path, []byte(text), 0o644); err != nil { //nolint:gosec // the system reads it
		return fmt.Errorf("write the service: %w", err)
	}
	if err := c.execute(ctx, at.start); err != nil {
		return err
	}
	if !at.ofMachine && !at.launchd {
		return c.say("the service starts when you sign in; run loginctl enable-linger to have it start with the machine\n")
	}
	return nil
}

// unitOf returns the text of the service's file, which others may read. It has the settings of the
// environment, and the variables that say where the stores of engines are. It has no answers for setup,
// because one of them is a password, and not the key itself, which belongs in a file that only its
// owner may read.
func unitOf(c invocation, cfg environment, at place, program, user string) (string, error) {
	models, err := filepath.Abs(cfg.Models)
	if err != nil {
		return "", fmt.Errorf("find the list of models: %w", err)
	}
	s := unit.Service{Program: program, StateDir: cfg.StateDir, User: user,
		Args: []string{"run", "--models", models, "--state", cfg.StateDir}}
	for _, entry := range c.environ {
		name, value, _ := strings.Cut(entry, "=")
		switch {
		case slices.Contains(provideragent.StoreVariables(), name): // the service looks where this command would
			s.Env = append(s.Env, entry)
		case !strings.HasPrefix(name, "SVC_") || strings.HasPrefix(name, "SVC_SETUP_") || name == "SVC_MODELS" ||
			name == "SVC_STATE_DIR":
		case name == "SVC_PROVIDER_KEY" && !strings.HasPrefix(value, "file:"):
			return "", errors.New("SVC_PROVIDER_KEY holds the key itself, which a service's file would show to others: " +
				"put it into a file of mode 0600 and set SVC_PROVIDER_KEY=file:/path/to/it, or use config.yaml (svc-agent setup)")
		default:
			s.Env = append(s.Env, entry)
		}
	}
	if at.launchd {
		return s.Launchd()
	}
	return s.Systemd(at.ofMachine)
}

// uninstall stops the service and removes its file. The state stays.
func (c invocation) uninstall(ctx context.Context, at place, dry bool) error {
	if err := c.say("%s\nremove %s\n", strings.Join(at.stop, " "), at.path); err != nil {
		return err
	}
	if dry {
		return c.say("nothing was changed (-dry-run)\n")
	}
	if _, err := os.Stat(at.path); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("no service is installed at %s", at.path)
	}
	stopped := c.execute(ctx, at.stop)
	if err := os.Remove(at.path); err != nil {
		return errors.Join(stopped, fmt.Errorf("remove the service: %w", err))
	}
	return stopped
}

// execute runs a command of the system, whose output the owner sees.
func (c invocation) execute(ctx context.Context, words []string) error {
	cmd := exec.CommandContext(ctx, words[0], words[1:]...) //nolint:gosec // the words are this file's
	cmd.Stdout, cmd.Stderr = c.out, c.diagnostics
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(words, " "), err)
	}
	return nil
}
