package usage

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/hold"
)

// tables have holds, which are written by their pins, and what was settled.
type tables struct {
	holds   map[ids.RequestID]Hold
	settled map[ids.RequestID]First
	rejects []Reject
	writes  int
	wrote   []ids.RequestID
	fails   error         // of each write
	refused ids.RequestID // whose hold is never written
	refuses bool          // each write makes no hold
	settles int
	failsAt int  // the transaction that fails, from 1
	once    bool // it decides each transaction once
	charged money.NanoUSD
}

func (l *tables) Write(_ context.Context, pins []hold.Pin) error {
	if l.fails != nil {
		return l.fails
	}
	l.writes++
	for _, p := range pins {
		if p.Request == l.refused {
			return ErrRefused
		}
	}
	for _, p := range pins {
		l.wrote = append(l.wrote, p.Request)
		if _, known := l.holds[p.Request]; known || l.refuses {
			continue
		}
		l.holds[p.Request] = Hold{Account: p.Account, Key: p.Key, Model: p.Model, Billing: p.Billing, Amount: p.Amount,
			Prompt: p.Prompt, MaxCompletion: p.MaxCompletion, Price: p.Price, Rates: p.Rates, State: hold.Open}
	}
	return nil
}

func (l *tables) Settle(
	_ context.Context, _ []ids.RequestID, _ []ids.ProviderID, decide func(Snapshot) (Effects, []Reject),
) error {
	l.settles++
	if l.settles == l.failsAt {
		return errNoDatabase
	}
	b := Snapshot{Holds: maps.Clone(l.holds), Settled: maps.Clone(l.settled)}
	if !l.once {
		decide(b) // a store may decide more than once
	}
	fx, rejects := decide(b)
	for _, line := range fx.Lines {
		l.settled[line.Event.Request] = First{Hash: line.Hash, EvidenceSource: line.Event.EvidenceSource}
		h := l.holds[line.Event.Request]
		h.State = hold.Settled
		l.holds[line.Event.Request] = h
		l.charged += line.Charged
	}
	l.rejects = append(l.rejects, rejects...)
	return nil
}

func (l *tables) Quarantine(_ context.Context, rejects []Reject) error {
	l.rejects = append(l.rejects, rejects...)
	return nil
}

var errNoDatabase = errors.New("no database")

// early is a ledger of requests that were admitted, and of which no hold is written.
type early struct {
	*tables
	*Settler
	tickets *Tickets
	clock   *clock.Manual
	dice    *rand.Rand
}

func newEarly() *early {
	l := &tables{holds: map[ids.RequestID]Hold{}, settled: map[ids.RequestID]First{}}
	e := &early{tables: l, tickets: NewTickets([32]byte{1}), dice: rand.New(rand.NewPCG(1, 1)),
		clock: clock.NewManual(time.UnixMilli(1_790_000_000_000))}
	e.Settler = &Settler{Store: l, Tickets: e.tickets, Pins: l, Clock: e.clock}
	return e
}

// served is usage of a request that was admitted just now, and what its hold will say.
func (e *early) served() (Delivery, hold.Pin) {
	p := hold.Pin{
		Request: e.request(), Account: ids.AccountID{2}, Key: ids.KeyID{3}, Price: ids.PriceVersionID{4}, Model: "m",
		Billing: hold.PayAsYouGo, Amount: 100, MaxCompletion: 10, AdmittedAt: e.clock.Now().UTC(), Epoch: 1,
		Rates: money.Rates{Output: 5000, PayoutOutput: 4000},
	}
	return Delivery{
		Event: Event{Request: p.Request, Attempt: 1, Hub: "hub-1", Provider: ids.ProviderID{5}, Price: p.Price, Model: "m",
			Rates: p.Rates, Ending: "completed", ClaimState: "absent", EvidenceSource: Hub,
			Billable: money.Tokens{Completion: 2}, MAC: e.tickets.For(p.Request, p.Account)},
		Ticket: e.tickets.Seal(p), Payload: p.Request[:],
	}, p
}

func (e *early) request() (id ids.RequestID) {
	ms := e.clock.Now().UnixMilli()
	for i := range 6 {
		id[i] = byte(ms >> (40 - 8*i))
	}
	for i := 6; i < len(id); i++ {
		id[i] = byte(e.dice.IntN(256))
	}
	return id
}

