package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// HTTPConfig bounds an HTTP server.
type HTTPConfig struct {
	// ReadTimeout bounds the reading of a whole request; 0 means no bound, for handlers
	// that have their own.
	ReadTimeout time.Duration
	// DrainTimeout is how long requests may run after ctx has ended; 0 means 20 s.
	DrainTimeout time.Duration
	Log          *slog.Logger
}

// ErrStopping is the cause of a request's context that ended because the server had no
// more time, and not because its client left.
var ErrStopping = errors.New("the server is stopping")

// stopping is the key of a server's context in the contexts of its requests.
type stopping struct{}

// Stopping returns a context that ends when the server of a request begins to stop, before the
// request's own context ends. It is for answers that take long and that a client asks for again.
// Outside of a server it never ends.
func Stopping(request context.Context) context.Context {
	if of, ok := request.Value(stopping{}).(context.Context); ok {
		return of
	}
	return context.Background()
}

// farewellTimeout is the time that handlers have to report ErrStopping to their clients.
const farewellTimeout = 5 * time.Second

// HTTP serves handler on lis until ctx ends. Then it accepts no new requests and lets
// running ones end within the drain time. After that their contexts end with ErrStopping
// as the cause, and their connections close at most 5 s later.
func HTTP(ctx context.Context, lis net.Listener, handler http.Handler, cfg HTTPConfig) error {
	drain := cfg.DrainTimeout
	if drain == 0 {
		drain = 20 * time.Second
	}
	base, stopNow := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stopNow(nil)
	base = context.WithValue(base, stopping{}, ctx)
	srv := &http.Server{
		Handler:           handler,
		BaseContext:       func(net.Listener) context.Context { return base },
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
	if err := shutdown(base, srv, drain); err != nil {
		stopNow(ErrStopping)
		if err := shutdown(base, srv, farewellTimeout); err != nil {
			if closeErr := srv.Close(); closeErr != nil {
				return fmt.Errorf("close HTTP on %s: %w", lis.Addr(), closeErr)
			}
		}
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve HTTP on %s: %w", lis.Addr(), err)
	}
	return nil
}

// shutdown waits for running requests, for at most limit.
func shutdown(ctx context.Context, srv *http.Server, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	return srv.Shutdown(ctx)
}

// AdminHandler answers /metrics, /healthz (the process lives), /readyz (every check
// passes) and, where profiles is set, the profiles under /debug/pprof/. It belongs on a
// listener that the public cannot reach. Profiles show memory and cost CPU, so they
// belong on loopback.
func AdminHandler(metrics http.Handler, ready func(context.Context) error, profiles bool) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics)
	if profiles {
		mux.Handle("GET /debug/pprof/", profileHandler())
	}
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
