package catalogwatch

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	catalogv1 "svc.internal/proto/svc/catalog/v1"
)

// catalog answers each watch with the next script: snapshots, then the end of the
// stream. Behind the last script a stream stays open.
type catalog struct {
	catalogv1.CatalogServiceClient
	scripts [][]*catalogv1.WatchModelsResponse
	watches []time.Time
}

func (c *catalog) WatchModels(
	ctx context.Context, _ *catalogv1.WatchModelsRequest, _ ...grpc.CallOption,
) (grpc.ServerStreamingClient[catalogv1.WatchModelsResponse], error) {
	c.watches = append(c.watches, time.Now())
	s := &stream{ctx: ctx}
	if len(c.scripts) > 0 {
		s.left, s.ends, c.scripts = c.scripts[0], true, c.scripts[1:]
	}
	return s, nil
}

type stream struct {
	grpc.ServerStreamingClient[catalogv1.WatchModelsResponse]
	ctx  context.Context
	left []*catalogv1.WatchModelsResponse
	ends bool
}

func (s *stream) Recv() (*catalogv1.WatchModelsResponse, error) {
	if len(s.left) > 0 {
		next := s.left[0]
		s.left = s.left[1:]
		return next, nil
	}
	if s.ends {
		return nil, io.EOF
	}
	<-s.ctx.Done()
	return nil, s.ctx.Err()
}

func snapshot(models int) *catalogv1.WatchModelsResponse {
	return &catalogv1.WatchModelsResponse{Models: make([]*catalogv1.Model, models)}
}

// play runs a watch of the scripts for a while of virtual time, and returns how many
// models each snapshot had and what was logged.
func play(t *testing.T, c *catalog, while time.Duration) (sizes []int, logged string) {
	t.Helper()
	var buf bytes.Buffer
	log := slog.New(slog.NewTextHandler(&buf, &slog.HandlerOptions{Level: slog.LevelDebug}))
	ctx, cancel := context.WithTimeout(t.Context(), while)
	defer cancel()
	Run(ctx, c, log, func(_ context.Context, models []*catalogv1.Model) { sizes = append(sizes, len(models)) })
	return sizes, buf.String()
}

func TestEachSnapshotIsKeptAcrossBrokenStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &catalog{scripts: [][]*catalogv1.WatchModelsResponse{{snapshot(1), snapshot(2)}, nil, {snapshot(3)}}}
		sizes, _ := play(t, c, time.Minute)
		if len(sizes) != 3 || sizes[0] != 1 || sizes[1] != 2 || sizes[2] != 3 {
			t.Errorf("got snapshots of %v models, want [1 2 3]", sizes)
		}
		if got, want := len(c.watches), 4; got != want {
			t.Errorf("got %d watches, want %d", got, want)
		}
	})
}

func TestThePauseGrowsToItsBoundAndStartsOverBehindASnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &catalog{scripts: make([][]*catalogv1.WatchModelsResponse, 11)}
		c.scripts[10] = []*catalogv1.WatchModelsResponse{snapshot(1)}
		play(t, c, 10*time.Minute)
		if got, want := len(c.watches), 12; got != want {
			t.Fatalf("got %d watches, want %d", got, want)
		}
		for i := range 11 {
			most := min(MinPause<<i, MaxPause)
			if i == 10 {
				most = MinPause // a snapshot came before
			}
			if got := c.watches[i+1].Sub(c.watches[i]); got < most/2 || got >= most {
				t.Errorf("pause %d: got %v, want from %v to %v", i+1, got, most/2, most)
			}
		}
	})
}

func TestACatalogThatIsAwayIsAWarningOnlyOnceItHasBeenHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &catalog{scripts: [][]*catalogv1.WatchModelsResponse{nil, {snapshot(1)}, nil}}
		_, logged := play(t, c, time.Minute)
		levels := ""
		for line := range strings.Lines(logged) {
			levels += strings.Fields(line)[1] + " "
		}
		if want := "level=DEBUG level=WARN level=WARN "; levels != want {
			t.Errorf("got %q, want %q", levels, want)
		}
	})
}

func TestACatalogBeyondItsBoundIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &catalog{scripts: [][]*catalogv1.WatchModelsResponse{{snapshot(MaxModels), snapshot(MaxModels + 1)}}}
		sizes, logged := play(t, c, time.Minute)
		if len(sizes) != 1 || sizes[0] != MaxModels {
			t.Errorf("got snapshots of %v models, want [%d]", sizes, MaxModels)
		}
		if want := "more than 10000"; !strings.Contains(logged, want) {
			t.Errorf("got the log %q, want %q in it", logged, want)
		}
	})
}

func TestPausesStayWithinTheirBounds(t *testing.T) {
	for failures := 1; failures < 100; failures++ {
		if got := pause(failures); got < MinPause/2 || got >= MaxPause {
			t.Errorf("after %d failures: got %v, want from %v to %v", failures, got, MinPause/2, MaxPause)
		}
	}
}