// results settles deliveries and returns what became of them.
func (e *early) results(t *testing.T, batch ...Delivery) []Result {
	t.Helper()
	results, err := e.Settler.Settle(t.Context(), batch, nil)
	if err != nil {
		t.Fatal(err)
	}
	return results
}

func want(t *testing.T, what string, got []Result, want ...Result) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestUsageBeforeItsHoldIsWrittenIsSettledOnce(t *testing.T) {
	for name, age := range map[string]time.Duration{
		"of a request that began just now": 0,
		// After the owner of a slice was killed, holds may be missing that are minutes old.
		"of a request that began long ago": 10 * time.Minute,
		"of a database that is ahead":      -time.Hour,
	} {
		e := newEarly()
		one, _ := e.served()
		known, pin := e.served()
		other, _ := e.served()
		e.clock.Advance(max(age, 0))
		if age < 0 {
			e.Clock = clock.NewManual(e.clock.Now().Add(age))
		}
		if err := e.Write(t.Context(), []hold.Pin{pin}); err != nil {
			t.Fatal(err)
		}
		want(t, name, e.results(t, one, known, other, one), Settled, Settled, Settled, Duplicate)
		want(t, name+", delivered again", e.results(t, other, one), Duplicate, Duplicate)
		if e.charged != 30 {
			t.Errorf("%s: charged: got %d, want 30 for three requests", name, e.charged)
		}
		if len(e.rejects) != 0 {
			t.Errorf("%s: rejects: got %v, want none", name, e.rejects)
		}
	}
}

func TestHoldsThatAreSurelyWrittenAreNotWrittenAgain(t *testing.T) {
	e := newEarly()
	old, oldPin := e.served()
	e.clock.Advance(time.Minute)
	young, youngPin := e.served()
	if err := e.Write(t.Context(), []hold.Pin{oldPin, youngPin}); err != nil {
		t.Fatal(err)
	}
	e.wrote = nil
	want(t, "both", e.results(t, old, young), Settled, Settled)
	if want := []ids.RequestID{youngPin.Request}; !slices.Equal(e.wrote, want) {
		t.Errorf("written before they settle: got %v, want the one that began just now, %v", e.wrote, want)
	}
	if e.settles != 1 {
		t.Errorf("transactions that settle: got %d, want 1", e.settles)
	}
}

func TestAForgedTicketWritesNothing(t *testing.T) {
	e := newEarly()
	d, _ := e.served()
	other, _ := e.served()
	for name, ticket := range map[string][]byte{
		"of another key":     NewTickets([32]byte{9}).Seal(hold.Pin{}),
		"of another request": other.Ticket,
		"of one other bit":   append([]byte{d.Ticket[0] ^ 1}, d.Ticket[1:]...),
		"cut":                d.Ticket[:len(d.Ticket)-1],
	} {
		forged := d
		forged.Ticket = ticket
		if len(ticket) == 0 {
			forged.Ticket = []byte{1}
		}
		want(t, name, e.results(t, forged), UnknownRequest)
	}
	if e.writes != 0 {
		t.Errorf("writes: got %d, want none", e.writes)
	}
	lie, _ := e.served()
	lie.Event.MAC = other.Event.MAC
	want(t, "of its request, without its MAC", e.results(t, lie), Forged)
	lie, _ = e.served()
	lie.Event.Rates.PayoutOutput++
	want(t, "of its request, with other rates", e.results(t, lie), PriceMismatch)
	if e.charged != 0 {
		t.Errorf("charged: got %d, want nothing", e.charged)
	}
}

func TestAPinThatMakesNoHoldLeavesItsRequestUnknown(t *testing.T) {
	for name, age := range map[string]time.Duration{"young": 0, "old": time.Hour} {
		e := newEarly()
		e.refuses = true
		d, _ := e.served()
		e.clock.Advance(age)
		want(t, name, e.results(t, d), UnknownRequest)
		if len(e.rejects) != 1 {
			t.Errorf("%s: rejects: got %d, want 1", name, len(e.rejects))
		}
	}
}

