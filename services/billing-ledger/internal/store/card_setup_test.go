package store_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/audit"
	"svc.internal/services/billing-ledger/internal/card"
	"svc.internal/services/billing-ledger/internal/store"
)

// script is a card processor that says what a test has written. It keeps the promises of
// card.Processor: one session for a checkout, and one refund for a key.
type script struct {
	card.Subscriptions
	mu       sync.Mutex
	sessions map[string]card.Session
	returns  map[string]card.Return
	balances map[string]card.Balance
	listed   []card.Object
	refused  bool // refunds
	pending  bool // refunds
	failing  bool // refunds
	down     error
	lost     bool // answers, once what was asked for is done
	fetches  int
	refunds  int // that were made
}

func newScript() *script {
	return &script{sessions: map[string]card.Session{}, returns: map[string]card.Return{},
		balances: map[string]card.Balance{}}
}

func (s *script) Name() string   { return "sandbox" }
func (s *script) Livemode() bool { return false }

func (s *script) CreateSession(_ context.Context, o card.Order) (card.Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down != nil {
		return card.Session{}, s.down
	}
	c := o.Checkout
	for _, made := range s.sessions {
		if made.Checkout == c.ID.String() {
			return made, nil
		}
	}
	made := card.Session{ID: "cs_" + c.ID.String(), URL: "https://pay.example/", Checkout: c.ID.String(),
		Purpose: string(c.Purpose), Plan: c.Plan, Total: c.Total(), Currency: "usd", State: card.SessionOpen,
		Expires: time.Now().Add(o.Lifetime)}
	if !c.Provider.IsZero() {
		made.Provider = c.Provider.String()
	}
	if !c.Account.IsZero() {
		made.Account = c.Account.String()
	}
	s.sessions[made.ID] = made
	return made, s.answer()
}

func (s *script) FetchSession(_ context.Context, id string) (card.Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fetches++
	if found, ok := s.sessions[id]; ok {
		return found, s.down
	}
	return card.Session{}, card.ErrNoObject
}

func (s *script) FetchReturn(_ context.Context, o card.Object) (card.Return, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if found, ok := s.returns[o.ID]; ok {
		return found, s.down
	}
	return card.Return{}, card.ErrNoObject
}

func (s *script) FetchBalance(_ context.Context, payment string) (card.Balance, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.balances[payment], s.down
}

func (s *script) Refund(_ context.Context, key, payment string, amount card.Cents) (card.Return, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down != nil {
		return card.Return{}, s.down
	}
	for _, r := range s.returns {
		if r.Key == key {
			return r, nil
		}
	}
	b := s.balances[payment]
	if s.refused || b.Returned+amount > b.Total {
		return card.Return{}, card.ErrRefused
	}
	r := card.Return{Object: card.Object{Kind: card.RefundObject, ID: objectOf(key)}, PaymentID: payment, Key: key,
		Amount: amount, Currency: "usd", State: card.ReturnMade}
	if s.pending {
		r.State = card.ReturnPending
	}
	if s.failing {
		r.State = card.ReturnFailed
	}
	s.returns[r.ID] = r
	s.refunds++
	if s.failing {
		return r, nil
	}
	s.balances[payment] = card.Balance{Total: b.Total, Returned: b.Returned + amount}
	return r, s.answer()
}

// answer is lost once: the processor says 500 to what it has done.
func (s *script) answer() error {
	if s.lost {
		s.lost = false
		return errBroken
	}
	return nil
}

func (s *script) List(context.Context, time.Time, string) ([]card.Object, string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listed, "", s.down
}

// pay pays a session.
func (s *script) pay(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	session := s.sessions[id]
	session.State = card.SessionPaid
	session.Charge = card.Charge{PaymentID: "pi_" + id, CostID: "bt_" + id, Total: session.Total, Cost: 88}
	s.sessions[id] = session
	s.balances[session.Charge.PaymentID] = card.Balance{Total: session.Total}
}

// rewrite changes what the processor says of a session.
func (s *script) rewrite(id string, change func(*card.Session)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	session := s.sessions[id]
	change(&session)
	s.sessions[id] = session
}

// dispute takes an amount of a session's payment back.
func (s *script) dispute(session string, amount card.Cents) card.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	of, payment := s.sessions[session], "pi_"+session
	o := card.Object{Kind: card.DisputeObject, ID: fmt.Sprintf("dp_%d_%s", len(s.returns), session)}
	s.returns[o.ID] = card.Return{Object: o, PaymentID: payment, Checkout: of.Checkout, Amount: amount, Currency: "usd",
		State: card.ReturnMade}
	b := s.balances[payment]
	s.balances[payment] = card.Balance{Total: b.Total, Returned: b.Returned + amount}
	return o
}

