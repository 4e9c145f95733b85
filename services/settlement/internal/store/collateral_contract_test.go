package store_test

import (
	"context"
	"encoding/binary"
	"errors"
	"math/big"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/contract"
	"svc.internal/services/settlement/internal/position"
)

// held is a position of a modelled contract.
type held struct {
	free, escrow     int64
	refundAt, exitAt time.Time
}

type holder struct {
	subject   contract.Word
	depositor chain.Address
}

// slashed is a penalty of a modelled contract.
type slashed struct {
	holder
	amount   int64
	since    time.Time
	appealed bool
	over     bool
}

// modelled is a collateral contract in memory, with the rules of Collateral.sol. Amounts are in units of scale. A call
// is done when the model mines.
type modelled struct {
	id        chain.ID
	scale     *big.Int
	now       func() time.Time
	positions map[holder]*held
	penalties map[contract.Word]*slashed
	events    []position.Event
	// stored are the events that a watcher has stored.
	stored  int
	final   time.Time
	calls   map[string]chain.SendOutcome
	waiting []chain.Sending
	// refuses are depositors that cannot be paid.
	refuses map[chain.Address]bool
	// revoked reports whether the contract takes the slasher for nobody.
	revoked bool
}

func newModelled(id chain.ID, scale *big.Int, now func() time.Time) *modelled {
	return &modelled{id: id, scale: scale, now: now, positions: map[holder]*held{},
		penalties: map[contract.Word]*slashed{}, calls: map[string]chain.SendOutcome{},
		refuses: map[chain.Address]bool{}}
}

func (m *modelled) amount(n int64) chain.Amount {
	a, err := chain.AmountOf(new(big.Int).Mul(big.NewInt(n), m.scale).Bytes())
	if err != nil {
		panic(err)
	}
	return a
}

func (m *modelled) emit(kind contract.Kind, h holder, change func(*contract.Event)) {
	e := position.Event{Chain: m.id, Number: int64(len(m.events)) + 1, Place: uint32(len(m.events)), At: m.now(),
		Event: contract.Event{Kind: kind, Subject: h.subject, Depositor: h.depositor}}
	binary.BigEndian.PutUint64(e.Tx[:], uint64(len(m.events))+1)
	if change != nil {
		change(&e.Event)
	}
	m.events = append(m.events, e)
}

func (m *modelled) of(n int64) func(*contract.Event) {
	return func(e *contract.Event) { e.Amount = m.amount(n) }
}

func (m *modelled) at(h holder) *held {
	if m.positions[h] == nil {
		m.positions[h] = &held{}
	}
	return m.positions[h]
}

func (m *modelled) deposit(h holder, n int64) bool {
	p := m.at(h)
	if !p.refundAt.IsZero() || !p.exitAt.IsZero() {
		return false
	}
	p.free += n
	m.emit(contract.Deposited, h, m.of(n))
	return true
}

func (m *modelled) exit(h holder) {
	if p := m.at(h); p.free+p.escrow > 0 && p.exitAt.IsZero() {
		p.exitAt = m.now().Add(30 * 24 * time.Hour)
		m.emit(contract.ExitRequested, h, func(e *contract.Event) { e.Until = p.exitAt })
	}
}

func (m *modelled) executeRefund(h holder) bool {
	p := m.at(h)
	due := p.refundAt
	if due.IsZero() || !p.exitAt.IsZero() && p.exitAt.Before(due) {
		due = p.exitAt
	}
	if p.free+p.escrow == 0 || due.IsZero() || m.now().Before(due) || p.escrow != 0 || m.refuses[h.depositor] {
		return false
	}
	n := p.free
	*p = held{}
	m.emit(contract.Refunded, h, m.of(n))
	return true
}

func (m *modelled) appeal(id contract.Word, by chain.Address) bool {
	s := m.penalties[id]
	if s == nil || s.over || s.appealed || !m.now().Before(s.since.Add(48*time.Hour)) {
		return false
	}
	s.appealed, s.since = true, m.now()
	m.emit(contract.SlashAppealed, s.holder, func(e *contract.Event) {
		e.Penalty, e.By, e.Until = id, by, s.since.Add(30*24*time.Hour)
	})
	return true
}

