package store_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"svc.internal/pkg/fault"
	"svc.internal/services/billing-ledger/internal/key"
	"svc.internal/services/billing-ledger/internal/mail"
	"svc.internal/services/billing-ledger/internal/store"
	"svc.internal/services/billing-ledger/internal/user"
)

// letters is a sender that keeps what it is given, unless it fails.
type letters struct {
	err  error
	sent []mail.Message
}

func (l *letters) Send(_ context.Context, m mail.Message) error {
	if l.err == nil {
		l.sent = append(l.sent, m)
	}
	return l.err
}

// deliver sends what is due and returns it, with what became of the tries.
func (e *env) deliver(t testing.TB, to *letters) (sent []mail.Message, outcomes []mail.Outcome) {
	t.Helper()
	w := &mail.Worker{Store: store.Letters{Store: e.store}, Tokens: e.users(t), Sender: to, Site: "https://site.example",
		Log:     slog.New(slog.DiscardHandler),
		Observe: func(_ context.Context, o mail.Outcome) { outcomes = append(outcomes, o) }}
	w.SendDue(t.Context())
	return to.sent, outcomes
}

// tokenIn returns the token in a letter.
func tokenIn(t testing.TB, m mail.Message) string {
	t.Helper()
	_, rest, ok := strings.Cut(m.Text, "#token=")
	if !ok {
		t.Fatalf("%v: got no token, want one", m)
	}
	token, _, _ := strings.Cut(rest, "\n")
	return token
}

// only is the only letter.
func only(t testing.TB, sent []mail.Message, kind user.LetterKind) mail.Message {
	t.Helper()
	if len(sent) != 1 {
		t.Fatalf("letters: got %d, want 1", len(sent))
	}
	if sent[0].Kind != kind {
		t.Fatalf("the letter: got %q, want %q", sent[0].Kind, kind)
	}
	return sent[0]
}

func TestAnEmailIsConfirmedOnceByWhoReadsIt(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	in, _ := e.signUp(t, "ada@example.com")
	if in.User.Confirmed {
		t.Error("after signing up: got confirmed, want not")
	}
	sent, _ := e.deliver(t, &letters{})
	token := tokenIn(t, only(t, sent, user.ConfirmLetter))
	if err := e.users(t).ConfirmEmail(t.Context(), token+"x"); !fault.Is(err, fault.InvalidCredentials) {
		t.Errorf("another token: got the error %v, want %s", err, fault.InvalidCredentials)
	}
	if err := e.users(t).ConfirmEmail(t.Context(), token); err != nil {
		t.Errorf("the token: got the error %v, want none", err)
	}
	if err := e.users(t).ConfirmEmail(t.Context(), token); !fault.Is(err, fault.InvalidCredentials) {
		t.Errorf("the token again: got the error %v, want %s", err, fault.InvalidCredentials)
	}
	if got, err := e.users(t).Get(t.Context(), in.User.ID); err != nil || !got.Confirmed {
		t.Errorf("confirmed: got %t and %v, want true", got.Confirmed, err)
	}
	if err := e.users(t).AskConfirm(t.Context(), in.User.ID); !fault.Is(err, fault.TransitionNotAllowed) {
		t.Errorf("asked again: got the error %v, want %s", err, fault.TransitionNotAllowed)
	}
	if err := e.users(t).ResetPassword(t.Context(), token, "battery staple", "net"); !fault.Is(err,
		fault.InvalidCredentials) {
		t.Errorf("a confirmation resets a password: got the error %v, want %s", err, fault.InvalidCredentials)
	}
}

func TestAPasswordIsResetOnceByWhoReadsTheEmail(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	in, _ := e.signUp(t, "ada@example.com")
	e.exec(t, `DELETE FROM mail_outbox`)
	users := e.users(t)
	if err := users.AskReset(t.Context(), "ADA@example.com"); err != nil {
		t.Fatal(err)
	}
	sent, _ := e.deliver(t, &letters{})
	token := tokenIn(t, only(t, sent, user.ResetLetter))
	if n := scan[int](t, e, `SELECT count(*) FROM letter_token WHERE token_sha256 = sha256(convert_to($1, 'UTF8'))`,
		token); n != 1 {
		t.Errorf("tokens stored by their SHA-256: got %d, want 1", n)
	}
	var resetters sync.WaitGroup
	var mu sync.Mutex
	worked := 0
	for range 3 {
		resetters.Go(func() {
			err := e.users(t).ResetPassword(context.Background(), token, "battery staple", "net")
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				worked++
			} else if !fault.Is(err, fault.InvalidCredentials) {
				t.Errorf("a reset: got the error %v, want %s", err, fault.InvalidCredentials)
			}
		})
	}
	resetters.Wait()
	if worked != 1 {
		t.Errorf("resets by one token: got %d, want 1", worked)
	}
	if e.live(t, in.Token) {
		t.Error("a session from before: got live, want over")
	}
	if _, err := users.LogIn(t.Context(), "ada@example.com", "battery staple", user.From{Network: "net"}); err != nil {
		t.Errorf("the new password: got the error %v, want none", err)
	}
	if got, err := users.Get(t.Context(), in.User.ID); err != nil || !got.Confirmed {
		t.Errorf("who reads the e-mail has confirmed it: got %t and %v, want true", got.Confirmed, err)
	}
	done, _ := e.deliver(t, &letters{})
	only(t, done, user.ResetDoneLetter)
}

