package hardware

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const oneGPU = "NVIDIA GeForce RTX 4090, 24564, 550.54.14, 8.9\n"

// script stands for an nvidia-smi that fails a few times, and notes when it is run.
type script struct {
	began    time.Time
	at       []time.Duration
	failures int
	hangs    bool
}

func (s *script) run(ctx context.Context, _ string, _ ...string) ([]byte, error) {
	s.at = append(s.at, time.Since(s.began))
	if len(s.at) > s.failures {
		return []byte(oneGPU), nil
	}
	if s.hangs {
		<-ctx.Done()
		return nil, errors.New("signal: killed")
	}
	return nil, errors.New("exit status 9")
}

func (s *script) finder(log *strings.Builder) *Finder {
	s.began = time.Now()
	return &Finder{log: slog.New(slog.NewTextHandler(log, nil)), run: s.run, system: "linux"}
}

func TestProgramThatFailsOrHangsIsRunAgainUntilItTells(t *testing.T) {
	for reason, s := range map[string]*script{
		"exit status 9":       {failures: 9},
		"no answer within 5s": {failures: 9, hangs: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			log := &strings.Builder{}
			f := s.finder(log)
			f.Look(t.Context())
			if f.Report() != nil {
				t.Errorf("%s: found: got %+v, want nil", reason, f.Report())
			}
			f.Run(t.Context())
			if r := f.Report(); r == nil {
				t.Errorf("%s: found: got nil, want a value", reason)
			} else if r.Type != "RTX 4090" {
				t.Errorf(`%s: found: r.Type: got %q, want "RTX 4090"`, reason, r.Type)
			}
			if n := strings.Count(log.String(), reason); n != 1 {
				t.Errorf("strings.Count(log.String(), reason): got %d, want 1", n)
			} else if len(s.at) != 10 {
				t.Errorf("it was run: len(s.at): got %d, want 10, in %v", len(s.at), s.at)
			}
			for i := range s.at[1:] {
				pause := s.at[i+1] - s.at[i]
				if s.hangs {
					pause -= patience
				}
				if want := min(againFirst<<i, maxRepeatPause); pause != want {
					t.Errorf("%s: pause %d: got %v, want %v", reason, i, pause, want)
				}
			}
			f.Look(t.Context())
			f.Run(t.Context())
			if len(s.at) != 10 {
				t.Errorf("%s: what is known is asked for again: got %d, want 10", reason, len(s.at))
			}
		})
	}
}

func TestFinderEndsWithTheAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &strings.Builder{}
		s := &script{failures: 100, hangs: true}
		f := s.finder(log)
		ctx, stop := context.WithTimeout(t.Context(), 12*time.Second) // in the middle of the first run
		defer stop()
		f.Run(ctx)
		if took := time.Since(s.began); took != 12*time.Second {
			t.Errorf("it took: got %v, want %v", took, 12*time.Second)
		} else if log.Len() > 0 {
			t.Errorf("log.Len(): got %d, want 0", log.Len())
		}
	})
}

func TestMachineWithoutTheProgramIsAskedOnce(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	log := &strings.Builder{}
	f := NewFinder(slog.New(slog.NewTextHandler(log, nil)))
	f.Look(t.Context())
	f.Run(t.Context()) // returns
	if f.Report() != nil {
		t.Errorf("found: got %+v, want nil", f.Report())
	} else if log.Len() > 0 {
		t.Errorf("log.Len(): got %d, want 0", log.Len())
	}
}
