package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"svc.internal/pkg/config"
	"svc.internal/services/provider-agent/internal/engine"
	"svc.internal/services/provider-agent/internal/setup"
)

// answers are the variables that answer the questions of setup, beside the settings.
type answers struct {
	Account     string        `env:"SVC_SETUP_ACCOUNT"`
	Email       string        `env:"SVC_SETUP_EMAIL"`
	Password    config.Secret `env:"SVC_SETUP_PASSWORD"`
	Offer       string        `env:"SVC_SETUP_OFFER"`
	Beneficiary string        `env:"SVC_SETUP_BENEFICIARY"`
	Capacity    int           `env:"SVC_SETUP_CAPACITY"`
	Context     int64         `env:"SVC_SETUP_CONTEXT"`
	Pull        string        `env:"SVC_SETUP_PULL"`
	Ports       []int         `env:"SVC_SETUP_PORTS"`
	Yes         bool          `env:"SVC_SETUP_YES"`
}

// setUp is the command setup.
func setUp(ctx context.Context, c invocation) error {
	cfg, err := c.settings()
	if err != nil {
		return err
	}
	given, err := config.Load[answers](c.environ)
	if err != nil && c.describe == nil {
		return err
	}
	keyFile, err := c.setupFlags(&cfg, &given)
	if err != nil {
		return err
	}
	if keyFile != "" {
		if err := cfg.Key.UnmarshalText([]byte("file:" + keyFile)); err != nil {
			return err
		}
	}
	if cfg, err = fillFromHost(cfg); err != nil {
		return err
	}
	o := setup.Options{
		ServiceURL: cfg.ServiceURL, HubURL: cfg.WSURL, Account: given.Account, Email: given.Email, Password: given.Password,
		Key: cfg.Key, Offer: given.Offer, Beneficiary: given.Beneficiary, NodeName: cfg.NodeName, Capacity: given.Capacity,
		Context: given.Context, Pull: given.Pull, Ports: given.Ports, Yes: given.Yes, Home: cfg.StateDir,
		AllowPlaintext: cfg.AllowPlaintext,
	}
	if cfg.Models != defaults().Models {
		o.Models = cfg.Models
	}
	if len(o.Ports) == 0 {
		o.Ports = engine.Ports()
	}
	return setup.Run(ctx, o, setup.Terminal{In: c.in, Out: c.out, Hidden: c.hidden()})
}

// setupFlags reads the flags of setup over settings and variables. It returns the file of
// the key.
func (c invocation) setupFlags(cfg *environment, given *answers) (keyFile string, err error) {
	flags := c.flags("setup")
	flags.StringVar(&cfg.ServiceURL, "service", cfg.ServiceURL, "`URL` of the marketplace's API (SVC_SERVICE_URL)")
	flags.StringVar(&cfg.WSURL, "ws", cfg.WSURL, "`URL` of the hub (SVC_WS_URL; default: from the API's)")
	flags.StringVar(&given.Offer, "offer", given.Offer,
		"models to offer, as a `list` of id=local name, or all (SVC_SETUP_OFFER)")
	flags.StringVar(&given.Beneficiary, "beneficiary", given.Beneficiary,
		"wallet `address` that is paid (SVC_SETUP_BENEFICIARY)")
	flags.StringVar(&cfg.NodeName, "name", cfg.NodeName, "this machine's `name` (SVC_NODE_NAME)")
	flags.IntVar(&given.Capacity, "capacity", given.Capacity,
		"`requests` at once for each model (SVC_SETUP_CAPACITY)")
	flags.StringVar(&given.Account, "account", given.Account,
		"`way` to the account: signup, login, key or keep (SVC_SETUP_ACCOUNT)")
	flags.StringVar(&given.Email, "email", given.Email,
		"e-mail `address` of the account (SVC_SETUP_EMAIL); the password comes from SVC_SETUP_PASSWORD")
	file := flags.String("key-file", "", "`file` that holds a provider key that you have (instead of SVC_PROVIDER_KEY)")
	flags.Int64Var(&given.Context, "context", given.Context,
		"have Ollama make models with a window of this many `tokens`, from models that hold fewer (SVC_SETUP_CONTEXT)")
	flags.StringVar(&given.Pull, "pull", given.Pull, "`model` that Ollama downloads first (SVC_SETUP_PULL)")
	flags.Func("ports", "ports on which engines are looked for, as a `list` with commas (SVC_SETUP_PORTS)",
		func(list string) error {
			given.Ports = nil
			for part := range strings.SplitSeq(list, ",") {
				port, err := strconv.ParseUint(part, 10, 16)
				if err != nil {
					return fmt.Errorf("%q is no port", part)
				}
				given.Ports = append(given.Ports, int(port))
			}
			return nil
		})
	flags.StringVar(&cfg.StateDir, "state", cfg.StateDir, "`folder` of the settings and the state (SVC_STATE_DIR)")
	flags.BoolVar(&given.Yes, "yes", given.Yes, "ask nothing (SVC_SETUP_YES)")
	if err := c.parse(flags); err != nil {
		return "", err
	}
	if given.Context < 0 || given.Capacity < 0 {
		return "", errors.New("-context and -capacity must be positive")
	}
	return *file, nil
}

// hidden reads a line that the terminal does not show; nil where there is no terminal. What is typed
// as soon as the question stands there is not shown either.
func (c invocation) hidden() func(ask func()) (string, error) {
	file, ok := c.in.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return nil
	}
	return func(ask func()) (string, error) {
		fd := int(file.Fd())
		shown, err := unix.IoctlGetTermios(fd, readTermios)
		if err != nil {
			return "", fmt.Errorf("read the terminal's settings: %w", err)
		}
		silent := *shown
		silent.Lflag &^= unix.ECHO
		if err := unix.IoctlSetTermios(fd, writeTermios, &silent); err != nil {
			return "", fmt.Errorf("keep the terminal from showing what is typed: %w", err)
		}
		defer func() { _ = unix.IoctlSetTermios(fd, writeTermios, shown) }() // it was set just now
		ask()
		line, err := term.ReadPassword(fd)
		return string(line), err
	}
}
