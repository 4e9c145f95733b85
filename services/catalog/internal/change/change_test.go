package change

import (
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/catalog/internal/entry"
)

var (
	noon  = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	rates = money.Rates{Input: 2, PayoutInput: 1}
	// old and fresh are ids of price versions.
	old, fresh = ids.PriceVersionID{1}, ids.PriceVersionID{2}
)

// model is a model of the catalog.
func model(t *testing.T, of money.Rates) entry.Model {
	t.Helper()
	m, err := entry.Draft{ID: "m", ContextTokens: 8192, Active: true}.Next(nil, of, noon.Add(-time.Hour), old)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// asked is a change that doubles the price of a model an hour from noon on.
func asked(t *testing.T) (Change, entry.Model) {
	t.Helper()
	current := model(t, rates)
	return Change{ID: ids.ChangeID{1}, State: Scheduled, From: noon.Add(time.Hour), Draft: current.Draft,
		Rates: money.Rates{Input: 4, PayoutInput: 2}, ScheduledAt: noon}, current
}

// waiting is that change once it waits.
func waiting(t *testing.T) (Change, entry.Model) {
	t.Helper()
	c, current := asked(t)
	c, _, err := c.await(&current, nil, fresh)
	if err != nil {
		t.Fatal(err)
	}
	return c, current
}

func TestEachStateFollowsItsTriggersAlone(t *testing.T) {
	t.Parallel()
	follows := map[State]map[Trigger]State{
		Scheduled: {Apply: Applied, Cancel: Cancelled, Refuse: Refused},
	}
	states := []State{Scheduled, Applied, Cancelled, Refused}
	if len(moves) != len(states) {
		t.Errorf("states in the table: got %d, want %d", len(moves), len(states))
	}
	for _, s := range states {
		for _, trigger := range []Trigger{Apply, Cancel, Refuse} {
			got, err := s.after(trigger)
			want, ok := follows[s][trigger]
			switch {
			case ok && err != nil:
				t.Errorf("%s, %s: got the error %v, want none", s, trigger, err)
			case ok && got != want:
				t.Errorf("%s, %s: got %s, want %s", s, trigger, got, want)
			case !ok && !fault.Is(err, fault.TransitionNotAllowed):
				t.Errorf("%s, %s: got the error %v, want %s", s, trigger, err, fault.TransitionNotAllowed)
			case !ok && got != s:
				t.Errorf("%s, %s: got %s, want it to stay", s, trigger, got)
			}
		}
	}
}

func TestTheMomentIsAMinuteToNinetyDaysAhead(t *testing.T) {
	t.Parallel()
	for ahead, good := range map[time.Duration]bool{
		-time.Hour: false, 0: false, MinAhead - time.Microsecond: false, MinAhead: true, MaxAhead: true,
		MaxAhead + time.Microsecond: false,
	} {
		c, current := asked(t)
		c.From = noon.Add(ahead)
		_, _, err := c.await(&current, nil, fresh)
		switch f, ok := fault.As(err); {
		case good && err != nil:
			t.Errorf("%s ahead: got the error %v, want none", ahead, err)
		case !good && !ok:
			t.Errorf("%s ahead: got the error %v, want a fault", ahead, err)
		case !good && f.Param != "effective_from":
			t.Errorf("%s ahead: got a fault of %q, want of effective_from", ahead, f.Param)
		}
	}
}

func TestAnEntryThatCannotStandIsRefusedWhenItIsWritten(t *testing.T) {
	t.Parallel()
	for field, spoil := range map[string]func(*Change){
		"entry":              func(c *Change) { c.Rates = rates },
		"payout_input_price": func(c *Change) { c.Rates.PayoutInput = 5 },
		"tier":               func(c *Change) { c.Draft.Tier = "gold" },
		"kind":               func(c *Change) { c.Draft.Kind, c.Draft.Tier = entry.Gateway, entry.Premium },
		// Notice counts from the moment, and not from now.
		"deprecated_at": func(c *Change) { c.Draft.DeprecatedAt = c.ScheduledAt.Add(entry.Notice) },
	} {
		c, current := asked(t)
		spoil(&c)
		_, _, err := c.await(&current, nil, fresh)
		if f, ok := fault.As(err); !ok {
			t.Errorf("a bad %s: got the error %v, want a fault", field, err)
		} else if f.Param != field {
			t.Errorf("a bad %s: got a fault of %q, want of it", field, f.Param)
		}
	}
	c, _ := asked(t)
	if _, _, err := c.await(nil, nil, fresh); !fault.Is(err, fault.ModelNotFound) {
		t.Errorf("no such model: got the error %v, want %s", err, fault.ModelNotFound)
	}
}

func TestOneChangeWaitsAndTheSameAgainIsThatChange(t *testing.T) {
	t.Parallel()
	first, current := waiting(t)
	again, _ := asked(t)
	again.ID = ids.ChangeID{2}
	// Also when the moment has come so near that another change could not be written.
	again.ScheduledAt = again.From.Add(-time.Second)
	if got, _, err := again.await(&current, &first, fresh); err != nil {
		t.Errorf("the same again: got the error %v, want none", err)
	} else if got.ID != first.ID {
		t.Errorf("the same again: got the change %s, want %s", got.ID, first.ID)
	}
	other, _ := asked(t)
	other.From = other.From.Add(time.Hour)
	if _, _, err := other.await(&current, &first, fresh); !fault.Is(err, fault.AlreadyExists) {
		t.Errorf("another change: got the error %v, want %s", err, fault.AlreadyExists)
	}
}

func TestADueChangeOfTheSameModelIsApplied(t *testing.T) {
	t.Parallel()
	c, current := waiting(t)
	done, next, err := c.Decide(&current, c.From.Add(time.Second), fresh)
	switch {
	case err != nil:
		t.Fatalf("got the error %v, want none", err)
	case done.State != Applied:
		t.Errorf("state: got %s (%s), want %s", done.State, done.Reason, Applied)
	case done.Price != fresh:
		t.Errorf("price version: got %s, want %s", done.Price, fresh)
	case !done.EndedAt.Equal(c.From.Add(time.Second)):
		t.Errorf("ended at: got %v, want a second after the moment", done.EndedAt)
	case next.Price.Rates != c.Rates:
		t.Errorf("rates: got %+v, want %+v", next.Price.Rates, c.Rates)
	case !next.Price.ValidFrom.Equal(c.From):
		t.Errorf("valid from: got %v, want the moment %v", next.Price.ValidFrom, c.From)
	}
}

func TestAPriceThatIsAppliedLateIsNotValidBefore(t *testing.T) {
	t.Parallel()
	c, current := waiting(t)
	now := c.From.Add(prompt + time.Microsecond)
	_, next, err := c.Decide(&current, now, fresh)
	if err != nil {
		t.Fatal(err)
	}
	if !next.Price.ValidFrom.Equal(now) {
		t.Errorf("valid from: got %v, want %v", next.Price.ValidFrom, now)
	}
}

func TestAChangeOfAModelThatIsAnotherByThenIsRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		alter func(*entry.Model)
		says  string
	}{
		"another name":     {func(m *entry.Model) { m.Name = "another" }, ": name"},
		"out of service":   {func(m *entry.Model) { m.Active = false }, ": active"},
		"another price":    {func(m *entry.Model) { m.Price.ID, m.Price.Rates.Input = fresh, 3 }, ": input_price"},
		"a price and back": {func(m *entry.Model) { m.Price.ID = fresh }, "before the moment came"},
	} {
		c, current := waiting(t)
		tc.alter(&current)
		done, _, err := c.Decide(&current, c.From, fresh)
		switch {
		case err != nil:
			t.Errorf("%s: got the error %v, want none", name, err)
		case done.State != Refused:
			t.Errorf("%s: got %s, want %s", name, done.State, Refused)
		case !strings.HasSuffix(done.Reason, tc.says):
			t.Errorf("%s: got the reason %q, want it to end in %q", name, done.Reason, tc.says)
		case !done.Price.IsZero():
			t.Errorf("%s: got the price version %s, want none", name, done.Price)
		}
	}
}