// end ends a penalty by the call of a purpose.
func (m *modelled) end(id contract.Word, purpose string) bool {
	s := m.penalties[id]
	if s == nil || s.over {
		return false
	}
	age, lapses := m.now().Sub(s.since), 30*24*time.Hour
	kind, ok := contract.SlashLapsed, age >= lapses
	switch purpose {
	case "slash_execute":
		kind, ok = contract.SlashExecuted, !s.appealed && age >= 48*time.Hour && age < lapses
	case "slash_uphold":
		kind, ok = contract.SlashExecuted, s.appealed && age < lapses
	case "slash_reverse":
		kind, ok = contract.SlashReversed, s.appealed && age < lapses
	}
	if !ok {
		return false
	}
	s.over = true
	p := m.at(s.holder)
	p.escrow -= s.amount
	if kind != contract.SlashExecuted {
		p.free += s.amount
	} else if p.free+p.escrow == 0 {
		if !p.refundAt.IsZero() {
			m.emit(contract.RefundCancelled, s.holder, nil)
		}
		if !p.exitAt.IsZero() {
			m.emit(contract.ExitCancelled, s.holder, nil)
		}
		*p = held{}
	}
	m.emit(kind, s.holder, func(e *contract.Event) {
		e.Penalty, e.Amount, e.Upheld = id, m.amount(s.amount), s.appealed
	})
	return true
}

// Send implements chain.Sender.
func (m *modelled) Send(_ context.Context, s chain.Sending) (chain.SendOutcome, error) {
	key := s.Purpose + " " + s.Ref
	if outcome, ok := m.calls[key]; ok {
		return outcome, nil
	}
	m.calls[key] = chain.SendWaiting
	m.waiting = append(m.waiting, s)
	return chain.SendWaiting, nil
}

// mine does the calls that wait, and makes all events final.
func (m *modelled) mine() {
	for _, s := range m.waiting {
		m.calls[s.Purpose+" "+s.Ref] = chain.SendRefused
		if m.do(s) {
			m.calls[s.Purpose+" "+s.Ref] = chain.SendDone
		}
	}
	m.waiting, m.stored, m.final = nil, len(m.events), m.now()
}

func (m *modelled) do(s chain.Sending) bool {
	var words []contract.Word
	for data := s.Data[4:]; len(data) > 0; data = data[32:] {
		words = append(words, contract.Word(data[:32]))
	}
	last := len(words) - 1
	h := holder{subject: words[0]}
	switch s.Purpose {
	case "slash_propose":
		h = holder{words[1], chain.Address(words[2][12:])}
		n := new(big.Int).Div(new(big.Int).SetBytes(words[3][:]), m.scale).Int64()
		p := m.at(h)
		if m.revoked || m.penalties[words[0]] != nil || n > p.free {
			return false
		}
		p.free, p.escrow = p.free-n, p.escrow+n
		m.penalties[words[0]] = &slashed{holder: h, amount: n, since: m.now()}
		m.emit(contract.SlashProposed, h, func(e *contract.Event) {
			e.Penalty, e.Amount, e.Until = words[0], m.amount(n), m.now().Add(48*time.Hour)
		})
		return true
	case "slash_appeal":
		return m.appeal(words[0], chain.Address{1})
	case "slash_execute", "slash_uphold", "slash_reverse", "slash_lapse":
		return m.end(words[0], s.Purpose)
	}
	h.depositor = chain.Address(words[last][12:])
	p := m.at(h)
	switch s.Purpose {
	case "refund_request":
		if p.free+p.escrow == 0 || !p.refundAt.IsZero() {
			return false
		}
		p.refundAt = m.now().Add(7 * 24 * time.Hour)
		m.emit(contract.RefundRequested, h, func(e *contract.Event) { e.Until = p.refundAt })
		return true
	case "refund_cancel":
		if p.refundAt.IsZero() {
			return false
		}
		p.refundAt = time.Time{}
		m.emit(contract.RefundCancelled, h, nil)
		return true
	case "refund_execute":
		return m.executeRefund(h)
	}
	return false
}

// all is the sum of all positions.
func (m *modelled) all() (n int64) {
	for _, p := range m.positions {
		n += p.free + p.escrow
	}
	return n
}

// chains are modelled contracts of several chains; it implements position.Events and chain.Sender.
type chains map[chain.ID]*modelled

var errAnswerLost = errors.New("the answer is lost")

func (c chains) Final(_ context.Context, on chain.ID) (time.Time, error) { return c[on].final, nil }

func (c chains) After(_ context.Context, on chain.ID, number int64, limit int) (position.Batch, error) {
	all := c[on].events[:c[on].stored]
	all = all[min(int(number), len(all)):]
	all = all[:min(limit, len(all))]
	return position.Batch{Events: all, UpTo: number + int64(len(all))}, nil
}

func (c chains) Send(ctx context.Context, s chain.Sending) (chain.SendOutcome, error) {
	return c[s.Chain].Send(ctx, s)
}

func subjectOf(id ids.ProviderID) contract.Word { return contract.Subject(id) }
