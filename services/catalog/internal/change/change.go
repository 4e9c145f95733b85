// Package change has an operator's change of a model wait for the moment from which it holds.
//
// An operator writes the whole entry now. It is checked now, as of the moment, by the rules of
// package entry and by the constraints of the database, and it keeps the model as it stood: its
// base. At the moment any of the catalogs applies the change, in one transaction with the model, so
// that no change is applied twice. It is checked again then. A change whose base is no longer the
// model, or that cannot stand any more, is refused with a reason, and the model stays as it is. A
// change of the model by an operator refuses the change that waits at once.
//
// One change of a model waits at a time, and at most 1,000 in all. The moment is at least a minute
// and at most 90 days ahead. While a catalog runs, a change is in force at most Interval after its
// moment, and the transactions of the changes that are due with it, which are applied one after the
// other. When no catalog ran at the moment, it is applied when one begins to.
package change

import (
	"fmt"
	"strings"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/catalog/internal/entry"
	"svc.internal/services/catalog/internal/price"
)

// The bounds of changes.
const (
	// MinAhead and MaxAhead bound how far ahead the moment of a change is.
	MinAhead = time.Minute
	MaxAhead = 90 * 24 * time.Hour
	// MaxWaiting bounds how many changes wait, of all models.
	MaxWaiting = 1000
	// MaxListed bounds a list of a model's changes.
	MaxListed = 50
)

// prompt is how late a change is applied that still counts as applied at its moment. Rules on time,
// such as the notice of a model that goes away, count from the moment then, because the operator
// could not foresee the seconds until then.
const prompt = time.Minute

// Change is a change of a model that an operator wrote ahead.
type Change struct {
	ID    ids.ChangeID
	State State
	// From is the moment from which the change holds.
	From time.Time
	// Draft and Rates are what the model is to be, in full.
	Draft entry.Draft
	Rates money.Rates
	// Base is the model as it stood when the change was written.
	Base entry.Model
	// ScheduledBy is the actor who wrote the change (package actor).
	ScheduledBy string
	ScheduledAt time.Time
	// EndedBy is the actor who ended the change; empty where the catalog did.
	EndedBy string
	EndedAt time.Time
	// Reason is why the change was refused; else empty.
	Reason string
	// Price is the version in force once the change was applied.
	Price ids.PriceVersionID
}

// Waiting reports whether the change is still to be applied.
func (c Change) Waiting() bool { return c.State == Scheduled }

// same reports whether other is what an operator gets who writes c once more.
func (c Change) same(other Change) bool {
	return c.From.Equal(other.From) && c.Draft.Equal(other.Draft) && c.Rates == other.Rates && c.Base.Same(other.Base)
}

// on returns the model that the change makes of current, at now. A price that differs becomes the
// version id. It fails where the change cannot stand.
func (c Change) on(current *entry.Model, now time.Time, id ids.PriceVersionID) (entry.Model, error) {
	if current == nil {
		return entry.Model{}, fault.New(fault.NotFound, fault.ModelNotFound, "the model does not exist").On("model_id")
	}
	if err := price.Check(c.Rates); err != nil {
		return entry.Model{}, err
	}
	if now.Sub(c.From) <= prompt {
		now = c.From
	}
	return c.Draft.Next(current, c.Rates, now, id)
}

// Decide returns what becomes of a change at now: the model that it makes of current, where it is
// applied, and the change as it has ended.
func (c Change) Decide(current *entry.Model, now time.Time, id ids.PriceVersionID) (Change, entry.Model, error) {
	if current != nil && !c.Base.Same(*current) {
		refused, err := c.refuse(overtaken(c.Base, *current), now)
		return refused, entry.Model{}, err
	}
	next, err := c.on(current, now, id)
	if f, ok := fault.As(err); ok {
		refused, err := c.refuse(f.Message, now)
		return refused, entry.Model{}, err
	}
	if err != nil {
		return Change{}, entry.Model{}, err
	}
	applied, err := c.end(Apply, now)
	applied.Price = next.Price.ID
	return applied, next, err
}

// Overtake returns a change that waits as it is once before became after, at now.
func (c Change) Overtake(before, after entry.Model, now time.Time) (Change, error) {
	return c.refuse(overtaken(before, after), now)
}

// Refuse returns the change as it is refused, at now, for what the store says of it.
func (c Change) Refuse(f *fault.Fault, now time.Time) (Change, error) {
	return c.refuse(f.Message, now)
}

// Cancel returns the change as an operator withdraws it, at now. A change that was withdrawn stays
// as it is. It fails with transition_not_allowed where the change was applied or refused.
func (c Change) Cancel(now time.Time) (Change, error) {
	if c.State == Cancelled {
		return c, nil
	}
	return c.end(Cancel, now)
}

func (c Change) refuse(reason string, now time.Time) (Change, error) {
	refused, err := c.end(Refuse, now)
	refused.Reason, refused.Price = clip(reason), ids.PriceVersionID{}
	return refused, err
}

func (c Change) end(t Trigger, now time.Time) (Change, error) {
	state, err := c.State.after(t)
	if err != nil {
		return c, err
	}
	c.State, c.EndedAt = state, now
	return c, nil
}

// maxReasonBytes bounds a reason.
const maxReasonBytes = 512

func clip(reason string) string {
	return strings.ToValidUTF8(reason[:min(len(reason), maxReasonBytes)], "")
}

// overtaken is the reason of a change whose model was changed before.
func overtaken(before, after entry.Model) string {
	fields := entry.Differences(before, after)
	if len(fields) == 0 {
		// The prices were changed and changed back.
		return "the model was changed before the moment came"
	}
	return fmt.Sprintf("the model was changed before the moment came: %s", strings.Join(fields, ", "))
}