// A catalog that was away for days must not take a model away with less notice than consumers have.
func TestAnAnnouncementThatIsAppliedTooLateIsRefused(t *testing.T) {
	t.Parallel()
	c, current := asked(t)
	c.Draft.DeprecatedAt = c.From.Add(entry.Notice)
	c, _, err := c.await(&current, nil, fresh)
	if err != nil {
		t.Fatal(err)
	}
	for late, want := range map[time.Duration]State{0: Applied, prompt: Applied, prompt + time.Second: Refused} {
		if done, _, err := c.Decide(&current, c.From.Add(late), fresh); err != nil {
			t.Errorf("%s late: got the error %v, want none", late, err)
		} else if done.State != want {
			t.Errorf("%s late: got %s (%s), want %s", late, done.State, done.Reason, want)
		}
	}
}

func TestAnEndedChangeEndsNoOtherWay(t *testing.T) {
	t.Parallel()
	c, current := waiting(t)
	cancelled, err := c.Cancel(noon)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := cancelled.Cancel(noon.Add(time.Hour)); err != nil {
		t.Errorf("cancelled twice: got the error %v, want none", err)
	} else if !again.EndedAt.Equal(noon) {
		t.Errorf("cancelled twice: got the end %v, want the first, %v", again.EndedAt, noon)
	}
	if _, _, err := cancelled.Decide(&current, c.From, fresh); !fault.Is(err, fault.TransitionNotAllowed) {
		t.Errorf("applied when cancelled: got the error %v, want %s", err, fault.TransitionNotAllowed)
	}
	applied, _, err := c.Decide(&current, c.From, fresh)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := applied.Cancel(noon); !fault.Is(err, fault.TransitionNotAllowed) {
		t.Errorf("cancelled when applied: got the error %v, want %s", err, fault.TransitionNotAllowed)
	}
}

func TestAReasonFitsItsColumn(t *testing.T) {
	t.Parallel()
	c, _ := waiting(t)
	long := fault.New(fault.Invalid, fault.InvalidValue, "x%s", strings.Repeat("ü", maxReasonBytes))
	refused, err := c.Refuse(long, noon)
	switch {
	case err != nil:
		t.Errorf("got the error %v, want none", err)
	case len(refused.Reason) > maxReasonBytes:
		t.Errorf("got %d bytes, want at most %d", len(refused.Reason), maxReasonBytes)
	case !strings.HasSuffix(refused.Reason, "ü"):
		t.Errorf("got the end %q, want a whole character", refused.Reason[len(refused.Reason)-2:])
	}
}
