package presence

import (
	"slices"
	"sync/atomic"
)

// list has the seats of one model.
type list struct {
	seats atomic.Pointer[tiered]
	// at has the place of each record's seat. View.mu guards it.
	at map[*record]int
}

// tiered are the seats of one model: those of the first tier, and after them those of the
// second.
type tiered struct {
	all []*Seat
	// first counts the seats of the first tier.
	first int
}

// edit is a list that is being changed. Readers see its seats once it is published.
type edit struct {
	list  *list
	seats tiered
	dirty bool
}

// Seats returns the seats of a model: those of the first tier before the others, and in no
// other order. The caller must not change it.
func (v *View) Seats(model string) []*Seat { return v.tiers(model).all }

// Tier returns the seats that a model has in one tier, in no order. The caller must not
// change it.
func (v *View) Tier(model string, t Tier) []*Seat {
	seats := v.tiers(model)
	if t == FirstTier {
		return seats.all[:seats.first]
	}
	return seats.all[seats.first:]
}

func (v *View) tiers(model string) tiered {
	if l, ok := v.models.Load(model); ok {
		return *l.(*list).seats.Load()
	}
	return tiered{}
}

// add puts a seat at the end of its tier.
func (e *edit) add(seat *Seat) {
	at := len(e.seats.all)
	e.seats.all = append(e.seats.all, seat)
	e.list.at[seat.owner] = at
	if seat.Session.Tier() == FirstTier {
		e.swap(at, e.seats.first)
		e.seats.first++
	}
}

// remove takes out the seat at a place. The last seat of its tier moves into the gap.
func (e *edit) remove(at int) {
	if at < e.seats.first {
		e.seats.first--
		e.swap(at, e.seats.first)
		at = e.seats.first
	}
	last := len(e.seats.all) - 1
	e.swap(at, last)
	delete(e.list.at, e.seats.all[last].owner)
	e.seats.all[last] = nil
	e.seats.all = e.seats.all[:last]
}

func (e *edit) swap(i, j int) {
	all := e.seats.all
	all[i], all[j] = all[j], all[i]
	e.list.at[all[i].owner], e.list.at[all[j].owner] = i, j
}

// touchLocked notes that waiters for a model may find something new.
func (v *View) touchLocked(model string) *edit {
	e := v.touched[model]
	if e == nil {
		e = &edit{}
		v.touched[model] = e
	}
	return e
}

// openLocked prepares the list of a model for a change.
func (v *View) openLocked(model string) *edit {
	e := v.touchLocked(model)
	if e.dirty {
		return e
	}
	e.dirty = true
	if l, ok := v.models.Load(model); ok {
		e.list = l.(*list)
		e.seats = *e.list.seats.Load()
		e.seats.all = slices.Clone(e.seats.all)
	} else {
		e.list = &list{at: map[*record]int{}}
	}
	return e
}

// publishLocked makes the changes visible and returns the models that were touched.
func (v *View) publishLocked() []string {
	models := make([]string, 0, len(v.touched))
	for model, e := range v.touched {
		models = append(models, model)
		switch {
		case !e.dirty:
		case len(e.seats.all) == 0:
			v.models.Delete(model)
		default:
			e.list.seats.Store(&e.seats)
			v.models.Store(model, e.list)
		}
	}
	clear(v.touched)
	return models
}

// indexLocked puts the seats of a record into the lists.
func (v *View) indexLocked(rec *record) {
	for i := range rec.Value.session.Offers {
		o := &rec.Value.session.Offers[i]
		v.openLocked(o.Model).add(&Seat{
			Session: rec.Value.session, Offer: o, Hub: rec.Hub(), Address: rec.Value.address,
			Slots: rec.Value.slots[o.Model], owner: rec,
		})
	}
}

// unindexLocked takes the seats of a record out of the lists.
func (v *View) unindexLocked(rec *record) {
	for i := range rec.Value.session.Offers {
		e := v.openLocked(rec.Value.session.Offers[i].Model)
		e.remove(e.list.at[rec])
	}
}

// Find returns the seat of one session for one model, or nil.
func (v *View) Find(provider, node string, epoch int64, model string) *Seat {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, rec := range v.set.Of(nodeKey{provider, node}) {
		if rec.Value.session.Epoch != epoch {
			continue
		}
		if seat := v.seatOf(rec, model); seat != nil {
			return seat
		}
	}
	return nil
}

// Of returns the seats that these providers have for a model. It costs a look at each of
// their sessions, of which a hub lets a provider have 64.
func (v *View) Of(model string, providers ...string) []*Seat {
	v.mu.Lock()
	defer v.mu.Unlock()
	var seats []*Seat
	for i, p := range providers {
		if slices.Contains(providers[:i], p) {
			continue
		}
		for _, rec := range v.providers[p] {
			if seat := v.seatOf(rec, model); seat != nil {
				seats = append(seats, seat)
			}
		}
	}
	return seats
}

// By returns the seats that a provider has for any model.
func (v *View) By(provider string) []*Seat {
	v.mu.Lock()
	defer v.mu.Unlock()
	var seats []*Seat
	for _, rec := range v.providers[provider] {
		for i := range rec.Value.session.Offers {
			if seat := v.seatOf(rec, rec.Value.session.Offers[i].Model); seat != nil {
				seats = append(seats, seat)
			}
		}
	}
	return seats
}

// seatOf returns the seat of a record that serves, or nil.
func (v *View) seatOf(rec *record, model string) *Seat {
	if !rec.Serves() {
		return nil
	}
	l, ok := v.models.Load(model)
	if !ok {
		return nil
	}
	at, ok := l.(*list).at[rec]
	if !ok {
		return nil
	}
	return l.(*list).seats.Load().all[at]
}
