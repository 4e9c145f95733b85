//go:build watch

package watch

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/pg/devclock"
	"svc.internal/services/proving/internal/fleet"
	"svc.internal/services/proving/internal/trial"
)

// webhookSecret signs what the card processor sends.
const webhookSecret = "whsec-of-a-processor-on-loopback"

// TestAlertsFireByFaultsOfTheLedgerAndOfServing brings about faults of billing-ledger, of
// gateways, of hubs and of routers in one fleet. Its e-mail server never answers, and its card
// processor does only once it is mended.
func TestAlertsFireByFaultsOfTheLedgerAndOfServing(t *testing.T) {
	stripe := newCardProcessor(t)
	m, s, load := market(t, ledgerAndServing(t, stripe))
	trial.Until(t, "requests are answered", func() bool { return load.Answered() >= 50 })
	for _, alert := range []string{"LedgerKeepsWhatIsOver", "CardPaymentNeedsAPerson", "CardProcessorUnread",
		"RefreshTokenReused", "LettersNotSent", "PassbookBehind", "LedgerNotCompared", "ReportsOfRequestsDropped",
		"HubJournalHalfFull", "TrustDropped"} {
		s.quiet(t, alert)
	}
	load.Stop() // time is moved next, which would end the requests under way
	trial.Until(t, "no hold is open", func() bool { return len(s.query(t, `max(svc_billing_holds_open) == 0`)) > 0 })
	t.Run("the e-mail server is away", func(t *testing.T) { mailAway(t, m, s) })
	t.Run("refresh tokens are copied", func(t *testing.T) { tokensCopied(t, m, s) })
	t.Run("the card processor is away, and knows a payment that is not ours", func(t *testing.T) {
		cardsAway(t, m, s, stripe)
	})
	t.Run("a transaction does not end", func(t *testing.T) { transactionStays(t, m, s) })
	t.Run("the ledger takes no reports and settles nothing", func(t *testing.T) { nothingSettled(t, m, s) })
	t.Run("a provider has more models than a router keeps", func(t *testing.T) { tooManyModels(t, m, s) })
	t.Run("a table stays locked", func(t *testing.T) { tableLocked(t, m, s) })
}

// ledgerAndServing has bounds that a small load reaches, and pauses that a test can wait for.
func ledgerAndServing(t *testing.T, stripe *cardProcessor) func(*fleet.Config) {
	t.Helper()
	secret := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		write(t, path, []byte(text))
		return "file:" + path
	}
	return func(c *fleet.Config) {
		c.Replicas[fleet.Agent], c.References, c.Clock = 2, 0, true
		c.Settings = map[string]map[string]any{
			fleet.Billing: {"billing": map[string]any{
				"reconcile_interval": "2s", "seal_interval": "2s", "retention_days": 8, "partition_days": 31,
				"mail": map[string]any{
					"sender": "smtp", "smtp_addr": trial.FreeAddress(t), "from": "market@example.org", "plaintext": true,
				},
				"card": map[string]any{
					"processor": "stripe", "stripe_url": stripe.URL, "stripe_key": secret("key", "rk_test_onloopback"),
					"webhook_secret": secret("webhook", webhookSecret),
				},
			}},
			fleet.Hub:     {"hub": map[string]any{"journal_max_attempts": 600}},
			fleet.Gateway: {"gateway": map[string]any{"report_queue": 16}},
		}
	}
}

// lasts is like fires, but the alert must go on firing for ten seconds, because the moment in which
// a test moves the database's time may fire an alert without its fault.
func (s *server) lasts(t *testing.T, alert string) {
	t.Helper()
	s.fires(t, alert, "")
	expr := fmt.Sprintf(`count_over_time(ALERTS{alertname=%q,alertstate="firing"}[10s]) >= 10`, alert)
	trial.Until(t, alert+" fires for ten seconds", func() bool { return len(s.query(t, expr)) > 0 })
}

// pass moves the time of a fleet's database on.
func pass(t *testing.T, m *trial.Market, by time.Duration) {
	t.Helper()
	if _, err := devclock.Advance(t.Context(), m.Fleet().DatabaseURL(), by); err != nil {
		t.Fatal(err)
	}
}

