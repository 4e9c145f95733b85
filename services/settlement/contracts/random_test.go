package contracts_test

import (
	"flag"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
)

var (
	seed       = flag.Uint64("seed", 1, "what the random operations follow from")
	operations = flag.Int("operations", 1_500, "random operations on each of the two contracts")
)

// wealth is what each depositor has at first.
const wealth = int64(1e15)

// states are the states of penalties in the contract's order.
var states = []string{"", "proposed", "appealed", "executed", "reversed", "lapsed"}

// player makes random operations on a contract and on its model.
type player struct {
	*world
	*rand.Rand

	model      model
	depositors []common.Address
	callers    []common.Address
	providers  [][32]byte
	penalties  [][32]byte
	// outcomes counts what operations have come to, by method and error.
	outcomes map[string]int
}

func newPlayer(w *world) *player {
	kind := uint64(0)
	if w.token != nil {
		kind = 1
	}
	p := &player{world: w, Rand: rand.New(rand.NewPCG(*seed, kind)),
		providers: [][32]byte{p1, p2}, outcomes: map[string]int{}, model: model{positions: map[place]*modelPosition{},
			penalties: map[[32]byte]*modelPenalty{}, wallets: map[common.Address]int64{},
			operator: w.operator, slasher: w.slasher, arbiter: w.arbiter, treasury: w.treasury}}
	p.depositors = []common.Address{w.alice, w.bob, w.account("carol")}
	p.callers = append(slices.Clone(p.depositors), w.operator, w.slasher, w.arbiter, w.stranger)
	for _, d := range p.depositors {
		w.fund(d, num(wealth))
		p.model.wallets[d] = wealth
	}
	return p
}

func oneOf[T any](r *rand.Rand, all ...T) T { return all[r.IntN(len(all))] }

// operation is the next operation. Three of four come from an account that may make it, because refusals are cheap.
func (p *player) operation() operation {
	o := operation{place: place{oneOf(p.Rand, p.providers...), oneOf(p.Rand, p.depositors...)},
		amount: oneOf(p.Rand, 0, 1, p.Int64N(100), p.Int64N(100)), upheld: p.IntN(2) == 0, from: oneOf(p.Rand, p.callers...)}
	o.method = oneOf(p.Rand, "deposit", "deposit", "requestRefund", "requestExit", "cancelRefund", "cancelExit",
		"executeRefund", "executeRefund", "proposeSlash", "proposeSlash", "appeal", "appeal", "appeal", "executeSlash",
		"executeSlash", "resolve", "resolve", "lapse")
	o.penalty = p.pick(o.method)
	switch o.method {
	case "deposit", "requestExit", "cancelExit": // whoever calls is the depositor
		o.from = o.depositor
		return o
	}
	if may := map[string]common.Address{"requestRefund": p.operator, "cancelRefund": p.operator,
		"proposeSlash": p.slasher, "executeSlash": p.slasher, "resolve": p.arbiter,
		"appeal": p.model.penalty(o.penalty).depositor}[o.method]; may != (common.Address{}) && p.IntN(4) > 0 {
		o.from = may
	}
	return o
}

// pick is the penalty of the next operation: mostly one of those that are not over, or a new one.
func (p *player) pick(method string) [32]byte {
	if method == "proposeSlash" && p.IntN(5) > 0 {
		return id(fmt.Sprintf("penalty %d", len(p.penalties)))
	}
	from := p.penalties[max(0, len(p.penalties)-8):]
	wanted := map[string]string{"appeal": "proposed", "executeSlash": "proposed", "resolve": "appealed"}[method]
	if p.IntN(3) > 0 {
		var open [][32]byte
		for _, id := range from {
			if s := p.model.penalty(id); s.state == wanted || wanted == "" && !s.ended() {
				open = append(open, id)
			}
		}
		from = open
	}
	if len(from) == 0 || p.IntN(20) == 0 {
		return id(fmt.Sprintf("unknown %d", p.IntN(3)))
	}
	return oneOf(p.Rand, from...)
}

// pause is the time to the next block. Often it ends one second before, at or behind a time at which something may
// happen to what the operation is about.
func (p *player) pause(o operation) uint64 {
	at, s := p.model.position(o.place), p.model.penalty(o.penalty)
	borders := []uint64{at.refundAt, at.exitAt, s.since + appealWindow, s.since + lapseAfter}
	if to := oneOf(p.Rand, borders...) + p.Uint64N(3) - 1; p.IntN(5) == 0 && to > p.now && to < p.now+40*day {
		return to - p.now
	}
	return 1 + oneOf(p.Rand, 0, 0, 0, p.Uint64N(hour), p.Uint64N(hour), p.Uint64N(6*hour))
}

