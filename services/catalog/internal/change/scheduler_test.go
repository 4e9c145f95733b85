package change

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/services/catalog/internal/entry"
)

// stuck is a Store with changes that cannot be decided.
type stuck struct {
	Store
	due []ids.ChangeID
}

func (s stuck) Due(context.Context, time.Time, int) ([]ids.ChangeID, error) { return s.due, nil }

func (s stuck) Apply(context.Context, ids.ChangeID, time.Time,
	func(Change, *entry.Model) (Change, entry.Model, error)) (Change, error) {
	return Change{}, errors.New("the row cannot be read")
}

// A change that cannot be decided stays due, and each look comes to it again.
func TestAChangeThatCannotBeDecidedIsLoggedOnce(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	s := Scheduler{Store: stuck{due: []ids.ChangeID{{1}, {2}}}, Clock: clock.System, Random: rand.Reader,
		Log: slog.New(slog.NewTextHandler(&log, nil))}
	for range 5 {
		if err := s.ApplyDue(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Count(log.String(), "could not be decided"); got != 2 {
		t.Errorf("logged: got %d, want one for each of the 2 changes, in %s", got, log.String())
	}
}
