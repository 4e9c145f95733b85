package main

import (
	"context"
	"encoding/json"
	"fmt"
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
	flags.StringVar(&cfg.StateDir, "state", cfg.StateDir, "`folder` of the agent's state (SVC_STATE_DIR)")
	asJSON := flags.Bool("json", false, "print what the agent and the marketplace say as JSON")
	once := flags.Bool("once", false, "print the status once, instead of showing it live on a terminal")
	if err := c.parse(flags); err != nil {
		return err
	}
	if *keyFile != "" {
		if err := cfg.Key.UnmarshalText([]byte("file:" + *keyFile)); err != nil {
			return err
		}
	}
	if file, is := terminalOf(c.out); is && isScreen(file) && c.variable("TERM") != "dumb" && !*once && !*asJSON {
		return liveStatus(ctx, c.in, file, cfg, paintFor(c.out, c.environ))
	}
	shown, err := look(ctx, cfg)
	if err != nil {
		return err
	}
	if *asJSON {
		text, err := json.MarshalIndent(shown, "", "  ")
		if err != nil {
			return fmt.Errorf("encode the status: %w", err)
		}
		return c.say("%s\n", text)
	}
	return writePicture(c.out, shown, paintFor(c.out, c.environ))
}
