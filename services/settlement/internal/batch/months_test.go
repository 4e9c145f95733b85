package batch_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"svc.internal/pkg/ids"
	"svc.internal/services/settlement/internal/batch"
)

// monthStore has two months that are due, and late earnings of an earlier one.
type monthStore struct {
	batch.PlanStore
	kept int
}

func (*monthStore) DueMonths(context.Context) ([]string, error) {
	return []string{"2026-02", "2026-03"}, nil
}

func (*monthStore) DueLate(context.Context, int) ([]batch.Late, error) {
	return []batch.Late{{Month: "2026-01", Amount: 5}}, nil
}

func (*monthStore) DueReleases(context.Context, int) ([]batch.Release, error) { return nil, nil }

func (s *monthStore) KeepLate(context.Context, batch.Late, ids.EntryID) error {
	s.kept++
	return nil
}

var errMonth = errors.New("the month cannot be read")

// monthLedger fails to say what became of a month.
type monthLedger struct{ batch.PlanLedger }

func (monthLedger) ClosedMonth(context.Context, string) (batch.ClosedMonth, error) {
	return batch.ClosedMonth{}, errMonth
}

func (monthLedger) PostLate(context.Context, batch.Late) (ids.EntryID, error) {
	return ids.EntryID{1}, nil
}

func TestAMonthThatFailsKeepsNothingOfClosedOnesWaiting(t *testing.T) {
	t.Parallel()
	s := &monthStore{}
	months := batch.Months{Store: s, Ledger: monthLedger{}, Log: slog.New(slog.DiscardHandler)}
	waiting, err := months.Pass(t.Context())
	if !errors.Is(err, errMonth) {
		t.Errorf("got the error %v, want %v", err, errMonth)
	}
	if waiting != 2 {
		t.Errorf("got %d months that wait, want both", waiting)
	}
	if s.kept != 1 {
		t.Errorf("late earnings of a closed month: posted %d times, want once", s.kept)
	}
}
