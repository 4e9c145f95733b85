// Package memory keeps calls and payouts as package store does, with the same rules, and in memory. The simulator of
// payouts runs the real domain code on it, takes copies of it and goes back to them. One test holds it and PostgreSQL
// to the same cases.
//
// It is not safe for concurrent use. Each of its methods is one transaction.
package memory

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/payout"
	"svc.internal/services/settlement/internal/sending"
)

// DB is the database.
type DB struct {
	// Now is its clock.
	Now func() time.Time
	// Settles is the settlement chain of every provider.
	Settles chain.ID
	// SharedNonces plants a fault: a call takes the nonce that chain and signer know of, whatever the database has given.
	SharedNonces bool

	rows
}

// rows are what a copy has.
type rows struct {
	senders map[sending.Place]uint64 // by chain and address, with nonce 0
	keys    map[sending.Place]sending.Key
	calls   map[sending.Place]sending.Status
	order   []sending.Place // as they were added
	refs    map[string]sending.Place
	hashes  map[chain.Hash]bool
	ended   map[sending.Place]time.Time
	gas     map[sending.Place]sending.Spent
	posted  map[sending.Place]ids.EntryID
	halts   map[chain.ID][]sending.Halt
	lifted  map[chain.ID][]sending.Halt

	payouts     map[payout.ID]payout.Payout
	asked       []payout.ID
	looked      map[payout.ID]time.Time
	operations  map[string]operation
	days        map[string]money.NanoUSD
	counted     map[payout.ID]string // the day among whose payouts it was counted
	conversions map[payout.ID]payout.Conversion
	converted   []payout.ID
}

type operation struct {
	digest [32]byte
	id     payout.ID
}

// New makes an empty database.
func New(now func() time.Time, settles chain.ID) *DB {
	return &DB{Now: now, Settles: settles, rows: rows{
		senders: map[sending.Place]uint64{}, keys: map[sending.Place]sending.Key{},
		calls: map[sending.Place]sending.Status{}, refs: map[string]sending.Place{}, hashes: map[chain.Hash]bool{},
		ended: map[sending.Place]time.Time{}, gas: map[sending.Place]sending.Spent{},
		posted: map[sending.Place]ids.EntryID{}, halts: map[chain.ID][]sending.Halt{}, lifted: map[chain.ID][]sending.Halt{},
		payouts: map[payout.ID]payout.Payout{}, looked: map[payout.ID]time.Time{}, operations: map[string]operation{},
		days: map[string]money.NanoUSD{}, counted: map[payout.ID]string{}, conversions: map[payout.ID]payout.Conversion{},
	}}
}

// Copy is the content of a database at a moment.
type Copy struct{ rows }

// Copy returns a copy.
func (d *DB) Copy() Copy { return Copy{d.clone()} }

// Restore goes back to a copy.
func (d *DB) Restore(c Copy) { d.rows = c.clone() }

func (r rows) clone() rows {
	calls := make(map[sending.Place]sending.Status, len(r.calls))
	for at, s := range r.calls {
		s.Signed = slices.Clone(s.Signed)
		calls[at] = s
	}
	return rows{
		senders: maps.Clone(r.senders), keys: maps.Clone(r.keys), calls: calls, order: slices.Clone(r.order),
		refs: maps.Clone(r.refs), hashes: maps.Clone(r.hashes), ended: maps.Clone(r.ended), gas: maps.Clone(r.gas),
		posted: maps.Clone(r.posted), halts: maps.Clone(r.halts), lifted: maps.Clone(r.lifted),
		payouts: maps.Clone(r.payouts),
		asked:   slices.Clone(r.asked), looked: maps.Clone(r.looked), operations: maps.Clone(r.operations),
		days: maps.Clone(r.days), counted: maps.Clone(r.counted), conversions: maps.Clone(r.conversions),
		converted: slices.Clone(r.converted),
	}
}

// row is the place of a sender's row.
func row(id chain.ID, sender chain.Address) sending.Place {
	return sending.Place{Chain: id, Sender: sender}
}