func TestALettersTokenEnds(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	e.signUp(t, "ada@example.com")
	if err := e.users(t).AskReset(t.Context(), "ada@example.com"); err != nil {
		t.Fatal(err)
	}
	sent, _ := e.deliver(t, &letters{})
	if len(sent) != 2 {
		t.Fatalf("letters: got %d, want 2", len(sent))
	}
	e.exec(t, `ALTER TABLE letter_token DISABLE TRIGGER letter_token_stands`)
	e.exec(t, `UPDATE letter_token SET created_at = created_at - (expires_at - now()), expires_at = now()`)
	if err := e.users(t).ConfirmEmail(t.Context(), tokenIn(t, sent[0])); !fault.Is(err, fault.InvalidCredentials) {
		t.Errorf("a confirmation too late: got the error %v, want %s", err, fault.InvalidCredentials)
	}
	if err := e.users(t).ResetPassword(t.Context(), tokenIn(t, sent[1]), "battery staple", "net"); !fault.Is(err,
		fault.InvalidCredentials) {
		t.Errorf("a reset too late: got the error %v, want %s", err, fault.InvalidCredentials)
	}
	if n, err := e.store.PruneLetterTokens(t.Context(), 10); n != 2 || err != nil {
		t.Errorf("tokens forgotten: got %d and %v, want 2", n, err)
	}
}

// Nobody learns by a reset who has signed up: the same is said, done and stored for every
// e-mail, and only whoever sends the letter looks.
func TestAResetIsAskedAlikeForEveryEmail(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	e.signUp(t, "ada@example.com")
	e.exec(t, `DELETE FROM mail_outbox`)
	for i := range user.LetterPace.AtOnce + 1 {
		var texts []string
		for _, email := range []string{"ada@example.com", "eve@example.com"} {
			err := e.users(t).AskReset(t.Context(), email)
			text := ""
			if err != nil {
				text = string(refusal(t, err).Reason) + err.Error()
			}
			texts = append(texts, text)
		}
		if texts[0] != texts[1] {
			t.Errorf("letter %d: what the two e-mails are told: got %q, want %q", i+1, texts[0], texts[1])
		}
		if refused := texts[0] != ""; refused != (i == user.LetterPace.AtOnce) {
			t.Errorf("letter %d: refused: got %t (%s)", i+1, refused, texts[0])
		}
	}
	if n := scan[int](t, e, `SELECT count(*) FROM mail_outbox WHERE recipient = 'eve@example.com'
		AND user_id IS NULL`); n != user.LetterPace.AtOnce {
		t.Errorf("letters kept for nobody: got %d, want %d", n, user.LetterPace.AtOnce)
	}
	sent, outcomes := e.deliver(t, &letters{})
	for _, m := range sent {
		if m.To != "ada@example.com" {
			t.Errorf("a letter goes to %q, want nobody but who signed up", m.To)
		}
	}
	if len(sent) != user.LetterPace.AtOnce || len(outcomes) != 2*user.LetterPace.AtOnce {
		t.Errorf("sent: got %d of %d, want %d of %d", len(sent), len(outcomes), user.LetterPace.AtOnce,
			2*user.LetterPace.AtOnce)
	}
	if n := scan[int](t, e, `SELECT count(*) FROM mail_outbox`); n != 0 {
		t.Errorf("letters that wait: got %d, want 0", n)
	}
}

func TestALetterIsTriedAgainAndThenGivenUp(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	e.signUp(t, "ada@example.com")
	broken := &letters{err: errors.New("the server is away")}
	for try := range mail.MaxTries {
		_, outcomes := e.deliver(t, broken)
		want := mail.Failed
		if try == mail.MaxTries-1 {
			want = mail.GivenUp
		}
		if len(outcomes) != 1 || outcomes[0] != want {
			t.Fatalf("try %d: got %v, want %s", try+1, outcomes, want)
		}
		if _, outcomes := e.deliver(t, broken); len(outcomes) != 0 {
			t.Fatalf("at once after try %d: got %v, want no try", try+1, outcomes)
		}
		e.exec(t, `UPDATE mail_outbox SET due_at = now()`)
	}
	if n := scan[int](t, e, `SELECT count(*) FROM mail_outbox`); n != 0 {
		t.Errorf("letters that wait: got %d, want 0", n)
	}
}

func TestLettersThatWaitAreBounded(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	e.exec(t, `INSERT INTO mail_outbox (kind, recipient) SELECT 'reset', 'x@example.com' FROM generate_series(1, 2000)`)
	if err := e.users(t).AskReset(t.Context(), "ada@example.com"); !fault.Is(err, fault.ServiceUnavailable) {
		t.Errorf("one more: got the error %v, want %s", err, fault.ServiceUnavailable)
	}
	_, _, err := e.users(t).SignUp(t.Context(), "ada@example.com", password, "", user.From{Network: "net"})
	if err != nil {
		t.Errorf("signing up without a letter: got the error %v, want none", err)
	}
}

// F17: an account without a confirmed e-mail has one key, so that limits that hold for a key
// are not multiplied by accounts that cost nothing.
func TestTheSecondKeyNeedsAConfirmedEmail(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	in, _ := e.signUp(t, "ada@example.com")
	if _, _, err := e.ownKeys.Make(t.Context(), in.User.Account, key.Settings{}); !fault.Is(err, fault.EmailNotConfirmed) {
		t.Errorf("the second key: got the error %v, want %s", err, fault.EmailNotConfirmed)
	}
	sent, _ := e.deliver(t, &letters{})
	if err := e.users(t).ConfirmEmail(t.Context(), tokenIn(t, only(t, sent, user.ConfirmLetter))); err != nil {
		t.Fatal(err)
	}
	if _, _, err := e.ownKeys.Make(t.Context(), in.User.Account, key.Settings{}); err != nil {
		t.Errorf("the second key after that: got the error %v, want none", err)
	}
}
