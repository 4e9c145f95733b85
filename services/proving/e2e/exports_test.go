package e2e

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/services/proving/internal/trial"
)

// exportLines is how many lines an account has of which a CSV is more than the sockets between the gateway and a reader
// take: some nine megabytes.
const exportLines = 60_000

// stuck is a client who asked for a CSV and has read its first byte.
type stuck struct{ body io.Reader }

// newStuck begins an export of an account's ledger, whose rest nobody reads.
func newStuck(t *testing.T, base, token string) stuck {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	request := "GET /api/v1/consumer/ledger.csv HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + token + "\r\n\r\n"
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReaderSize(conn, 16), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("an export: got %d, want 200", resp.StatusCode)
	}
	if _, err := io.ReadFull(resp.Body, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return stuck{resp.Body}
}

// Nothing here ends by time: an export that held the stop up, or a transaction, would hold the test up.
func TestAReaderWhoTakesNothingOfACSVHoldsNothingUp(t *testing.T) {
	t.Parallel() // it has a marketplace of its own
	m := trial.Start(t, "SVC_DEMO_AGENT=off", "SVC_GATEWAY_WRITE_TIMEOUT=1h", "SVC_DRAIN_TIMEOUT=1h")
	status, _, body := m.Call(t, http.MethodPost, "/api/v1/user/signup", "",
		`{"email":"ann@example.org","password":"correct horse battery"}`)
	if status != http.StatusCreated {
		t.Fatalf("sign up: got %d %s, want 201", status, body)
	}
	me := trial.Decode(t, body)
	token, account := trial.Text(t, me, "token"), trial.Text(t, me, "user", "account_id")
	db, err := pgxpool.New(t.Context(), m.Env["SVC_DATABASE_URL"])
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(t.Context(), `INSERT INTO billing.passbook_line (account_id, at, n, kind, ref, amount, balance)
		SELECT $1, now() - interval '1 day', n, 'goodwill', gen_random_uuid(), 1, n FROM generate_series(1, $2::int) n`,
		account, exportLines); err != nil {
		t.Fatal(err)
	}
	readers := []stuck{newStuck(t, m.Base(), token), newStuck(t, m.Base(), token)}
	status, header, body := m.Call(t, http.MethodGet, "/api/v1/consumer/ledger.csv", token, "")
	if status != http.StatusTooManyRequests {
		t.Errorf("a third export of the account: got %d %s, want 429", status, body)
	}
	if header.Get("Retry-After") == "" {
		t.Error("a third export of the account: got no Retry-After, want one")
	}
	var before string
	if err := db.QueryRow(t.Context(), `SELECT clock_timestamp()::text`).Scan(&before); err != nil {
		t.Fatal(err)
	}
	trial.Until(t, "no transaction of before is open", func() bool {
		var open bool
		if err := db.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database()
			AND xact_start < $1::text::timestamptz)`, before).Scan(&open); err != nil {
			t.Fatal(err)
		}
		return !open
	})
	db.Close()
	if err := m.Stop(); err != nil {
		t.Errorf("the stop: got the error %v, want none", err)
	}
	for i, r := range readers {
		if _, err := io.Copy(io.Discard, r.body); err == nil {
			t.Errorf("reader %d: got the end of the CSV, want one that broke off", i)
		}
	}
}
