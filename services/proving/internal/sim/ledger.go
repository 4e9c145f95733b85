package sim

import (
	"context"
	"strconv"
	"time"

	"svc.internal/pkg/bus"
	"svc.internal/services/billing-ledger/ledgersim"
	"svc.internal/services/settlement/settlesim"
)

// database is the machine of both ledgers' tables. Its clock is right.
type database struct {
	*node
	billing    *ledgersim.Database
	settlement *settlesim.Database
	// flaky is how many of a thousand transactions are lost, or their answers.
	flaky int
}

// fate decides the outcome of one transaction of a process.
func (d *database) fate(from *node) (happens, heard bool) {
	w := d.world
	if !from.up || !from.reaches(d.node) {
		return false, false
	}
	if d.flaky > 0 && w.chance(d.flaky) {
		happens = w.chance(500)
		d.logf("a transaction of %s is lost (committed: %v)", from.name, happens)
		return happens, false
	}
	return true, true
}

// ledger is a process of billing-ledger.
type ledger struct {
	*node
	net    *network
	ledger *ledgersim.Ledger
	conn   *conn
	// looks and turns report whether a look at holds, and turns of slices, are due.
	looks, turns bool
	// dieIn is after how many transactions the process dies, and dieAfter on which side
	// of the commit; 0 is never.
	dieIn    int
	dieAfter bool
	// dieTold is after how many notices of settled requests it dies.
	dieTold int
}

func (l *ledger) start() {
	l.life++
	l.up, l.looks, l.turns = true, false, false
	var owner [16]byte
	_, _ = l.world.Read(owner[:]) // the dice do not fail
	l.conn = &conn{nats: l.net.nats, from: l.node, life: l.life}
	l.net.db.billing.Fate = l.fate
	l.ledger = ledgersim.Start(ledgersim.Deps{
		Database: l.net.db.billing, Bus: l.conn, Prices: l.net.book,
		Connected: func() bool { return l.reaches(l.net.nats.node) }, Clock: l.node, Even: even{l.world}, Owner: owner,
	})
	l.net.processes = append(l.net.processes, l.ledger)
	l.logf("starts")
	l.look()
}

// fate may make the process die during its transaction.
func (l *ledger) fate() (happens, heard bool) {
	happens, heard = l.net.db.fate(l.node)
	if l.dieIn > 0 && happens && heard {
		if l.dieIn--; l.dieIn == 0 {
			l.logf("dies at a commit (after it: %v)", l.dieAfter)
			l.die()
			return l.dieAfter, false
		}
	}
	return happens, heard
}

// die kills the process, which starts again by itself.
func (l *ledger) die() {
	l.fall()
	l.world.after(l.world.between(time.Second, 90*time.Second), l.rise)
}

func (l *ledger) fall() {
	if !l.up {
		return
	}
	l.logf("is down")
	l.up = false
	l.life++
	l.net.db.billing.Lose()
}

func (l *ledger) rise() {
	if !l.up {
		l.start()
	}
}

// settle handles what the process has just done.
func (l *ledger) settle() {
	l.conn.flush()
	l.net.check()
	l.net.settlement.fillLater()
	if l.net.cfg.EarlyAck {
		l.after(l.world.between(0, 400*time.Millisecond), func() {
			l.net.db.billing.Commit()
			l.net.check()
		})
	}
	l.look()
	l.turn()
}

// turn writes what was admitted from memory, again and again while there are slices.
func (l *ledger) turn() {
	if l.turns || !l.up || !l.ledger.HasSlices() {
		return
	}
	l.turns = true
	l.after(l.world.between(ledgersim.TurnInterval, 10*ledgersim.TurnInterval), func() {
		l.turns = false
		l.ledger.Turn(context.Background())
		if l.up {
			l.settle()
		}
	})
}

// even is a clock that never jumps, as the one by which a process measures how long something takes.
type even struct{ world *world }

// Now implements clock.Clock.
func (e even) Now() time.Time { return e.world.time() }