// stays begins a transaction that stays open until the returned function is called.
func stays(t *testing.T, m *trial.Market, statement string) (end func()) {
	t.Helper()
	db, err := pgx.Connect(t.Context(), m.Fleet().DatabaseURL())
	if err != nil {
		t.Fatal(err)
	}
	tx, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := db.Close(t.Context()); err != nil { // the server rolls back
			t.Error(err)
		}
	}
}

// wants makes a call and fails the test unless the answer has the wanted status.
func wants(t *testing.T, m *trial.Market, status int, path, body string, headers ...string) http.Header {
	t.Helper()
	got, header, answer := m.Call(t, http.MethodPost, path, "", body, headers...)
	if got != status {
		t.Fatalf("POST %s: got %d %s, want %d", path, got, answer, status)
	}
	return header
}

// credentials are those of a user who signs in again and again.
const credentials = `{"email":"copied@example.org","password":"correct horse battery"}`

// tokensCopied has somebody use a copy of each of a user's refresh tokens. Six are more than
// browsers that were restored explain.
func tokensCopied(t *testing.T, m *trial.Market, s *server) {
	wants(t, m, http.StatusCreated, "/api/v1/user/signup",
		strings.TrimSuffix(credentials, "}")+`,"display_name":"Copied"}`)
	page := []string{"Sec-Fetch-Site", "same-origin"} // a browser says so of a page of ours
	refresh := func(status int, cookie string) {
		wants(t, m, status, "/api/v1/user/refresh", "", append(page, "Cookie", cookie)...)
	}
	var used []string
	for range 6 {
		cookie := refreshCookie(t, wants(t, m, http.StatusOK, "/api/v1/user/login", credentials, page...))
		refresh(http.StatusOK, cookie)
		used = append(used, cookie)
	}
	pass(t, m, time.Minute) // two pages of one browser may show the same token for some seconds
	s.quiet(t, "RefreshTokenReused")
	for _, cookie := range used {
		refresh(http.StatusUnauthorized, cookie)
	}
	s.fires(t, "RefreshTokenReused", `,severity="ticket"`)
}

// refreshCookie is the cookie that an answer sets, as a browser shows it.
func refreshCookie(t *testing.T, header http.Header) string {
	t.Helper()
	for _, c := range (&http.Response{Header: header}).Cookies() {
		if c.Name == "svc_refresh" {
			return c.Name + "=" + c.Value
		}
	}
	t.Fatalf("cookies: got %v, want the refresh token's", header["Set-Cookie"])
	return ""
}

// mailAway has a user ask for a letter that no server takes. It is given up after four hours.
func mailAway(t *testing.T, m *trial.Market, s *server) {
	wants(t, m, http.StatusCreated, "/api/v1/user/signup",
		`{"email":"letters@example.org","password":"correct horse battery","display_name":"Letters"}`)
	const waiting, due = `SELECT count(*) FROM billing.mail_outbox`, ` WHERE due_at <= now()`
	tries := 1
	for ; ; tries++ {
		trial.Until(t, "the letter was tried", func() bool { return number(t, m, waiting+due) == 0 })
		if number(t, m, waiting) == 0 {
			break
		}
		s.quiet(t, "LettersNotSent")
		pass(t, m, time.Second*time.Duration(number(t, m,
			`SELECT ceil(extract(epoch FROM max(due_at) - now()))::integer FROM billing.mail_outbox`)))
	}
	if tries != 8 {
		t.Errorf("tries: got %d, want 8", tries)
	}
	s.fires(t, "LettersNotSent", `,severity="ticket"`)
}

