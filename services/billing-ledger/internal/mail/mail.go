// Package mail sends letters to users.
//
// A letter waits as a row, which a replica takes under a lock and has due again later, so
// that a process that dies loses no letter. Such a letter may come twice, which is harmless.
// A letter that cannot be sent is tried MaxTries times within about four hours. The row
// holds no secret: the token of a letter is made when it is sent (user.LetterToken), and
// each try has its own.
//
// A letter is plain text. What others chose, such as a display name, is not in it, so
// nobody can have us send their words.
package mail

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/services/billing-ledger/internal/user"
)

const (
	// MaxTries bounds how often a letter is tried.
	MaxTries = 8
	// interval is the pause between two looks for letters.
	interval = time.Second
	// maxAtOnce bounds the letters of one look.
	maxAtOnce = 50
	// sendTimeout bounds the sending of one letter.
	sendTimeout = 20 * time.Second
)

// Store keeps the letters that wait.
type Store interface {
	// Take takes the letter that is due first, and has it due again later. ok is false when
	// none is due.
	Take(ctx context.Context) (l Letter, ok bool, err error)
	Delete(ctx context.Context, id int64) error
}

// Tokens makes the tokens of letters.
type Tokens interface {
	// LetterToken makes a token. ok is false when the letter is for nobody.
	LetterToken(ctx context.Context, kind user.LetterKind, to user.Email, id user.ID) (text string, ok bool, err error)
}

// Sender sends a letter.
type Sender interface {
	Send(ctx context.Context, m Message) error
}

// Outcome is what became of a try.
type Outcome string

// The outcomes.
const (
	Sent    Outcome = "sent"
	ForNone Outcome = "for_nobody"
	Failed  Outcome = "failed"
	GivenUp Outcome = "given_up"
)

// Outcomes returns all outcomes.
func Outcomes() []Outcome { return []Outcome{Sent, ForNone, Failed, GivenUp} }

// Worker sends letters.
type Worker struct {
	Store  Store
	Tokens Tokens
	// Sender is nil where no letters are sent. They are forgotten then.
	Sender Sender
	// Site is where the pages are that letters lead to.
	Site    string
	Log     *slog.Logger
	Observe func(context.Context, Outcome)
	// Still leaves out looks that would find nothing.
	Still *clock.Still
}

// Run sends what is due, at every interval until ctx ends.
func (w *Worker) Run(ctx context.Context) {
	for range clock.EveryUnless(ctx, interval, w.Still) {
		w.SendDue(ctx)
	}
}

// SendDue sends the letters that are due.
func (w *Worker) SendDue(ctx context.Context) {
	for range maxAtOnce {
		l, ok, err := w.Store.Take(ctx)
		if w.Still.Learn(err) != nil && ctx.Err() == nil {
			w.Log.WarnContext(ctx, "letters could not be read", "error", err)
		}
		if err != nil || !ok {
			return
		}
		outcome, err := w.send(ctx, l)
		if err != nil && ctx.Err() == nil {
			w.Log.WarnContext(ctx, "a letter was not sent", "letter", l.ID, "kind", string(l.Kind), "try", l.Tries,
				"outcome", string(outcome), "error", err)
		}
		w.Observe(ctx, outcome)
	}
}

// send tries one letter.
func (w *Worker) send(ctx context.Context, l Letter) (Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	outcome, err := w.deliver(ctx, l)
	if err != nil && l.Tries < MaxTries {
		return Failed, err
	}
	if err != nil {
		outcome = GivenUp
	}
	if deleted := w.Store.Delete(ctx, l.ID); deleted != nil && err == nil {
		return outcome, deleted
	}
	return outcome, err
}

func (w *Worker) deliver(ctx context.Context, l Letter) (Outcome, error) {
	if w.Sender == nil {
		return ForNone, nil
	}
	token := ""
	if l.Kind == user.ConfirmLetter || l.Kind == user.ResetLetter {
		text, ok, err := w.Tokens.LetterToken(ctx, l.Kind, l.To, l.User)
		if err != nil || !ok {
			return ForNone, err
		}
		token = text
	}
	m, err := compose(l, w.Site, token)
	if err != nil {
		return ForNone, err
	}
	if err := w.Sender.Send(ctx, m); err != nil {
		return Failed, fmt.Errorf("send a letter: %w", err)
	}
	return Sent, nil
}
