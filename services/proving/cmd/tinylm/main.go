// Command tinylm serves the built-in tiny model as an OpenAI-compatible engine,
// for a marketplace whose parts are processes of their own:
//
//	tinylm -addr 127.0.0.1:9470
//
// The model is at http://<addr>/v1 under the name tinylm-1.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"svc.internal/pkg/serve"
	"svc.internal/pkg/tinylm"
)

// maxConcurrent is the most answers that the agents of a fleet ask for at once.
const maxConcurrent = 1024

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "tinylm:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("tinylm", flag.ContinueOnError)
	addr := flags.String("addr", "127.0.0.1:9470", "where to listen")
	delay := flags.Duration("token-delay", 0, "pause before each token of an answer")
	drain := flags.Duration("drain", 10*time.Second, "how long answers may go on at the end")
	if err := flags.Parse(args); err != nil {
		return err
	}
	model, err := tinylm.Load()
	if err != nil {
		return fmt.Errorf("load the model: %w", err)
	}
	lis, err := net.Listen("tcp", *addr)
	if err != nil {
		return fmt.Errorf("-addr: %w", err)
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	log.InfoContext(ctx, "serving", "url", "http://"+lis.Addr().String()+"/v1", "model", tinylm.ModelName)
	handler := tinylm.NewServer(model, tinylm.Options{MaxConcurrent: maxConcurrent, TokenDelay: *delay})
	return serve.HTTP(ctx, lis, handler, serve.HTTPConfig{Log: log, DrainTimeout: *drain})
}
