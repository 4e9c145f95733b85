package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"time"
)

// HTTPConfig bounds an HTTP server.
type HTTPConfig struct {
	// ReadTimeout bounds the reading of a whole request; 0 means none, for
	// handlers that bound it themselves.
	ReadTimeout time.Duration
	// DrainTimeout is how long requests may go on after ctx has ended; 0
	// means 20 s.
	DrainTimeout time.Duration
	Log          *slog.Logger
}

// HTTP serves handler on lis until ctx ends, then takes no new requests and
// lets those under way end within the drain time.
func HTTP(ctx context.Context, lis net.Listener, handler http.Handler, cfg HTTPConfig) error {
	drain := cfg.DrainTimeout
	if drain == 0 {
		drain = 20 * time.Second
	}
	srv := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       cfg.ReadTimeout,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(cfg.Log.Handler(), slog.LevelDebug),
	}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(lis) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve HTTP on %s: %w", lis.Addr(), err)
	case <-ctx.Done():
	}
	stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	if err := srv.Shutdown(stopCtx); err != nil {
		if closeErr := srv.Close(); closeErr != nil {
			return fmt.Errorf("close HTTP on %s: %w", lis.Addr(), closeErr)
		}
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve HTTP on %s: %w", lis.Addr(), err)
	}
	return nil
}

// AdminHandler answers /metrics, /healthz (the process lives), /readyz (every
// check passes) and the profiles under /debug/pprof/. It belongs on a listener
// that the public cannot reach.
func AdminHandler(metrics http.Handler, ready func(context.Context) error) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics)
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
		defer cancel()
		if err := ready(ctx); err != nil {
			answer(w, http.StatusServiceUnavailable, err.Error())
			return
		}
		answer(w, http.StatusOK, "ready")
	})
	return mux
}

func answer(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	fmt.Fprintln(w, text)
}
