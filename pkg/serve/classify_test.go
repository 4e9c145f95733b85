package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	tracenoop "go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/grpc/health/grpc_health_v1"

	"svc.internal/pkg/fault"
)

// errLost stands for an error of a driver.
var errLost = errors.New("secret-host: connection reset")

// lostIsUnavailable classifies errLost.
func lostIsUnavailable(err error) *fault.Fault {
	if !errors.Is(err, errLost) {
		return nil
	}
	return fault.Wrap(err, fault.Unavailable, fault.ServiceUnavailable, "try again").After(time.Second)
}

func TestAnErrorOfADriverIsTheFaultThatIsFoundInIt(t *testing.T) {
	for name, test := range map[string]struct {
		answer error
		kind   fault.Kind
		reason fault.Reason
		level  slog.Level
	}{
		"found":     {fmt.Errorf("read keys: %w", errLost), fault.Unavailable, fault.ServiceUnavailable, slog.LevelError},
		"not found": {errors.New("secret-host: syntax error"), fault.Internal, fault.InternalError, slog.LevelError},
		"a fault already": {fault.Wrap(errLost, fault.Conflict, fault.AlreadyExists, "once"), fault.Conflict,
			fault.AlreadyExists, slog.LevelDebug},
	} {
		t.Run(name, func(t *testing.T) {
			var log levels
			server := &checker{check: func(context.Context) error { return test.answer }}
			for way, conn := range channelsWith(t, server, slog.New(&log), tracenoop.NewTracerProvider(), lostIsUnavailable) {
				client := grpc_health_v1.NewHealthClient(conn)
				_, unary := client.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
				stream, err := client.Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
				if err != nil {
					t.Fatal(err)
				}
				_, streamed := stream.Recv()
				for call, err := range map[string]error{"unary": unary, "stream": streamed} {
					switch f, ok := fault.As(err); {
					case !ok:
						t.Errorf("%s, %s: got the error %v, want a fault", way, call, err)
					case f.Kind != test.kind:
						t.Errorf("%s, %s: f.Kind: got %d, want %d", way, call, f.Kind, test.kind)
					case f.Reason != test.reason:
						t.Errorf("%s, %s: f.Reason: got %q, want %q", way, call, f.Reason, test.reason)
					case strings.Contains(f.Message, "secret"):
						t.Errorf(`%s, %s: f.Message: got %q, want it without "secret"`, way, call, f.Message)
					}
				}
			}
			if got := log.all(); !slices.Equal(got, slices.Repeat([]slog.Level{test.level}, 4)) {
				t.Errorf("levels of the log: got %v, want %v four times", got, test.level)
			}
		})
	}
}

// levels keeps the level of each record.
type levels struct {
	slog.Handler
	mu   sync.Mutex
	list []slog.Level
}

func (*levels) Enabled(context.Context, slog.Level) bool { return true }

func (l *levels) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, r.Level)
	return nil
}

func (l *levels) all() []slog.Level {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.list)
}
