package memory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/payout"
	"svc.internal/services/settlement/internal/sending"
)

// Payouts is the database as payout.Store.
type Payouts struct{ *DB }

func missing() error {
	return fault.New(fault.NotFound, payout.NotFound, "no such payout").On("payout_id")
}

// known returns what was made under an operation's key.
func (d *DB) known(kind string, op payout.Operation) (payout.ID, bool, error) {
	first, ok := d.operations[kind+op.ProviderID.String()+op.Key]
	if ok && first.digest != op.Digest {
		return payout.ID{}, false, fault.New(fault.Precondition, fault.IdempotencyKeyReused,
			"the Idempotency-Key stands for another request").On("Idempotency-Key")
	}
	return first.id, ok, nil
}

func (d *DB) remember(kind string, op payout.Operation, id payout.ID) {
	d.operations[kind+op.ProviderID.String()+op.Key] = operation{op.Digest, id}
}

// Now implements payout.Store.
func (d Payouts) Now(context.Context) (time.Time, error) { return d.DB.Now(), nil }

// Known implements payout.Store.
func (d Payouts) Known(ctx context.Context, op payout.Operation) (payout.Payout, bool, error) {
	id, ok, err := d.known("payout", op)
	if err != nil || !ok {
		return payout.Payout{}, false, err
	}
	p, err := d.Get(ctx, id)
	return p, err == nil, err
}

// Insert implements payout.Store.
func (d Payouts) Insert(
	ctx context.Context, draft payout.Draft, op payout.Operation, may func(chain.ID) error,
) (payout.Payout, bool, error) {
	if p, ok, err := d.Known(ctx, op); ok || err != nil {
		return p, false, err
	}
	draft.Chain = d.Settles
	if err := may(draft.Chain); err != nil {
		return payout.Payout{}, false, err
	}
	for _, id := range d.asked {
		p := d.payouts[id]
		wait := p.RequestedAt.Add(payout.Every).Sub(d.DB.Now())
		switch {
		case p.ProviderID != draft.ProviderID:
		case !p.State.Final():
			return payout.Payout{}, false, fault.New(fault.Conflict, fault.PayoutPending, "the provider has a payout")
		case p.Chain == draft.Chain && wait > 0:
			return payout.Payout{}, false, fault.New(fault.Conflict, fault.PayoutTooFrequent, "one an hour").After(wait)
		}
	}
	p := payout.Payout{Draft: draft, State: payout.Requested, Revision: 1, RequestedAt: d.DB.Now(), ChangedAt: d.DB.Now()}
	d.payouts[p.ID] = p
	d.asked = append(d.asked, p.ID)
	d.remember("payout", op, p.ID)
	return p, true, nil
}

// Get implements payout.Store.
func (d Payouts) Get(_ context.Context, id payout.ID) (payout.Payout, error) {
	p, ok := d.payouts[id]
	if !ok {
		return payout.Payout{}, missing()
	}
	p.Consents = slices.Clone(p.Consents)
	if s, ok := d.calls[d.refs[payout.Purpose+" "+id.String()]]; ok {
		if last, signed := s.Last(); signed {
			p.Transaction = last.Hash
		}
		if s.End != nil {
			p.Transaction = s.End.Transaction
		}
	}
	return p, nil
}

// Change implements payout.Store.
func (d Payouts) Change(
	ctx context.Context, id payout.ID, apply func(*payout.Payout) (payout.Step, error),
) (payout.Payout, error) {
	p, err := d.Get(ctx, id)
	if err != nil {
		return payout.Payout{}, err
	}
	was := p
	step, err := apply(&p)
	if err != nil {
		return payout.Payout{}, err
	}
	if step.Cause == "" {
		return was, nil
	}
	if err := d.fits(was, p); err != nil {
		return payout.Payout{}, err
	}
	day := d.DB.Now().UTC().Format(time.DateOnly)
	if step.DayCap > 0 && d.days[day]+p.Gross > step.DayCap {
		return payout.Payout{}, payout.ErrDayFull
	}
	if step.Call != nil {
		if _, err := d.Enqueue(*step.Call); err != nil {
			return payout.Payout{}, err
		}
	}
	if step.DayCap > 0 {
		d.days[day] += p.Gross
		d.counted[id] = day
	}
	if day, ok := d.counted[id]; ok && step.Unpaid {
		d.days[day] -= p.Gross
	}
	p.ChangedAt = d.DB.Now()
	if step.Consents {
		p.Consents[len(p.Consents)-1].At = p.ChangedAt
	}
	d.payouts[id] = p
	return d.Get(ctx, id)
}