// number returns the number that a query of the fleet's database reads.
func number(t *testing.T, m *trial.Market, query string) (n int) {
	t.Helper()
	db, err := pgx.Connect(t.Context(), m.Fleet().DatabaseURL())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	if err := db.QueryRow(t.Context(), query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// cardProcessor is Stripe on loopback, as far as the ledger asks it. It answers 503 until it is
// mended, and then has one session, which the ledger has not made.
type cardProcessor struct {
	*httptest.Server
	mended atomic.Bool
}

// foreign is the session that is not the ledger's.
const foreign = "cs_test_foreign"

func newCardProcessor(t *testing.T) *cardProcessor {
	t.Helper()
	p := &cardProcessor{}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, body := http.StatusServiceUnavailable, `{"error":{"type":"api_error"}}`
		if p.mended.Load() {
			status, body = http.StatusOK, `{"object":"list","data":[],"has_more":false}`
			if strings.HasSuffix(r.URL.Path, "/"+foreign) {
				body = `{"id":"` + foreign + `","object":"checkout.session","mode":"payment","status":"open","currency":"usd"}`
			}
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body)) // whoever left does not read it
	}))
	t.Cleanup(p.Close)
	return p
}

// tell sends the event that the foreign session is paid.
func (p *cardProcessor) tell(t *testing.T, m *trial.Market) {
	t.Helper()
	body := `{"id":"evt_1","type":"checkout.session.completed","data":{"object":{"id":"` + foreign + `"}}}`
	at := fmt.Sprint(time.Now().Unix())
	mac := hmac.New(sha256.New, []byte(webhookSecret))
	mac.Write([]byte(at + "." + body))
	wants(t, m, http.StatusOK, "/webhooks/card", body, "Stripe-Signature",
		"t="+at+",v1="+hex.EncodeToString(mac.Sum(nil)))
}

// cardsAway has the card processor tell of a payment and then not answer for hours. Once it
// answers, the payment turns out to be somebody else's, until an operator has looked at it.
func cardsAway(t *testing.T, m *trial.Market, s *server, stripe *cardProcessor) {
	stripe.tell(t, m)
	s.quiet(t, "CardProcessorUnread")
	pass(t, m, 2*time.Hour)
	s.lasts(t, "CardProcessorUnread")
	s.quiet(t, "CardPaymentNeedsAPerson")
	stripe.mended.Store(true)
	pass(t, m, 2*time.Hour) // the next look is due
	s.quiet(t, "CardProcessorUnread")
	s.fires(t, "CardPaymentNeedsAPerson", `,severity="ticket"`)
	close := exec.CommandContext(t.Context(), filepath.Join(trial.Programs(t, ""), fleet.Billing), "alarms", "-close",
		"foreign", "-object", foreign, "-by", "A Test")
	close.Env = []string{"DATABASE_URL=" + m.Fleet().DatabaseURL()}
	if out, err := close.CombinedOutput(); err != nil {
		t.Fatalf("close the alarm: %v: %s", err, out)
	}
	s.quiet(t, "CardPaymentNeedsAPerson")
}

// transactionStays has a transaction stay open: the passbook stands still, and no day is sealed
// or cleared. No day was sealed before.
func transactionStays(t *testing.T, m *trial.Market, s *server) {
	s.quiet(t, "PassbookBehind")
	s.quiet(t, "LedgerKeepsWhatIsOver")
	end := stays(t, m, `SELECT pg_current_xact_id()`)
	defer end()
	pass(t, m, 10*time.Minute)
	s.lasts(t, "PassbookBehind")
	pass(t, m, 9*24*time.Hour)
	s.lasts(t, "LedgerKeepsWhatIsOver")
	end()
	s.quiet(t, "PassbookBehind")
	s.quiet(t, "LedgerKeepsWhatIsOver")
}

// tableLocked has a table locked as VACUUM FULL does it, while billing-ledger is started anew:
// a ledger that never compared itself since its start is found out, too.
func tableLocked(t *testing.T, m *trial.Market, s *server) {
	s.quiet(t, "LedgerNotCompared")
	end := stays(t, m, `LOCK TABLE billing.wallet IN ACCESS EXCLUSIVE MODE`)
	defer end()
	kill(t, m, fleet.Billing)
	for _, name := range m.Fleet().Replicas(fleet.Billing) {
		if err := m.Fleet().Launch(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	s.lasts(t, "LedgerNotCompared")
	end()
	s.quiet(t, "LedgerNotCompared")
}
