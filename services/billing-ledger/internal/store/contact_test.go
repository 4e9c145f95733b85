package store_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"svc.internal/pkg/actor"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/pg"
	"svc.internal/services/billing-ledger/internal/enterprise"
	"svc.internal/services/billing-ledger/internal/store"
)

func contactsOn(st *store.Store) *enterprise.Contacts {
	return &enterprise.Contacts{Store: store.Agreements{Store: st}, Clock: clock.System, Random: rand.Reader}
}

func (e *env) contact(t testing.TB, account ids.AccountID, key, message string) enterprise.Contact {
	t.Helper()
	c, err := contactsOn(e.store).Send(t.Context(), enterprise.Contact{Account: account, Key: key, Company: "Acme",
		Message: message})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAContactIsKeptOnceForItsKey(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	ann, bob := e.member(t, "ann@example.com").User.Account, e.member(t, "bob@example.com").User.Account
	first := e.contact(t, ann, "k", "more")
	if again := e.contact(t, ann, "k", "more"); again.ID != first.ID {
		t.Errorf("a repeat: got contact %s, want %s", again.ID, first.ID)
	}
	if others := e.contact(t, bob, "k", "more"); others.ID == first.ID {
		t.Errorf("another account's contact of the same key: got %s, want another than the first account's", others.ID)
	}
	for name, c := range map[string]enterprise.Contact{
		"another message": {Account: ann, Key: "k", Company: "Acme", Message: "less"},
		"another company": {Account: ann, Key: "k", Company: "Umbrella", Message: "more"},
	} {
		if _, err := contactsOn(e.store).Send(t.Context(), c); !fault.Is(err, fault.IdempotencyKeyReused) {
			t.Errorf("%s: got the error %v, want the reason %s", name, err, fault.IdempotencyKeyReused)
		}
	}
	same(t, "contacts", scan[int64](t, e, `SELECT count(*) FROM enterprise_contact`), 2)
}

func TestAnAccountSendsAtMostThreeContactsADay(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	ann, bob := e.member(t, "ann@example.com").User.Account, e.member(t, "bob@example.com").User.Account
	var kept, refused atomic.Int64
	var callers sync.WaitGroup
	for n, pool := range e.pools(t, 3, nil) {
		contacts := contactsOn(store.New(pool, unlimited, terms))
		for i := range 4 {
			callers.Go(func() {
				_, err := contacts.Send(t.Context(), enterprise.Contact{Account: ann, Key: fmt.Sprint(n, i), Message: "more"})
				var f *fault.Fault
				switch {
				case err == nil:
					kept.Add(1)
				case errors.As(err, &f) && f.Reason == fault.RateLimitExceeded:
					refused.Add(1)
					// A transaction that began before the contact that it meets counts the day from its own beginning.
					if f.RetryAfter <= 23*time.Hour || f.RetryAfter > 24*time.Hour+time.Minute {
						t.Errorf("retry after: got %s, want about a day", f.RetryAfter)
					}
				default:
					t.Error(err)
				}
			})
		}
	}
	callers.Wait()
	same(t, "kept", kept.Load(), enterprise.MaxContacts)
	same(t, "refused", refused.Load(), 12-enterprise.MaxContacts)
	e.contact(t, bob, "k", "not bounded by another")
	// The oldest leaves the day, so that there is room for one.
	e.exec(t, `UPDATE enterprise_contact SET created_at = now() - interval '24 hours' WHERE id =
		(SELECT min(id::text)::uuid FROM enterprise_contact WHERE account_id = $1)`, ann)
	e.contact(t, ann, "later", "more")
	_, err := contactsOn(e.store).Send(t.Context(), enterprise.Contact{Account: ann, Key: "latest", Message: "more"})
	if !fault.Is(err, fault.RateLimitExceeded) {
		t.Errorf("a fourth of the day: got the error %v, want the reason %s", err, fault.RateLimitExceeded)
	}
}

func TestOnlyAConfirmedAddressAsksForTerms(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	in, _ := e.signUp(t, "ann@example.com")
	nobody := e.consumer(t, 0)
	for name, account := range map[string]ids.AccountID{"not confirmed": in.User.Account, "no user": nobody.account} {
		_, err := contactsOn(e.store).Send(t.Context(), enterprise.Contact{Account: account, Key: "k", Message: "more"})
		if !fault.Is(err, fault.EmailNotConfirmed) {
			t.Errorf("%s: got the error %v, want the reason %s", name, err, fault.EmailNotConfirmed)
		}
	}
	unknown := enterprise.Contact{Account: ids.AccountID{1}, Key: "k", Message: "more"}
	if _, err := contactsOn(e.store).Send(t.Context(), unknown); !fault.Is(err, fault.AccountNotFound) {
		t.Errorf("no account: got the error %v, want the reason %s", err, fault.AccountNotFound)
	}
}

func TestOperatorsReadContactsNewestFirstAndAnswerEachOnce(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	ann, bob := e.member(t, "ann@example.com").User.Account, e.member(t, "bob@example.com").User.Account
	contacts := contactsOn(e.store)
	var sent []enterprise.Contact
	for i, account := range []ids.AccountID{ann, bob, ann, bob, ann} {
		c := e.contact(t, account, fmt.Sprint("k", i), fmt.Sprint("message ", i))
		sent = append([]enterprise.Contact{c}, sent...)
		// Ids of one millisecond have no order.
		e.exec(t, `UPDATE enterprise_contact SET id = overlay(id::text placing $2 from 1 for 4)::uuid WHERE id = $1`,
			c.ID, fmt.Sprintf("%04x", i+1))
	}
	page, next, err := contacts.List(t.Context(), "", "", 3)
	if err != nil {
		t.Fatal(err)
	}
	rest, end, err := contacts.List(t.Context(), "", next, 3)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "cursor after the last page", end, "")
	all := append(page, rest...)
	same(t, "listed", len(all), len(sent))
	for i := range all {
		same(t, fmt.Sprint("message at ", i), all[i].Message, sent[i].Message)
		want := map[ids.AccountID]string{ann: "ann@example.com", bob: "bob@example.com"}[sent[i].Account]
		same(t, fmt.Sprint("address at ", i), all[i].Email, want)
	}
	for range 2 {
		answered, err := contacts.Answer(actor.WithOperator(t.Context(), "sue"), all[1].ID, "by e-mail")
		if err != nil {
			t.Fatal(err)
		}
		same(t, "state", answered.State(), enterprise.Answered)
		same(t, "answered by", answered.AnsweredBy, "operator:sue")
	}
	for what, set := range map[string]string{
		"an answer is taken back": "answered_at = NULL, answered_by = NULL WHERE answered_at IS NOT NULL",
		"somebody else answers":   "answered_at = now(), answered_by = 'operator:eve' WHERE answered_at IS NOT NULL",
		"one who is no operator":  "answered_at = now(), answered_by = 'sue' WHERE answered_at IS NULL",
	} {
		if e.attack(t, e.pool, "UPDATE enterprise_contact SET "+set) == nil {
			t.Errorf("%s: the database accepts it, want it refused", what)
		}
	}
	same(t, "acts", scan[int64](t, e, `SELECT count(*) FROM operator_action WHERE action = 'answer_contact'
		AND subject = $1 AND detail ->> 'note' = 'by e-mail'`, all[1].Account), 1)
	for state, want := range map[enterprise.ContactState]int{"": 5, enterprise.Open: 4, enterprise.Answered: 1} {
		page, _, err := contacts.List(t.Context(), state, "", 0)
		if err != nil {
			t.Fatal(err)
		}
		same(t, fmt.Sprintf("contacts in state %q", state), len(page), want)
	}
	if _, err := contacts.Answer(t.Context(), enterprise.ContactID{1}, "n"); !fault.Is(err, fault.ContactNotFound) {
		t.Errorf("an unknown contact: got the error %v, want the reason %s", err, fault.ContactNotFound)
	}
	e.exec(t, `UPDATE app_user SET email_confirmed_at = NULL`)
	if page, _, err = contacts.List(t.Context(), "", "", 1); err != nil {
		t.Fatal(err)
	}
	same(t, "an address that is not confirmed", page[0].Email, "")
}

