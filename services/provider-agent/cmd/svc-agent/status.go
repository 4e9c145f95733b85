package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"svc.internal/services/provider-agent/internal/service"
)

func status(ctx context.Context, c invocation) error {
	cfg, err := c.settings()
	if err != nil {
		return err
	}
	flags := c.flags("status")
	flags.StringVar(&cfg.ServiceURL, "service", cfg.ServiceURL,
		"`URL` of the marketplace's API, https:// (SVC_SERVICE_URL; default: from the hub's)")
	flags.StringVar(&cfg.WSURL, "ws", cfg.WSURL, "`URL` of the hub, ws:// or wss:// (SVC_WS_URL)")
	keyFile := flags.String("key-file", "", "`file` that holds the provider key (instead of SVC_PROVIDER_KEY)")
	asJSON := flags.Bool("json", false, "print the service's answer as it is, indented")
	if err := c.parse(flags); err != nil {
		return err
	}
	if *keyFile != "" {
		if err := cfg.Key.UnmarshalText([]byte("file:" + *keyFile)); err != nil {
			return err
		}
	}
	answer, err := askStatus(ctx, cfg)
	if err != nil {
		return err
	}
	if *asJSON {
		return writeJSON(c.out, answer)
	}
	told, err := service.ParseStatus(answer)
	if err != nil {
		return err
	}
	return writeStatus(c.out, told, paintFor(c.out, c.environ))
}

func askStatus(ctx context.Context, cfg environment) ([]byte, error) {
	if !cfg.Key.IsSet() {
		return nil, errors.New("the status needs a provider key: set SVC_PROVIDER_KEY or give -key-file")
	}
	base := cfg.ServiceURL
	if base == "" {
		base = service.BaseOf(cfg.WSURL)
	}
	client, err := service.New(base)
	if err != nil {
		return nil, fmt.Errorf("%w; set SVC_SERVICE_URL", err)
	}
	return client.Status(ctx, cfg.Key)
}

func writeJSON(out io.Writer, answer []byte) error {
	var text bytes.Buffer
	if err := json.Indent(&text, answer, "", "  "); err != nil {
		return errors.New("the service's answer is no JSON")
	}
	text.WriteByte('\n')
	if _, err := text.WriteTo(out); err != nil {
		return fmt.Errorf("print the status: %w", err)
	}
	return nil
}

// paint colours a text on a terminal.
type paint func(text string, c colour) string

// colour is an SGR code.
type colour string

const (
	green  colour = "32"
	yellow colour = "33"
	red    colour = "31"
	bold   colour = "1"
)

// paintFor colours text for a terminal, unless NO_COLOR is set. Other outputs get plain
// text.
func paintFor(out io.Writer, environ []string) paint {
	plain := func(text string, _ colour) string { return text }
	file, ok := out.(*os.File)
	if !ok {
		return plain
	}
	if info, err := file.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return plain
	}
	for _, v := range environ {
		if value, is := strings.CutPrefix(v, "NO_COLOR="); is && value != "" || v == "TERM=dumb" {
			return plain
		}
	}
	return coloured
}

func coloured(text string, c colour) string { return "\x1b[" + string(c) + "m" + text + "\x1b[0m" }