// Next implements sending.Store.
func (d *DB) Next(_ context.Context, id chain.ID, sender chain.Address, key sending.Key) (uint64, error) {
	at := row(id, sender)
	if _, ok := d.keys[at]; !ok {
		d.keys[at] = key
	}
	return d.senders[at], nil
}

// Enqueue gives a prepared request the next nonce of its sender.
func (d *DB) Enqueue(p sending.Prepared) (sending.Call, error) {
	at := row(p.Chain, p.Sender)
	next := d.senders[at]
	if _, known := d.keys[at]; !known {
		return sending.Call{}, sending.ErrHalted
	}
	if first, ok := d.refs[p.Purpose+" "+p.Ref]; ok {
		c := d.calls[first].Call
		if !p.At(c.Nonce).SameContent(c) {
			return sending.Call{}, fmt.Errorf("%s %s has a call with another content", p.Purpose, p.Ref)
		}
		return c, nil
	}
	switch {
	case d.halted(p.Chain) || next < p.Next:
		return sending.Call{}, sending.ErrHalted
	case len(d.halts[p.Chain]) > 0 && p.Purpose == sending.PurposePayout:
		return sending.Call{}, sending.ErrReserves
	case next-d.firstUnmined(p) >= sending.MaxUnmined:
		return sending.Call{}, sending.ErrBusy
	}
	if d.SharedNonces {
		next = p.Next
	}
	c := p.At(next)
	c.Key = d.keys[at]
	d.calls[c.Place()] = sending.Status{Call: c}
	d.order = append(d.order, c.Place())
	d.refs[p.Purpose+" "+p.Ref] = c.Place()
	d.senders[at] = next + 1
	return c, nil
}

// firstUnmined is the nonce behind the last that has ended.
func (d *DB) firstUnmined(p sending.Prepared) uint64 {
	first := uint64(0)
	for at := range d.ended {
		if at.Chain == p.Chain && at.Sender == p.Sender {
			first = max(first, at.Nonce+1)
		}
	}
	return first
}

// Halt implements sending.Store.
func (d *DB) Halt(_ context.Context, id chain.ID, cause sending.Cause, detail string) error {
	for _, h := range d.halts[id] {
		if h.Cause == cause {
			return nil
		}
	}
	d.halts[id] = append(slices.Clone(d.halts[id]), sending.Halt{Chain: id, Cause: cause, Detail: detail, Since: d.Now()})
	return nil
}

// Halted implements sending.Store.
func (d *DB) Halted(_ context.Context, id chain.ID) (bool, error) { return d.halted(id), nil }

// halted reports whether nothing at all is sent on a chain.
func (d *DB) halted(id chain.ID) bool {
	return slices.ContainsFunc(d.halts[id], func(h sending.Halt) bool { return h.Cause != sending.Reserves })
}

// Halts lists the open halts of a chain.
func (d *DB) Halts(id chain.ID) []sending.Halt { return d.halts[id] }

// AllHalts lists all halts of a chain, and the open ones last.
func (d *DB) AllHalts(id chain.ID) []sending.Halt { return slices.Concat(d.lifted[id], d.halts[id]) }

// Lift lifts the halts of a chain.
func (d *DB) Lift(id chain.ID) {
	d.lifted[id] = slices.Concat(d.lifted[id], d.halts[id])
	delete(d.halts, id)
}

// Lifted implements sending.Store.
func (d *DB) Lifted(_ context.Context, id chain.ID, cause sending.Cause, detail string) (bool, error) {
	return slices.ContainsFunc(d.lifted[id], func(h sending.Halt) bool {
		return h.Cause == cause && h.Detail == detail
	}), nil
}

// status returns a call as it stands now.
func (d *DB) status(at sending.Place) sending.Status {
	s := d.calls[at]
	s.Signed, s.Now = slices.Clone(s.Signed), d.Now()
	return s
}