// objectOf is the processor's refund under a key.
func objectOf(key string) string { return "re_" + strings.ReplaceAll(key, "/", "_") }

// fails has the bank of the card send a refund back.
func (s *script) fails(key string) card.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.returns[objectOf(key)]
	r.State = card.ReturnFailed
	s.returns[r.ID] = r
	b := s.balances[r.PaymentID]
	s.balances[r.PaymentID] = card.Balance{Total: b.Total, Returned: b.Returned - r.Amount}
	return r.Object
}

// win gives back what a dispute took.
func (s *script) win(o card.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.returns[o.ID]
	r.State = card.ReturnWon
	s.returns[o.ID] = r
	b := s.balances[r.PaymentID]
	s.balances[r.PaymentID] = card.Balance{Total: b.Total, Returned: b.Returned - r.Amount}
}

// lose has a dispute end against us.
func (s *script) lose(o card.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.returns[o.ID]
	r.State = card.ReturnLost
	s.returns[o.ID] = r
}

// desk is billing-ledger's work on cards, with a scripted processor.
type desk struct {
	*env
	cards     store.Cards
	processor *script
	checkouts *card.Checkouts
	refunds   *card.Refunds
	worker    *card.Worker
	provider  ids.ProviderID
}

func newDesk(t testing.TB) *desk {
	t.Helper()
	e := setup(t, unlimited)
	d := &desk{env: e, cards: store.Cards{Store: e.store}, processor: newScript(), provider: newProvider(t)}
	d.open(d.cards)
	return d
}

// open makes the workers anew, on a store.
func (d *desk) open(s card.Store) {
	only := card.Processors{Default: d.processor}
	d.checkouts = &card.Checkouts{Store: s, Processors: only, Tariff: card.Tariff{Fixed: 30, BasisPoints: 290}}
	d.refunds = &card.Refunds{Store: s, Processors: only, NewEntry: newEntry}
	d.worker = d.replica(s)
}

// replica is a worker of another process.
func (d *desk) replica(s card.Store) *card.Worker {
	return card.NewWorker(card.Worker{Store: s, Processors: card.Processors{Default: d.processor}, Checkouts: d.checkouts,
		Refunds: d.refunds, Fingerprints: []byte("key"), Clock: clock.System, Random: rand.Reader,
		Log: slog.New(slog.DiscardHandler), Observe: func(card.AlarmReason) {}})
}

func newCheckoutID(t testing.TB) card.CheckoutID { t.Helper(); return card.CheckoutID(request(t)) }

func newRefundID(t testing.TB) card.RefundID { t.Helper(); return card.RefundID(request(t)) }

func newEntry() (ids.EntryID, error) { return ids.NewEntry(time.Now(), rand.Reader) }