var errRefused = errors.New("the database refuses the change")

// fits refuses what the triggers of the tables refuse.
func (d Payouts) fits(was, is payout.Payout) error {
	s := d.calls[d.refs[payout.Purpose+" "+is.ID.String()]]
	_, called := d.refs[payout.Purpose+" "+is.ID.String()]
	ended := func(outcomes ...sending.Outcome) bool {
		return s.End != nil && slices.Contains(outcomes, s.End.Outcome)
	}
	switch {
	case was.State.Final(), is.Revision != was.Revision+1:
		return errRefused
	case is.State == payout.Submitted && len(s.Signed) == 0,
		is.State == payout.Confirmed && !ended(sending.Succeeded),
		is.State == payout.Failed && called && !ended(sending.Reverted, sending.Cancelled),
		is.State == payout.Cancelled && called:
		return fmt.Errorf("%s to %s: %w", was.State, is.State, errRefused)
	}
	return nil
}

// CancelCall implements payout.Store.
func (d Payouts) CancelCall(_ context.Context, id payout.ID, _, _ string) error {
	at, ok := d.refs[payout.Purpose+" "+id.String()]
	if !ok {
		return missing()
	}
	d.cancel(at)
	return nil
}

// Note implements payout.Store.
func (d Payouts) Note(_ context.Context, id payout.ID, waiting, screened string) error {
	p, ok := d.payouts[id]
	if ok && !p.State.Final() {
		p.Waiting, p.Screened = waiting, screened
		d.payouts[id] = p
	}
	d.looked[id] = d.DB.Now()
	return nil
}

// Call implements payout.Store.
func (d Payouts) Call(ctx context.Context, id payout.ID) (sending.Status, bool, error) {
	return d.DB.Call(ctx, payout.Purpose, id.String())
}

// InFlight implements payout.Store.
func (d Payouts) InFlight(_ context.Context, id chain.ID) (chain.Amount, error) {
	var sum chain.Amount
	for _, p := range d.payouts {
		if s := d.calls[d.refs[payout.Purpose+" "+p.ID.String()]]; p.Chain == id && !p.State.Final() && s.End == nil {
			sum, _ = sum.Add(p.Amount)
		}
	}
	return sum, nil
}

// Open implements payout.Store.
func (d Payouts) Open(_ context.Context, limit int) ([]payout.ID, error) {
	var list []payout.ID
	for _, id := range d.asked {
		if !d.payouts[id].State.Final() {
			list = append(list, id)
		}
	}
	slices.SortStableFunc(list, func(a, b payout.ID) int { return d.looked[a].Compare(d.looked[b]) })
	return list[:min(limit, len(list))], nil
}

// Backlog implements payout.Store.
func (d Payouts) Backlog(context.Context) (payout.Backlog, error) {
	b := payout.Backlog{Open: map[payout.State]int{}, Waiting: map[string]int{}}
	for _, p := range d.payouts {
		if p.State.Final() {
			continue
		}
		b.Open[p.State]++
		if p.Waiting != "" {
			b.Waiting[p.Waiting]++
		}
	}
	for _, c := range d.conversions {
		if c.Entry.IsZero() && c.Refusal == "" && c.Tries >= payout.StuckConversion {
			b.StuckConversions++
		}
	}
	return b, nil
}

// OfProvider implements payout.Store.
func (d Payouts) OfProvider(
	ctx context.Context, id ids.ProviderID, offset, limit int,
) ([]payout.Payout, int, error) {
	return d.list(ctx, offset, limit, func(p payout.Payout) bool { return p.ProviderID == id })
}