// Call returns the call of a purpose and ref.
func (d *DB) Call(_ context.Context, purpose, ref string) (sending.Status, bool, error) {
	at, ok := d.refs[purpose+" "+ref]
	return d.status(at), ok, nil
}

// Waiting implements sending.Store.
func (d *DB) Waiting(_ context.Context, id chain.ID, limit int) ([]sending.Status, error) {
	var list []sending.Status
	for _, at := range d.order {
		if at.Chain == id && d.calls[at].End == nil && len(list) < limit {
			list = append(list, d.status(at))
		}
	}
	return list, nil
}

// Late implements sending.Store.
func (d *DB) Late(_ context.Context, id chain.ID, behind sending.Place, limit int) ([]sending.Status, error) {
	var list []sending.Status
	for at, ended := range d.ended {
		if at.Chain == id && d.Now().Sub(ended) < sending.RecheckFor && (behind.Chain == 0 || compare(at, behind) > 0) {
			list = append(list, d.status(at))
		}
	}
	slices.SortFunc(list, func(a, b sending.Status) int { return compare(a.Call.Place(), b.Call.Place()) })
	return list[:min(limit, len(list))], nil
}

func compare(a, b sending.Place) int {
	if c := slices.Compare(a.Sender[:], b.Sender[:]); c != 0 {
		return c
	}
	return int(int64(a.Nonce) - int64(b.Nonce))
}

var errKept = errors.New("rows of calls are kept as they are")

// AddSigned implements sending.Store.
func (d *DB) AddSigned(_ context.Context, of sending.Call, tx sending.Signed) error {
	s, ok := d.calls[of.Place()]
	switch {
	case !ok || !tx.Cancels && s.Call.Hash != of.Hash:
		return errKept
	case s.End != nil && tx.Cancels == (s.End.Outcome == sending.Succeeded) || tx.Try < len(s.Signed) || d.hashes[tx.Hash]:
		return sending.ErrOther
	}
	tx.At = d.Now()
	s.Signed = append(slices.Clone(s.Signed), tx)
	d.calls[of.Place()], d.hashes[tx.Hash] = s, true
	return nil
}

// AddEnd implements sending.Store.
func (d *DB) AddEnd(_ context.Context, at sending.Place, e sending.End) error {
	s, ok := d.calls[at]
	if !ok {
		return errKept
	}
	if s.End != nil {
		return nil
	}
	for _, tx := range s.Signed {
		if tx.Hash == e.Transaction && tx.Cancels == (e.Outcome == sending.Cancelled) {
			s.End = &e
			d.calls[at], d.ended[at] = s, d.Now()
			return nil
		}
	}
	return errKept
}

// cancel records that an operator wants a call cancelled.
func (d *DB) cancel(at sending.Place) {
	s := d.calls[at]
	s.CancelAsked = true
	d.calls[at] = s
}

// GasDue implements sending.Store.
func (d *DB) GasDue(_ context.Context, limit int) ([]sending.Spent, error) {
	var list []sending.Spent
	for _, at := range d.order {
		s := d.calls[at]
		if s.End == nil || s.End.Cost.Cmp(chain.NewAmount(1_000_000_000)) < 0 || len(list) == limit {
			continue
		}
		if _, done := d.posted[at]; done || d.gas[at].Worthless {
			continue
		}
		spent, fixed := d.gas[at]
		if !fixed {
			spent = sending.Spent{Place: at, Transaction: s.End.Transaction, Cost: s.End.Cost}
		}
		list = append(list, spent)
	}
	return list, nil
}

// FixGas implements sending.Store.
func (d *DB) FixGas(_ context.Context, s sending.Spent) (sending.Spent, error) {
	if first, ok := d.gas[s.Place]; ok {
		return first, nil
	}
	d.gas[s.Place] = s
	return s, nil
}

// GasPosted implements sending.Store.
func (d *DB) GasPosted(_ context.Context, at sending.Place, entry ids.EntryID) error {
	if _, ok := d.posted[at]; !ok {
		d.posted[at] = entry
	}
	return nil
}
