package contracts_test

import "github.com/ethereum/go-ethereum/common"

// model says what the contract must do, in the plainest form: it knows no token and no storage. It is written from the
// rules of README.md, and the contract is held against it.
type model struct {
	now       uint64
	positions map[place]*modelPosition
	penalties map[[32]byte]*modelPenalty
	// wallets is what everybody has outside of the contract.
	wallets map[common.Address]int64
	held    int64

	operator, slasher, arbiter, treasury common.Address
}

type place struct {
	provider  [32]byte
	depositor common.Address
}

type modelPosition struct {
	free, escrow     int64
	refundAt, exitAt uint64
}

func (p *modelPosition) empty() bool { return p.free+p.escrow == 0 }

type modelPenalty struct {
	place
	state  string // "" before it is proposed
	since  uint64
	amount int64
}

// ended reports whether nothing can happen to the penalty any more.
func (p *modelPenalty) ended() bool {
	return p.state != "" && p.state != "proposed" && p.state != "appealed"
}

// operation is a call of the contract.
type operation struct {
	method string
	from   common.Address
	place
	penalty [32]byte
	amount  int64
	upheld  bool
}

func (m *model) position(at place) *modelPosition {
	if m.positions[at] == nil {
		m.positions[at] = &modelPosition{}
	}
	return m.positions[at]
}

func (m *model) penalty(id [32]byte) *modelPenalty {
	if p := m.penalties[id]; p != nil {
		return p
	}
	return &modelPenalty{}
}

// apply does what the operation does at the model's time, or returns the error that refuses it.
func (m *model) apply(o operation) string {
	at := m.position(o.place)
	switch o.method {
	case "deposit":
		return m.deposit(o, at)
	case "requestRefund":
		return m.request(o.from == m.operator, at, &at.refundAt, refundWait)
	case "requestExit":
		return m.request(true, at, &at.exitAt, exitWait)
	case "cancelRefund":
		return cancel(o.from == m.operator, &at.refundAt)
	case "cancelExit":
		return cancel(true, &at.exitAt)
	case "executeRefund":
		return m.refund(o, at)
	case "proposeSlash":
		return m.propose(o, at)
	default:
		return m.move(o, m.penalty(o.penalty))
	}
}

const (
	notYours   = "AccessControlUnauthorizedAccount"
	wrongState = "WrongState"
	tooEarly   = "TooEarly"
	tooLate    = "TooLate"
)

func (m *model) deposit(o operation, at *modelPosition) string {
	switch {
	case at.refundAt != 0 || at.exitAt != 0:
		return "RefundPending"
	case o.amount == 0:
		return "ZeroAmount"
	}
	m.wallets[o.from] -= o.amount
	m.held += o.amount
	at.free += o.amount
	return ""
}

func (m *model) request(may bool, at *modelPosition, due *uint64, wait uint64) string {
	switch {
	case !may:
		return notYours
	case at.empty():
		return "EmptyPosition"
	case *due != 0:
		return "AlreadyRequested"
	}
	*due = m.now + wait
	return ""
}

func cancel(may bool, due *uint64) string {
	switch {
	case !may:
		return notYours
	case *due == 0:
		return "NotRequested"
	}
	*due = 0
	return ""
}

func (m *model) refund(o operation, at *modelPosition) string {
	due := at.refundAt
	if due == 0 || at.exitAt != 0 && at.exitAt < due {
		due = at.exitAt
	}
	switch {
	case at.empty():
		return "EmptyPosition"
	case due == 0:
		return "NotRequested"
	case m.now < due:
		return tooEarly
	case at.escrow > 0:
		return "EscrowOpen"
	}
	m.wallets[o.depositor] += at.free
	m.held -= at.free
	*at = modelPosition{}
	return ""
}

func (m *model) propose(o operation, at *modelPosition) string {
	switch {
	case o.from != m.slasher:
		return notYours
	case o.amount == 0:
		return "ZeroAmount"
	case m.penalties[o.penalty] != nil:
		return wrongState
	case at.free < o.amount:
		return "InsufficientFree"
	}
	at.free -= o.amount
	at.escrow += o.amount
	m.penalties[o.penalty] = &modelPenalty{o.place, "proposed", m.now, o.amount}
	return ""
}

// move takes a penalty a step further.
func (m *model) move(o operation, p *modelPenalty) string {
	age := m.now - p.since
	switch o.method {
	case "appeal":
		switch {
		case p.state != "proposed":
			return wrongState
		case o.from != p.depositor && o.from != m.operator:
			return "NotAllowed"
		case age >= appealWindow:
			return tooLate
		}
		p.state, p.since = "appealed", m.now
	case "executeSlash":
		switch {
		case o.from != m.slasher:
			return notYours
		case p.state != "proposed":
			return wrongState
		case age < appealWindow:
			return tooEarly
		case age >= lapseAfter:
			return tooLate
		}
		m.take(p)
	case "resolve":
		switch {
		case o.from != m.arbiter:
			return notYours
		case p.state != "appealed":
			return wrongState
		case age >= lapseAfter:
			return tooLate
		case o.upheld:
			m.take(p)
		default:
			m.free(p, "reversed")
		}
	case "lapse":
		switch {
		case p.state != "proposed" && p.state != "appealed":
			return wrongState
		case age < lapseAfter:
			return tooEarly
		}
		m.free(p, "lapsed")
	}
	return ""
}

func (m *model) take(p *modelPenalty) {
	at := m.position(p.place)
	p.state = "executed"
	at.escrow -= p.amount
	m.held -= p.amount
	m.wallets[m.treasury] += p.amount
	if at.empty() {
		*at = modelPosition{}
	}
}

func (m *model) free(p *modelPenalty, end string) {
	at := m.position(p.place)
	p.state = end
	at.escrow -= p.amount
	at.free += p.amount
}
