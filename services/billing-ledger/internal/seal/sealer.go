package seal

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"svc.internal/pkg/clock"
)

// Barrier is a point in the order in which transactions got their numbers.
type Barrier uint64

// Store closes and seals days.
type Store interface {
	// DueDay is the earliest day that is not sealed, when it has been over for
	// so long by the database's clock; false when none is due.
	DueDay(ctx context.Context, after time.Duration) (time.Time, bool, error)
	// CloseDay lets nobody add to a day any more, and returns the barrier behind
	// which no transaction can.
	CloseDay(ctx context.Context, day time.Time) (Barrier, error)
	// Passed reports whether all transactions before a barrier have ended.
	Passed(ctx context.Context, b Barrier) (bool, error)
	// SealDay seals a closed day, or returns how it was sealed.
	SealDay(ctx context.Context, day time.Time) (Day, error)
}

// Sealer seals days when they are due. Several may run on one store.
type Sealer struct {
	Store Store
	// Interval is the pause between two looks, After how long a day must have been
	// over, Poll the pause between two looks whether a closed day is quiet.
	Interval, After, Poll time.Duration
	Log                   *slog.Logger
	// Still leaves out looks that would find nothing.
	Still *clock.Still
}

// Run seals what is due, now and at every interval until ctx ends. A failure is
// logged, and the next interval tries again.
func (s *Sealer) Run(ctx context.Context) {
	s.look(ctx)
	for range clock.EveryUnless(ctx, s.Interval, s.Still) {
		s.look(ctx)
	}
}

func (s *Sealer) look(ctx context.Context) {
	err := s.Due(ctx, func(d Day) error {
		s.Log.InfoContext(ctx, "day sealed", "day", d.Day.Format(time.DateOnly), "lines", d.Lines,
			"entries", d.Entries, "root", fmt.Sprintf("%x", d.Root))
		return nil
	})
	if s.Still.Learn(err) != nil && ctx.Err() == nil {
		s.Log.ErrorContext(ctx, "a day could not be sealed", "error", err)
	}
}

// Due seals every day that is due and shows each.
func (s *Sealer) Due(ctx context.Context, each func(Day) error) error {
	for {
		day, due, err := s.Store.DueDay(ctx, s.After)
		if err != nil {
			return fmt.Errorf("look for a day to seal: %w", err)
		}
		if !due {
			return nil
		}
		sealed, err := s.seal(ctx, day)
		if err != nil {
			return fmt.Errorf("seal %s: %w", day.Format(time.DateOnly), err)
		}
		if err := each(sealed); err != nil {
			return err
		}
	}
}

func (s *Sealer) seal(ctx context.Context, day time.Time) (Day, error) {
	barrier, err := s.Store.CloseDay(ctx, day)
	if err != nil {
		return Day{}, fmt.Errorf("close the day: %w", err)
	}
	for {
		passed, err := s.Store.Passed(ctx, barrier)
		if err != nil {
			return Day{}, fmt.Errorf("await transactions under way: %w", err)
		}
		if passed {
			return s.Store.SealDay(ctx, day)
		}
		if err := clock.Sleep(ctx, s.Poll); err != nil {
			return Day{}, err
		}
	}
}
