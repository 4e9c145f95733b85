package card

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"
)

// The errors of a Processor. Every other error may pass.
var (
	// ErrNoObject is the error for an object that the processor does not know.
	ErrNoObject = errors.New("the card processor knows no such object")
	// ErrRefused is the error for a refund that the processor will never make.
	ErrRefused = errors.New("the card processor refuses the refund")
)

// ObjectKind is a kind of a processor's objects that is looked at here.
type ObjectKind string

// The kinds of objects.
const (
	SessionObject ObjectKind = "session"
	RefundObject  ObjectKind = "refund"
	DisputeObject ObjectKind = "dispute"
	// InvoiceObject is an invoice of a subscription, and SubscriptionObject the subscription.
	InvoiceObject      ObjectKind = "invoice"
	SubscriptionObject ObjectKind = "subscription"
	// WonObject is a dispute that was won, and FailedObject a refund that failed, as a list has
	// them.
	WonObject    ObjectKind = "won"
	FailedObject ObjectKind = "failed"
	// LostObject is a dispute that ended, as a list has it.
	LostObject ObjectKind = "lost"
)

// Object names an object of a processor.
type Object struct {
	Kind ObjectKind
	ID   string
}

// Event is what counts of a processor's event: its id, and the object to fetch. Object is
// zero for an event of a kind that is not looked at.
type Event struct {
	ID     string
	Object Object
	SHA256 [sha256.Size]byte
	// Processor is the name of who sent it.
	Processor string
}

// SessionState is where a processor's session stands.
type SessionState string

// The states of a session.
const (
	SessionOpen    SessionState = "open"
	SessionPaid    SessionState = "paid"
	SessionExpired SessionState = "expired"
)

// Session is a processor's word on one page.
type Session struct {
	ID, URL string
	// Checkout, Purpose, Provider and Account are what was said when it was made.
	Checkout, Purpose, Provider, Account, Plan string
	Total                                      Cents
	Currency                                   string
	Livemode                                   bool
	State                                      SessionState
	Expires                                    time.Time
	// Charge is set once it is paid, and Subscription instead where a plan is bought.
	Charge       Charge
	Subscription string
}

// Charge is what a card was charged, and what the processor kept of it.
type Charge struct {
	// PaymentID is the payment's, and CostID that of its balance transaction.
	PaymentID, CostID string
	Total, Cost       Cents
	// Fingerprint is what the processor calls the card, the same in all payments with it; empty
	// where it is not known. It is kept as a digest alone.
	Fingerprint string
}

// ReturnState is where a refund or a dispute stands at the processor.
type ReturnState string

// The states of a return.
const (
	ReturnPending ReturnState = "pending"
	ReturnMade    ReturnState = "made"
	// ReturnFailed is a refund whose money is at the processor again. It may have been made before.
	ReturnFailed ReturnState = "failed"
	// ReturnLost is a dispute that ended against us: the money stays where it went.
	ReturnLost ReturnState = "lost"
	// ReturnWon is a dispute whose money the processor gave back.
	ReturnWon ReturnState = "won"
)

// Return is money that goes back to the card's owner, by a refund or a dispute.
type Return struct {
	Object
	PaymentID string
	// Checkout is what was said when the payment was made.
	Checkout string
	// Key is the key under which we asked for a refund; empty for what others did.
	Key      string
	Amount   Cents
	Currency string
	Livemode bool
	State    ReturnState
}

// Balance is a payment at the processor, and what of it went back, in no refund that failed and
// no dispute that was won.
type Balance struct{ Total, Returned Cents }

// Order asks a processor for a page.
type Order struct {
	Checkout Checkout
	// Description is what the page says is paid for.
	Description string
	Lifetime    time.Duration
}

