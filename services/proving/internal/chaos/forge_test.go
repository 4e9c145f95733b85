package chaos

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestADatabaseThatRestartsIsAskedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		err := insist(t.Context(), func(context.Context) error {
			if asked++; asked < 3 {
				return errors.New("connection refused")
			}
			return nil
		})
		if err != nil {
			t.Errorf("a third answer: got the error %v, want none", err)
		}
	})
}

func TestAnErrorOfWhatWasAskedIsToldOnceTimeIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		refused := errors.New("connection refused")
		err := insist(ctx, func(context.Context) error { return refused })
		if !errors.Is(err, refused) {
			t.Errorf("got the error %v, want %v in it", err, refused)
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got the error %v, want %v in it", err, context.DeadlineExceeded)
		}
	})
}