// InState implements payout.Store.
func (d Payouts) InState(
	ctx context.Context, state payout.State, offset, limit int,
) ([]payout.Payout, int, error) {
	return d.list(ctx, offset, limit, func(p payout.Payout) bool { return state == "" || p.State == state })
}

func (d Payouts) list(
	ctx context.Context, offset, limit int, take func(payout.Payout) bool,
) ([]payout.Payout, int, error) {
	var list []payout.Payout
	for _, id := range slices.Backward(d.asked) {
		if p, err := d.Get(ctx, id); err == nil && take(p) {
			list = append(list, p)
		}
	}
	from := min(offset, len(list))
	return list[from:min(from+limit, len(list))], len(list), nil
}

// KnownConversion implements payout.Store.
func (d Payouts) KnownConversion(_ context.Context, op payout.Operation) (payout.Conversion, bool, error) {
	id, ok, err := d.known("convert", op)
	return d.conversions[id], ok, err
}

// recent counts the conversions of a provider within payout.Every.
func (d Payouts) recent(provider ids.ProviderID) (n int) {
	for _, id := range d.converted {
		if c := d.conversions[id]; c.ProviderID == provider && d.DB.Now().Sub(c.RequestedAt) < payout.Every {
			n++
		}
	}
	return n
}

// InsertConversion implements payout.Store.
func (d Payouts) InsertConversion(
	_ context.Context, c payout.Conversion, op payout.Operation,
) (payout.Conversion, error) {
	id, ok, err := d.known("convert", op)
	if err != nil {
		return payout.Conversion{}, err
	}
	if !ok && d.recent(c.ProviderID) >= payout.MaxConversions {
		return payout.Conversion{}, payout.TooManyConversions()
	}
	if !ok {
		id, c.RequestedAt, c.DueAt = c.ID, d.DB.Now(), d.DB.Now()
		d.conversions[id] = c
		d.converted = append(d.converted, id)
		d.remember("convert", op, id)
	}
	return d.conversions[id], nil
}

// Conversions implements payout.Store.
func (d Payouts) Conversions(_ context.Context, limit int) ([]payout.Conversion, error) {
	var list []payout.Conversion
	for _, id := range d.converted {
		if c := d.conversions[id]; c.Entry.IsZero() && c.Refusal == "" && !c.DueAt.After(d.DB.Now()) {
			list = append(list, c)
		}
	}
	slices.SortStableFunc(list, func(a, b payout.Conversion) int { return a.DueAt.Compare(b.DueAt) })
	return list[:min(len(list), limit)], nil
}

// DelayConversion implements payout.Store.
func (d Payouts) DelayConversion(_ context.Context, c payout.Conversion, pause time.Duration) error {
	if now, ok := d.conversions[c.ID]; ok && now.Entry.IsZero() && now.Refusal == "" && now.Tries == c.Tries {
		now.Tries, now.DueAt = now.Tries+1, d.DB.Now().Add(pause)
		d.conversions[c.ID] = now
	}
	return nil
}

// EndConversion implements payout.Store.
func (d Payouts) EndConversion(_ context.Context, c payout.Conversion) (payout.Conversion, error) {
	first, ok := d.conversions[c.ID]
	switch {
	case !ok:
		return payout.Conversion{}, missing()
	case first.Entry.IsZero() && first.Refusal == "":
		first.Entry, first.Refusal = c.Entry, c.Refusal
		d.conversions[c.ID] = first
	}
	return d.conversions[c.ID], nil
}

// NextAt implements payout.Store.
func (d Payouts) NextAt(_ context.Context, id ids.ProviderID) (time.Time, error) {
	var next time.Time
	for _, asked := range d.asked {
		p := d.payouts[asked]
		if ends := p.RequestedAt.Add(payout.Every); p.ProviderID == id && p.Chain == d.Settles && ends.After(d.DB.Now()) {
			next = ends
		}
	}
	return next, nil
}