// Processor is a card processor.
type Processor interface {
	// Name is its name in the database.
	Name() string
	// Livemode reports whether money moves.
	Livemode() bool
	// CreateSession makes a page, once for each checkout: a repeat returns the first.
	CreateSession(ctx context.Context, o Order) (Session, error)
	// FetchSession reads a session, or returns ErrNoObject. A session is paid once its
	// payment and what the processor kept of it are final.
	FetchSession(ctx context.Context, id string) (Session, error)
	// FetchReturn reads a refund or a dispute, or returns ErrNoObject. A dispute is made
	// when the processor takes the money.
	FetchReturn(ctx context.Context, o Object) (Return, error)
	// FetchBalance reads a payment, or returns ErrNoObject.
	FetchBalance(ctx context.Context, paymentID string) (Balance, error)
	// Refund gives a part of a payment back, once for each key and for ever: it looks for
	// the key before it makes one, and returns a refund that failed with that state. ErrRefused says
	// that there is none under the key, and that there will be none.
	Refund(ctx context.Context, key, paymentID string, amount Cents) (Return, error)
	// List lists what was made since a time: paid sessions, paid invoices, refunds, disputes,
	// disputes that were won, and refunds that failed, at most a page. cursor is empty for the
	// first page, and next after the last.
	List(ctx context.Context, since time.Time, cursor string) (page []Object, next string, err error)
	Subscriptions
}

// differs says in what a processor's refund differs from the refund that was asked for. It is ""
// where they agree.
func (r Refund) differs(made Return) string {
	return same([]part{
		{"key", made.Key, r.Key()},
		{"payment", made.PaymentID, r.PaymentID},
		{"amount", fmt.Sprint(made.Amount), fmt.Sprint(r.Amount)},
		{"currency", made.Currency, Currency},
		{"livemode", fmt.Sprint(made.Livemode), fmt.Sprint(r.Livemode)},
		{"id", fmt.Sprint(isObjectID(made.ID)), "true"},
	})
}

// part is one part of an object, as it is and as it must be.
type part struct{ name, got, want string }

// same says in what parts differ first, "" where none does.
func same(parts []part) string {
	for _, p := range parts {
		if p.got != p.want {
			return fmt.Sprintf("%s: got %.80q, want %.80q", p.name, p.got, p.want)
		}
	}
	return ""
}

// mismatch says in what a session is not that of a checkout, "" where it is.
func mismatch(c Checkout, s Session) string {
	provider, account := "", ""
	if !c.Provider.IsZero() {
		provider = c.Provider.String()
	}
	if !c.Account.IsZero() {
		account = c.Account.String()
	}
	if why := same([]part{
		{"checkout", s.Checkout, c.ID.String()},
		{"purpose", s.Purpose, string(c.Purpose)},
		{"provider", s.Provider, provider},
		{"account", s.Account, account},
		{"plan", s.Plan, c.Plan},
		{"currency", s.Currency, Currency},
		{"amount", fmt.Sprint(s.Total), fmt.Sprint(c.Total())},
		{"livemode", fmt.Sprint(s.Livemode), fmt.Sprint(c.Livemode)},
	}); why != "" {
		return why
	}
	switch {
	case !isObjectID(s.ID):
		return fmt.Sprintf("session: got the id %.80q", s.ID)
	case c.SessionID != "" && s.ID != c.SessionID:
		return fmt.Sprintf("session: got %.80q, want %.80q", s.ID, c.SessionID)
	case s.State != SessionPaid:
		return ""
	case c.Purpose == PlanPurpose && !isObjectID(s.Subscription):
		return fmt.Sprintf("subscription: got the id %.80q", s.Subscription)
	case c.Purpose == PlanPurpose:
		return "" // its invoices say what was charged
	}
	return s.Charge.differs(c.Total())
}

// differs says in what a charge differs from one of that total, "" where it does not.
func (c Charge) differs(total Cents) string {
	switch {
	case !isObjectID(c.PaymentID) || !isObjectID(c.CostID):
		return fmt.Sprintf("charge: got the ids %.80q and %.80q", c.PaymentID, c.CostID)
	case c.Total != total:
		return fmt.Sprintf("charge: got %d, want %d", c.Total, total)
	case c.Cost < 0 || c.Cost > c.Total:
		return fmt.Sprintf("cost: got %d of %d", c.Cost, c.Total)
	}
	return ""
}

// maxObjectID bounds the ids of a processor, in bytes.
const maxObjectID = 255

// isObjectID reports whether a text may be an id of a processor: 1 to 255 letters, digits,
// hyphens, dots and underscores.
func isObjectID(s string) bool {
	if s == "" || len(s) > maxObjectID {
		return false
	}
	for _, c := range []byte(s) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-', c == '.':
		default:
			return false
		}
	}
	return true
}