func TestUsageComesAgainWhenItsHoldCannotBeWritten(t *testing.T) {
	for name, change := range map[string]func(*early){
		"no write of a young hold": func(e *early) { e.fails = errNoDatabase },
		"no write of an old hold": func(e *early) {
			e.fails = errNoDatabase
			e.clock.Advance(time.Hour)
		},
		"no second transaction": func(e *early) {
			e.failsAt = 2
			e.clock.Advance(time.Hour)
		},
	} {
		e := newEarly()
		one, _ := e.served()
		known, pin := e.served()
		if err := e.Write(t.Context(), []hold.Pin{pin}); err != nil {
			t.Fatal(err)
		}
		change(e)
		if _, err := e.Settler.Settle(t.Context(), []Delivery{one, known}, nil); !errors.Is(err, errNoDatabase) {
			t.Errorf("%s: got %v, want %v", name, err, errNoDatabase)
		}
		if len(e.rejects) != 0 {
			t.Errorf("%s: rejects: got %v, want none", name, e.rejects)
		}
		e.fails, e.failsAt = nil, 0
		got := e.results(t, one, known)
		if got[0] != Settled {
			t.Errorf("%s: delivered again: got %v, want %v", name, got[0], Settled)
		}
		if got[1].Quarantined() {
			t.Errorf("%s: the other delivered again: got %v, want it not quarantined", name, got[1])
		}
		if e.charged != 20 {
			t.Errorf("%s: charged: got %d, want 20 for two requests", name, e.charged)
		}
	}
}

func TestUsageWithoutATicketComesAgainWhileItsRequestIsYoung(t *testing.T) {
	e := newEarly()
	d, pin := e.served()
	d.Ticket = nil
	want(t, "at once", e.results(t, d), Early)
	e.clock.Advance(EarlyFor - time.Millisecond)
	want(t, "just before the time is over", e.results(t, d), Early)
	if err := e.Write(t.Context(), []hold.Pin{pin}); err != nil {
		t.Fatal(err)
	}
	want(t, "once its hold is written", e.results(t, d), Settled)
	late, _ := e.served()
	late.Ticket = nil
	e.clock.Advance(EarlyFor)
	want(t, "when the time is over", e.results(t, late), UnknownRequest)
	for name, change := range map[string]func(*Delivery){
		"without a MAC":               func(d *Delivery) { d.Event.MAC = MAC{} },
		"of a gateway":                func(d *Delivery) { d.Event.EvidenceSource = Gateway },
		"that is published again":     func(d *Delivery) { d.Event.Settled = true },
		"with a ticket that is wrong": func(d *Delivery) { d.Ticket = []byte{1} },
		"of a request of tomorrow":    func(d *Delivery) { d.Event.Request[2]++ },
	} {
		young, _ := e.served()
		young.Ticket = nil
		change(&young)
		want(t, name, e.results(t, young), UnknownRequest)
	}
	e.Pins = nil
	young, _ := e.served()
	young.Ticket = nil
	want(t, "where every hold is written at once", e.results(t, young), UnknownRequest)
}

func TestEventsThatComeAgainAreBounded(t *testing.T) {
	e := newEarly()
	e.once = true
	for range 3 {
		batch := make([]Delivery, 500)
		for i := range batch {
			batch[i], _ = e.served()
			batch[i].Ticket = nil
		}
		n := 0
		for _, r := range e.results(t, batch...) {
			if r == Early {
				n++
			}
		}
		if n != maxEarly {
			t.Errorf("events that come again at a time: got %d, want %d", n, maxEarly)
		}
		e.clock.Advance(EarlyPause)
	}
}

// A hold that the database would never take holds up its own usage alone.
func TestUsageOfAPinThatIsRefusedIsQuarantinedAndNoOther(t *testing.T) {
	for name, age := range map[string]time.Duration{"young": 0, "old": time.Hour} {
		e := newEarly()
		var batch []Delivery
		for range 5 {
			d, _ := e.served()
			batch = append(batch, d)
		}
		e.refused = batch[3].Event.Request
		e.clock.Advance(age)
		want(t, name, e.results(t, batch...), Settled, Settled, Settled, Refused, Settled)
		if len(e.rejects) != 1 {
			t.Fatalf("%s: rejects: got %v, want one", name, e.rejects)
		}
		if got := e.rejects[0].Request; got != e.refused {
			t.Errorf("%s: rejected: got %v, want the refused request %v", name, got, e.refused)
		}
	}
}
