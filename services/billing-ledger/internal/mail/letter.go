package mail

import (
	"svc.internal/services/billing-ledger/internal/user"
)

// Letter is a letter that waits.
type Letter struct {
	ID   int64
	Kind user.LetterKind
	To   user.Email
	// User is zero until the sender has looked up who has the e-mail.
	User user.ID
	// Tries counts this try too.
	Tries int
}

// Message is a letter as it is sent. It prints without its text, which has a token.
type Message struct {
	Kind              user.LetterKind
	To, Subject, Text string
}

// String keeps the text out of logs and errors.
func (m Message) String() string { return "letter " + string(m.Kind) }

// GoString keeps it out of %#v too.
func (m Message) GoString() string { return m.String() }