func TestPagesOfContactsAreBounded(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	for name, call := range map[string]struct {
		state  enterprise.ContactState
		cursor string
		size   int
	}{
		"a page below one":    {size: -1},
		"a page beyond":       {size: enterprise.MaxContactPage + 1},
		"an unknown state":    {state: "odd"},
		"a cursor of nowhere": {cursor: "x"},
		"the cursor of none":  {cursor: ids.AccountID{}.String()},
	} {
		_, _, err := contactsOn(e.store).List(t.Context(), call.state, call.cursor, call.size)
		if !fault.Is(err, fault.InvalidValue) {
			t.Errorf("%s: got the error %v, want the reason %s", name, err, fault.InvalidValue)
		}
	}
}

func TestTextOfAContactIsTextOrRefused(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	for i, text := range []string{"'; DROP TABLE enterprise_contact; --", "<script>alert(1)</script>\r\n\tand more",
		"{{.}} ${x} %s \\u0000", "👩\u200d💻 نیم\u200cفاصله", strings.Repeat("ж", enterprise.MaxMessage)} {
		account := e.member(t, fmt.Sprintf("u%d@example.com", i)).User.Account
		c := e.contact(t, account, "k", text)
		got := scan[string](t, e, `SELECT message FROM enterprise_contact WHERE id = $1`, c.ID)
		same(t, "kept", got, text)
	}
	account := e.member(t, "last@example.com").User.Account
	for name, c := range map[string]enterprise.Contact{
		"no message":             {Message: ""},
		"spaces alone":           {Message: " \n\u3000"},
		"a zero byte":            {Message: "a\x00b"},
		"an escape":              {Message: "a\x1b[31mb"},
		"a turn of direction":    {Message: "a\u202eb"},
		"an isolate":             {Message: "a\u2067b"},
		"no UTF-8":               {Message: "a\xff"},
		"one more than the most": {Message: strings.Repeat("x", enterprise.MaxMessage+1)},
		"a company of two lines": {Message: "m", Company: "a\nb"},
		"a long company":         {Message: "m", Company: strings.Repeat("x", enterprise.MaxCompany+1)},
	} {
		c.Account, c.Key = account, "k"
		if _, err := contactsOn(e.store).Send(t.Context(), c); !fault.Is(err, fault.InvalidValue) {
			t.Errorf("%s: got the error %v, want the reason %s", name, err, fault.InvalidValue)
		}
	}
}

