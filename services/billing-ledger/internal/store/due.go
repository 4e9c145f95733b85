package store

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/services/billing-ledger/internal/card"
	"svc.internal/services/billing-ledger/internal/enterprise"
	"svc.internal/services/billing-ledger/internal/mail"
	"svc.internal/services/billing-ledger/internal/operator"
	"svc.internal/services/billing-ledger/internal/stats"
	"svc.internal/services/billing-ledger/internal/user"
)

// Work is what one loop, or one step of a loop, looks for.
type Work int

// The kinds of work that are found in the tables. What expires is found by the Prune method of the same name.
const (
	DueLetters Work = iota
	DueTurns
	DueCards
	DueSandbox
	DueSubscriptions
	DueHolds
	DueSlices
	DuePublications
	ExpiredClaims
	ExpiredVisitors
	ExpiredVisitorSessions
	ExpiredSessions
	ExpiredFamilies
	ExpiredLetterTokens
	ExpiredLetters
	ExpiredProofs
	ExpiredAttempts
	ExpiredNetworks
	ExpiredAccountEvents
	ExpiredOperatorSessions
	ExpiredStats
	ExpiredContacts
)

// Works returns all kinds of work.
func Works() []Work {
	var all []Work
	for w := range dues {
		all = append(all, w)
	}
	slices.Sort(all)
	return all
}

// dueSample bounds the rows that are read where no index has the first of them. Where there are more, the work counts
// as due.
const dueSample = 200

// dues say when the first work of a kind is due, as pg.Lull.Until wants it.
var dues = map[Work]string{ //nolint:gosec // statements, no credentials
	DueLetters: fmt.Sprintf(`SELECT min(due_at) FROM mail_outbox WHERE tries < %d`, mail.MaxTries),
	DueTurns: first(`SELECT '-infinity'::timestamptz FROM account_event WHERE pending LIMIT 1`,
		sample(`greatest(next_at, busy_until, paused_until)`, `webhook WHERE next_at IS NOT NULL`)),
	DueCards: first(least("processor_event", "due_at"), least("checkout", "due_at"), least("card_refund", "due_at"),
		least("card_debt", "due_at"), `SELECT coalesce(min(due_at), '-infinity') FROM card_listing`,
		`SELECT min(at) + `+seconds(card.DebtLostAfter)+` FROM account_freeze WHERE cause = 'dispute' AND lifted_at IS NULL`),
	DueSandbox: first(least("sandbox_event", "due_at"), least("sandbox_subscription", "due_at")),
	DueSubscriptions: first(least("subscription", "due_at"), least("subscription", "tell_at"),
		least("plan_invoice", "refund_due_at")),
	// A hold that stays open behind its time waits for a report, a review or the end of a review.
	DueHolds:        `SELECT min(expires_at) FROM hold WHERE state = 'open'`,
	DueSlices:       sample(`coalesce(reclaim_at, alive_until)`, `slice`),
	DuePublications: least("orphan_review", "next_at"),

	ExpiredClaims:           `SELECT min(expires_at) FROM idempotency_claim`,
	ExpiredVisitors:         `SELECT min(expires_at) FROM visitor`,
	ExpiredVisitorSessions:  `SELECT min(expires_at) FROM visitor_session`,
	ExpiredSessions:         `SELECT min(expires_at) + ` + seconds(user.SessionKept) + ` FROM user_session`,
	ExpiredFamilies:         `SELECT min(expires_at) + ` + seconds(user.FamilyKept) + ` FROM session_family`,
	ExpiredLetterTokens:     `SELECT min(expires_at) FROM letter_token`,
	ExpiredLetters:          fmt.Sprintf(`SELECT min(due_at) FROM mail_outbox WHERE tries >= %d`, mail.MaxTries),
	ExpiredProofs:           `SELECT min(expires_at) FROM used_proof`,
	ExpiredAttempts:         `SELECT min(full_at) FROM sign_in_count`,
	ExpiredNetworks:         `SELECT min(used_at) + ` + seconds(user.NetworkKept) + ` FROM known_network`,
	ExpiredAccountEvents:    `SELECT min(stored_at) + ` + seconds(eventsKept) + ` FROM account_event WHERE NOT pending`,
	ExpiredOperatorSessions: `SELECT min(created_at) + ` + seconds(operator.SessionKept) + ` FROM operator_session`,
	ExpiredStats:            expiredStats(),
	ExpiredContacts:         `SELECT min(created_at) + ` + seconds(enterprise.ContactsKept) + ` FROM enterprise_contact`,
}

// Due is for one loop, or one step of a loop, that looks for work; see pg.Lull.Until.
func (s *Store) Due(w Work) *clock.Still { return s.lull.Until(dues[w]) }

// DueSeal is Due of the sealer, which seals a day this long after its end.
func (s *Store) DueSeal(after time.Duration) *clock.Still {
	return s.lull.Until(`SELECT ((` + unsealedDay + `) + 1)::timestamptz + ` + seconds(after))
}

// first is the first of several times.
func first(queries ...string) string { return `SELECT least((` + strings.Join(queries, `), (`) + `))` }

// least is the first time in a column, of which an index has those that are not NULL.
func least(table, column string) string {
	return fmt.Sprintf(`SELECT min(%[2]s) FROM %[1]s WHERE %[2]s IS NOT NULL`, table, column)
}

// sample is the first time in rows, unless there are many.
func sample(at, rows string) string {
	return fmt.Sprintf(`SELECT CASE WHEN count(*) < %d THEN min(at) ELSE '-infinity' END FROM (SELECT %s AS at FROM %s
		LIMIT %[1]d) s`, dueSample, at, rows)
}

func expiredStats() string {
	all := []string{`SELECT min(at) + ` + seconds(stats.UsesKept) + ` FROM stats_use`}
	for span, kept := range stats.Spans {
		all = append(all, fmt.Sprintf(`SELECT min(at) + %s FROM stats_sum WHERE span = %d`, seconds(kept), span))
	}
	return first(all...)
}

// seconds is a duration as SQL.
func seconds(d time.Duration) string { return fmt.Sprintf(`make_interval(secs => %f)`, d.Seconds()) }
