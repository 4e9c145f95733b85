package enterprise

import (
	"context"
	"fmt"
	"io"
	"time"
	"unicode"
	"unicode/utf8"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/account"
)

// Bounds of contacts. Texts are in characters.
const (
	MaxCompany = 200
	MaxMessage = 4000
	// MaxContacts is how many contacts an account may send in ContactSpan.
	MaxContacts = 3
	ContactSpan = 24 * time.Hour
	// ContactsKept is how long a contact is kept.
	ContactsKept = 365 * 24 * time.Hour
	// MaxContactPage bounds a page of contacts.
	MaxContactPage     = 100
	defaultContactPage = 50
)

type contactKind struct{}

// ContactID names a contact. It begins with the time, so ids are in the order of their contacts.
type ContactID = ids.Of[contactKind]

// ContactState is where a contact stands.
type ContactState string

// The states of a contact. It is answered once, for ever.
const (
	Open     ContactState = "open"
	Answered ContactState = "answered"
)

// Contact is a message by which an account asks for terms. Company and Message are text of the
// account's user, and nothing else.
type Contact struct {
	ID      ContactID
	Account ids.AccountID
	// Key is the caller's idempotency key: one for each contact of an account.
	Key              string
	Company, Message string
	Created          time.Time
	// Answered is zero while the contact is open, and AnsweredBy is empty.
	Answered   time.Time
	AnsweredBy string
	// Email is the confirmed address of the account's user; empty for none. Only lists have it.
	Email string
}

// State is where the contact stands.
func (c Contact) State() ContactState {
	if c.Answered.IsZero() {
		return Open
	}
	return Answered
}

func (c Contact) validate() error {
	switch {
	case !account.ValidLabel(c.Company, 0, MaxCompany):
		return invalid("company", "must have at most %d printable characters", MaxCompany)
	case !validMessage(c.Message):
		return invalid("message", "must have 1 to %d characters, and of control characters ends of lines alone",
			MaxMessage)
	}
	return nil
}

// validMessage reports whether a message has something to read, no control characters but ends of
// lines and tabs, and nothing that turns the direction of the text around it.
func validMessage(text string) bool {
	if !utf8.ValidString(text) || utf8.RuneCountInString(text) > MaxMessage {
		return false
	}
	something := false
	for _, r := range text {
		if turns(r) || unicode.IsControl(r) && r != '\n' && r != '\r' && r != '\t' {
			return false
		}
		something = something || unicode.IsGraphic(r) && !unicode.IsSpace(r)
	}
	return something
}

// turns reports whether a character changes the direction of the text around it, so that a reader sees
// another text than was sent.
func turns(r rune) bool { return r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069' }

// ContactStore keeps contacts.
type ContactStore interface {
	// AddContact keeps a contact. Where the account has one of the same key it returns that one.
	// It fails with Unconfirmed, with TooManyContacts, and with account.ErrNotFound.
	AddContact(ctx context.Context, c Contact) (Contact, error)
	// Contacts lists up to limit contacts of a state that are older than the given one, the newest
	// first. An empty state is any, and a zero id lists from the newest.
	Contacts(ctx context.Context, state ContactState, before ContactID, limit int) ([]Contact, error)
	// AnswerContact marks a contact as answered, once, with an entry in the audit log. It fails with
	// NoContact.
	AnswerContact(ctx context.Context, id ContactID, note string) (Contact, error)
}

// Unconfirmed is the fault for an account whose user could not be answered.
func Unconfirmed() error {
	return fault.New(fault.Denied, fault.EmailNotConfirmed,
		"Confirm the e-mail address of your account first: the answer goes there.")
}

// TooManyContacts is the fault for an account that may send its next contact after a time.
func TooManyContacts(after time.Duration) error {
	return fault.New(fault.Exhausted, fault.RateLimitExceeded,
		"An account may send at most %d messages in %d hours.", MaxContacts, int(ContactSpan.Hours())).After(after)
}

// NoContact is the fault for a contact that is not there.
func NoContact() error {
	return fault.New(fault.NotFound, fault.ContactNotFound, "there is no such contact").On("contact_id")
}

// Contacts takes the messages of accounts, and shows them to operators.
type Contacts struct {
	Store  ContactStore
	Clock  clock.Clock
	Random io.Reader
}

// Send keeps a contact. A repeat of its key returns the first contact of the key.
func (s *Contacts) Send(ctx context.Context, c Contact) (Contact, error) {
	if err := c.validate(); err != nil {
		return Contact{}, err
	}
	var err error
	if c.ID, err = ids.New[contactKind](s.Clock.Now(), s.Random); err != nil {
		return Contact{}, fmt.Errorf("make the id of a contact: %w", err)
	}
	kept, err := s.Store.AddContact(ctx, c)
	switch {
	case err != nil:
		return Contact{}, explain(err, "keep a contact")
	case kept.Company != c.Company || kept.Message != c.Message:
		return Contact{}, fault.New(fault.Precondition, fault.IdempotencyKeyReused,
			"another message was sent with this key").On("idempotency_key")
	}
	return kept, nil
}

// List returns a page of contacts, the newest first, and the cursor of the next page, which is empty
// after the last. A page of no size has the default size.
func (s *Contacts) List(
	ctx context.Context, state ContactState, cursor string, size int,
) (page []Contact, next string, err error) {
	if state != "" && state != Open && state != Answered {
		return nil, "", invalid("state", "must be %s or %s", Open, Answered)
	}
	if size == 0 {
		size = defaultContactPage
	}
	if size < 1 || size > MaxContactPage {
		return nil, "", invalid("page_size", "must be between 1 and %d", MaxContactPage)
	}
	var before ContactID
	if cursor != "" {
		if err := before.UnmarshalText([]byte(cursor)); err != nil || before.IsZero() {
			return nil, "", invalid("cursor", "must be the next_cursor of a page")
		}
	}
	page, err = s.Store.Contacts(ctx, state, before, size+1)
	if err != nil {
		return nil, "", fmt.Errorf("list contacts: %w", err)
	}
	if len(page) > size {
		page = page[:size]
		next = page[size-1].ID.String()
	}
	return page, next, nil
}

// Answer marks a contact as answered. A repeat changes nothing.
func (s *Contacts) Answer(ctx context.Context, id ContactID, note string) (Contact, error) {
	if !account.ValidLabel(note, 1, account.MaxMemo) {
		return Contact{}, invalid("note", "must have 1 to %d printable characters", account.MaxMemo)
	}
	answered, err := s.Store.AnswerContact(ctx, id, note)
	return answered, explain(err, "answer a contact")
}