// look handles expired holds when the next one is due.
func (l *ledger) look() {
	due, ok := l.net.db.billing.NextDue()
	if !ok || l.looks || !l.up {
		return
	}
	l.looks = true
	wait := max(due.Sub(l.world.time()), 0) + l.world.between(0, ledgersim.LookInterval)
	l.after(wait, func() {
		l.looks = false
		l.ledger.Look(context.Background())
		if l.up {
			l.settle()
		}
	})
}

// handle takes a batch of usage.
func (l *ledger) handle(ctx context.Context, batch []bus.Msg) error {
	err := l.ledger.Handle(ctx, batch)
	told := len(l.conn.said) > 0
	l.settle()
	if told && l.up && l.dieTold > 0 {
		if l.dieTold--; l.dieTold == 0 {
			l.after(l.world.between(0, 100*time.Millisecond), l.die)
		}
	}
	return err
}

// settlement is a process of settlement.
type settlement struct {
	*node
	net        *network
	settlement *settlesim.Settlement
	conn       *conn
	// fills is set while a pass of the filler is due. The pass covers the first upTo
	// settled requests, of which filled are done.
	fills        bool
	upTo, filled int
}

func (s *settlement) start() {
	s.life++
	s.up = true
	s.conn = &conn{nats: s.net.nats, from: s.node, life: s.life}
	s.net.db.settlement.Fate = func() (bool, bool) { return s.net.db.fate(s.node) }
	s.settlement = settlesim.Start(s.net.db.settlement, s.conn, s)
}

// fillLater schedules a pass over the requests that are settled by now, for when they are
// old enough.
func (s *settlement) fillLater() {
	settled := len(s.net.db.billing.Lines())
	if s.fills || settled == s.filled {
		return
	}
	s.fills = true
	s.world.after(settlesim.FillAfter+s.world.between(0, settlesim.FillInterval), func() { s.fill(settled) })
}

func (s *settlement) fill(upTo int) {
	s.fills = false
	s.upTo = upTo
	if s.up && s.frozen <= s.world.now && s.settlement.Fill(context.Background(), s.world.time()) == nil {
		s.filled = upTo
	}
	s.fillLater()
}

// Settled implements settlesim.Ledger: it is billing-ledger's answer.
func (s *settlement) Settled(_ context.Context, from settlesim.Mark, _ time.Duration) (settlesim.Page, error) {
	l := s.net.ledger
	if !s.reaches(l.node) || l.frozen > s.world.now || !l.reaches(s.net.db.node) {
		return settlesim.Page{}, errAway
	}
	at, _ := strconv.Atoi(from.Watermark) // empty: the first
	page := settlesim.Page{Next: settlesim.Mark{Since: from.Since, Watermark: strconv.Itoa(max(at, s.upTo))}}
	for _, line := range s.net.db.billing.Lines()[min(at, s.upTo):s.upTo] {
		e := line.Event
		page.Lines = append(page.Lines, settlesim.Line{
			RequestID: e.Request, ProviderID: e.Provider, PriceVersionID: e.Price, ModelID: e.Model, Attempt: uint32(e.Attempt),
			Tokens: e.Billable, Unit: e.Rates.Unit, Payout: line.Payout, EvidenceSource: settledBy[e.EvidenceSource],
			Settled: true,
		})
	}
	return page, nil
}

var settledBy = map[ledgersim.EvidenceSource]settlesim.EvidenceSource{
	ledgersim.Hub: settlesim.Hub, ledgersim.Gateway: settlesim.Gateway, ledgersim.Receipt: settlesim.Receipt,
}

func (s *settlement) fall() {
	s.up = false
	s.life++
}

func (s *settlement) rise() {
	if !s.up {
		s.start()
	}
}

func (s *settlement) handle(ctx context.Context, batch []bus.Msg) error {
	err := s.settlement.Handle(ctx, batch)
	s.conn.flush()
	return err
}