// call makes the operation on the contract.
func (p *player) call(o operation) result {
	switch o.method {
	case "deposit":
		return p.deposit(o.from, o.provider, num(o.amount))
	case "requestExit", "cancelExit":
		return p.do(o.from, o.method, o.provider)
	case "requestRefund", "cancelRefund", "executeRefund":
		return p.do(o.from, o.method, o.provider, o.depositor)
	case "proposeSlash":
		return p.do(o.from, o.method, o.penalty, o.provider, o.depositor, num(o.amount))
	case "resolve":
		return p.do(o.from, o.method, o.penalty, o.upheld)
	default:
		return p.do(o.from, o.method, o.penalty)
	}
}

// step makes one operation on both, and compares what becomes of it.
func (p *player) step() {
	p.t.Helper()
	o := p.operation()
	p.after(p.pause(o))
	p.model.now = p.now + 1
	want := p.model.apply(o)
	got := p.call(o)
	name, _, _ := strings.Cut(got.failure, "(")
	if name != want {
		p.t.Fatalf("seed %d: %s: got the error %q, want %q", *seed, got.what, got.failure, want)
	}
	p.outcomes[o.method+" "+want]++
	if o.method == "proposeSlash" && want == "" {
		p.penalties = append(p.penalties, o.penalty)
	}
	p.comparePosition(o.place)
	if s := p.model.penalties[o.penalty]; s != nil {
		p.comparePosition(s.place)
		p.comparePenalty(o.penalty, s)
	}
}

func (p *player) comparePosition(at place) {
	p.t.Helper()
	m := p.model.position(at)
	want := position{num(m.free), num(m.escrow), m.refundAt, m.exitAt}
	if got := p.position(at.provider, at.depositor); got.String() != want.String() {
		p.t.Fatalf("seed %d: %s's position: got %v, want %v", *seed, p.names[at.depositor], got, want)
	}
}

func (p *player) comparePenalty(id [32]byte, s *modelPenalty) {
	p.t.Helper()
	got := p.penalty(strings.TrimRight(string(id[:]), "\x00"))
	want := uint8(slices.Index(states, s.state))
	if got.State != want {
		p.t.Fatalf("seed %d: state of a penalty: got %d, want %d", *seed, got.State, want)
	}
	if !s.ended() && got.Since != s.since {
		p.t.Fatalf("seed %d: time of a penalty: got %d, want %d", *seed, got.Since, s.since)
	}
}

// audit compares all money, and every position.
func (p *player) audit() {
	p.t.Helper()
	var sum int64
	for at, m := range p.model.positions {
		p.comparePosition(at)
		sum += m.free + m.escrow
	}
	p.hasBalance(p.address, sum)
	if got := p.get("held").(*big.Int); got.Cmp(num(sum)) != 0 {
		p.t.Errorf("seed %d: the sum of all positions: got %d, want %d", *seed, got, sum)
	}
	for _, who := range append(slices.Clone(p.depositors), p.treasury) {
		p.hasBalance(who, p.model.wallets[who])
	}
	if p.t.Failed() {
		p.t.Fatalf("seed %d: the money is not where it belongs", *seed)
	}
}

// expected are the outcomes without which a run has tested little.
var expected = []string{"deposit ", "requestRefund ", "requestExit ", "cancelRefund ", "cancelExit ", "executeRefund ",
	"executeRefund EscrowOpen", "executeRefund TooEarly", "proposeSlash ", "proposeSlash InsufficientFree",
	"proposeSlash WrongState", "appeal ", "appeal TooLate", "appeal NotAllowed", "executeSlash ", "executeSlash TooEarly",
	"executeSlash TooLate", "executeSlash WrongState", "resolve ", "resolve WrongState", "lapse ",
	"lapse TooEarly", "deposit RefundPending"}

func TestTheContractDoesWhatItsModelDoesInAnyOrder(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		p := newPlayer(w)
		for n := range *operations {
			p.step()
			if n%50 == 0 {
				p.audit()
			}
		}
		p.audit()
		if *operations < 1_500 {
			return
		}
		for _, outcome := range expected {
			if p.outcomes[outcome] == 0 {
				t.Errorf("%q in %d operations: got %d, want at least 1", outcome, *operations, p.outcomes[outcome])
			}
		}
		t.Logf("seed %d: %v", *seed, p.outcomes)
	})
}