func TestContactsAreKeptForAYear(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	account := e.member(t, "ann@example.com").User.Account
	old, young := e.contact(t, account, "old", "more"), e.contact(t, account, "young", "more")
	e.exec(t, `UPDATE enterprise_contact SET created_at = now() - interval '366 days' WHERE id = $1`, old.ID)
	e.exec(t, `UPDATE enterprise_contact SET created_at = now() - interval '364 days' WHERE id = $1`, young.ID)
	n, err := e.store.PruneContacts(t.Context(), 10)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "pruned", n, 1)
	same(t, "left", scan[enterprise.ContactID](t, e, `SELECT id FROM enterprise_contact`), young.ID)
}

// TestTheTableOfContactsIsFinishedAfterABreak has the migration run on what it had done before it was broken off.
func TestTheTableOfContactsIsFinishedAfterABreak(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	const check = `SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'operator_action_action_check'`
	want := scan[string](t, e, check)
	for name, broken := range map[string]string{
		"before an index": `DROP INDEX enterprise_contact_open`,
		"before the actions are checked": `ALTER TABLE operator_action DROP CONSTRAINT operator_action_action_check;
			ALTER TABLE operator_action ADD CONSTRAINT operator_action_action_check ` + want + ` NOT VALID`,
		"at its end": `SELECT 1`,
	} {
		e.exec(t, `DELETE FROM schema_migrations WHERE version_id >= 52`)
		if _, err := e.owner.Exec(t.Context(), broken); err != nil {
			t.Fatal(err)
		}
		url := e.owner.Config().ConnConfig.ConnString()
		if err := pg.Migrate(t.Context(), url, store.Schema, store.Role, migrationsUpTo(t, "00052")); err != nil {
			t.Fatalf("broken off %s: got the error %v, want none", name, err)
		}
		same(t, "the actions, broken off "+name, scan[string](t, e, check), want)
		same(t, "indexes, broken off "+name, scan[int64](t, e, `SELECT count(*) FROM pg_indexes
			WHERE tablename = 'enterprise_contact'`), 5)
	}
}