// ask opens a checkout of $20.
func (d *desk) ask(t testing.TB) card.Checkout {
	t.Helper()
	c, err := d.checkouts.OpenCollateral(t.Context(), card.Checkout{ID: newCheckoutID(t), Provider: d.provider,
		Amount:    2000,
		ReturnURL: "https://market.example/"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// paid opens and pays a checkout of $20.
func (d *desk) paid(t testing.TB) card.Checkout {
	t.Helper()
	c := d.ask(t)
	d.processor.pay(c.SessionID)
	d.look(t, card.Object{Kind: card.SessionObject, ID: c.SessionID})
	return d.read(t, c.ID)
}

func (d *desk) read(t testing.TB, id card.CheckoutID) card.Checkout {
	t.Helper()
	c, err := d.cards.Checkout(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// look wants a look at an object to succeed.
func (d *desk) look(t testing.TB, o card.Object) {
	t.Helper()
	if err := d.worker.LookAt(t.Context(), "sandbox", o); err != nil {
		t.Fatalf("look at %v: %v", o, err)
	}
}

// due makes everything due.
func (d *desk) due(t testing.TB) {
	t.Helper()
	for _, table := range []string{"checkout", "card_refund", "processor_event", "card_listing"} {
		d.exec(t, `UPDATE `+table+` SET due_at = now() WHERE due_at IS NOT NULL`)
	}
}

// balance is what an account of the provider has.
func (d *desk) balance(t testing.TB, kind string) money.NanoUSD {
	t.Helper()
	return money.NanoUSD(scan[int64](t, d.env, `SELECT provider_balance($1, $2, '')`, kind, [16]byte(d.provider)))
}

func (d *desk) wantCollateral(t testing.TB, want money.NanoUSD) {
	t.Helper()
	if got := d.balance(t, "l:provider:collateral"); got != want {
		t.Errorf("collateral: got %v, want %v", got, want)
	}
}

// wantAlarms wants alarms for these reasons and no others.
func (d *desk) wantAlarms(t testing.TB, want ...card.AlarmReason) {
	t.Helper()
	got := column[string](t, d.env, `SELECT reason FROM card_alarm ORDER BY raised_at, reason`)
	if fmt.Sprint(got) != fmt.Sprint(want) && len(got)+len(want) > 0 {
		t.Errorf("alarms: got %v, want %v", got, want)
	}
}

// changes are the kinds of what happened, in order.
func (d *desk) changes(t testing.TB) []card.ChangeKind {
	t.Helper()
	list, err := d.cards.Changes(t.Context(), 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	kinds := make([]card.ChangeKind, len(list))
	for i, c := range list {
		kinds[i] = c.Kind
	}
	return kinds
}

var errBroken = errors.New("the connection broke")

// brittle is a store whose nth call of each kind breaks, before or after it has done its
// work, as when a process dies there.
type brittle struct {
	store.Cards
	mu    sync.Mutex
	fails string // the method
	after bool   // it has done its work
	broke bool
}

// breaks reports whether a method is to break now, which it does once.
func (b *brittle) breaks(method string, after bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fails != method || b.after != after || b.broke {
		return false
	}
	b.broke = true
	return true
}

// around does a method's work, unless it breaks.
func (b *brittle) around(method string, do func() error) error {
	if b.breaks(method, false) {
		return errBroken
	}
	if err := do(); err != nil {
		return err
	}
	if b.breaks(method, true) {
		return errBroken
	}
	return nil
}

func (b *brittle) Open(ctx context.Context, c card.Checkout, d time.Duration) (out card.Checkout, err error) {
	err = b.around("Open", func() error { out, err = b.Cards.Open(ctx, c, d); return err })
	return out, err
}

func (b *brittle) SetSession(ctx context.Context, id card.CheckoutID, s card.Session) (out card.Checkout, err error) {
	err = b.around("SetSession", func() error { out, err = b.Cards.SetSession(ctx, id, s); return err })
	return out, err
}

func (b *brittle) Pay(
	ctx context.Context, id card.CheckoutID, c card.Charge, newID func() (ids.EntryID, error),
) (out *card.Alarm, err error) {
	err = b.around("Pay", func() error { out, err = b.Cards.Pay(ctx, id, c, newID); return err })
	return out, err
}

func (b *brittle) Reverse(
	ctx context.Context, r card.Return, newID func() (ids.EntryID, error),
) (out *card.Alarm, err error) {
	err = b.around("Reverse", func() error { out, err = b.Cards.Reverse(ctx, r, newID); return err })
	return out, err
}

func (b *brittle) Win(ctx context.Context, r card.Return, newID func() (ids.EntryID, error)) error {
	return b.around("Win", func() error { return b.Cards.Win(ctx, r, newID) })
}

func (b *brittle) Lose(ctx context.Context, r card.Return) error {
	return b.around("Lose", func() error { return b.Cards.Lose(ctx, r) })
}

func (b *brittle) RepayDebt(ctx context.Context, reversal string, newID func() (ids.EntryID, error)) error {
	return b.around("RepayDebt", func() error { return b.Cards.RepayDebt(ctx, reversal, newID) })
}

func (b *brittle) KeepEvent(ctx context.Context, e card.Event) (out card.Object, err error) {
	err = b.around("KeepEvent", func() error { out, err = b.Cards.KeepEvent(ctx, e); return err })
	return out, err
}

func (b *brittle) EventHandled(ctx context.Context, id string) error {
	return b.around("EventHandled", func() error { return b.Cards.EventHandled(ctx, id) })
}

func (b *brittle) AskRefund(
	ctx context.Context, r card.Refund, newID func() (ids.EntryID, error),
) (out card.Refund, err error) {
	err = b.around("AskRefund", func() error { out, err = b.Cards.AskRefund(ctx, r, newID); return err })
	return out, err
}

func (b *brittle) EndRefund(
	ctx context.Context, r card.Refund, to card.RefundState, object string, newID func() (ids.EntryID, error),
) (out card.RefundState, err error) {
	err = b.around("EndRefund", func() error { out, err = b.Cards.EndRefund(ctx, r, to, object, newID); return err })
	return out, err
}

func (b *brittle) FailRefund(
	ctx context.Context, r card.Refund, object string, newID func() (ids.EntryID, error),
) (out *card.Alarm, err error) {
	err = b.around("FailRefund", func() error { out, err = b.Cards.FailRefund(ctx, r, object, newID); return err })
	return out, err
}

// addAct is what verify finds.
func (d *desk) audited(t testing.TB) audit.Report {
	t.Helper()
	report, err := audit.Run(t.Context(), d.store)
	if err != nil {
		t.Fatal(err)
	}
	return report
}
