package e2e

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"svc.internal/services/proving/internal/fleet"
	"svc.internal/services/proving/internal/trial"
)

// leastTables is how many tables have rows after all calls. Fewer would mean that the
// search is not where the marketplace stores things.
const leastTables = 25

// keptOnPurpose are the tables that may have a word because they are for keeping it: the
// name by which a user signs in, the e-mail that a letter goes or went to, and an engine's
// name for a model.
var keptOnPurpose = map[string]string{
	"billing.app_user": "email", "billing.mail_outbox": "email", "billing.letter_token": "email",
	"hub.answered_as": "engine's name of a model",
}

// search looks for all canaries in each place where a marketplace writes:
//
//   - texts: the log at the level debug and the console of one process,
//   - the agents' logs at the level debug,
//   - all metrics of all services,
//   - every column of every table, whichever its type, and the statements that
//     PostgreSQL shows,
//   - all spans, as an OTLP collector receives them,
//   - every file of the data directory dir but the secrets themselves: of a fleet
//     that is its logs, with PostgreSQL's, of both forms NATS' streams and the
//     hubs' journals; and what an agent keeps,
//   - the answers of the API, for what opens doors,
//   - what an engine is sent, for what opens doors that are not its own.
func (c *canaries) search(texts map[string]func() string, dir string) {
	c.t.Helper()
	for where, text := range c.metrics() {
		c.look(where, text, c.said, c.opening)
	}
	c.database()
	if err := c.m.Stop(); err != nil { // sends the spans that are left
		c.t.Fatal(err)
	}
	for where, text := range texts {
		opening := maps.Clone(c.opening)
		if where == "the console" { // it says how the two people of the demo sign in
			delete(opening, "the file secrets/consumer-password")
			delete(opening, "the file secrets/owner-password")
		}
		c.look(where, []byte(text()), c.said, opening)
	}
	c.look("the agents' log", []byte(c.agents.Text()), c.said, c.opening)
	c.look("a span", []byte(c.collector.Text()), c.said, c.opening)
	c.files(dir)
	c.files(c.stateDir)
	c.look("an answer", []byte(c.answers.String()), c.opening)
	c.heard()
}

// look reports every word that is in a text, as it is or in the forms in which databases,
// logs and streams write bytes. A text that is almost empty fails too.
func (c *canaries) look(where string, text []byte, words ...map[string]string) {
	c.t.Helper()
	if len(text) < 100 {
		c.t.Errorf("there is hardly anything of %s: got %d, want at least 100, in %q", where, len(text), text)
	}
	for _, list := range words {
		for what, word := range list {
			for form, shape := range written(word) {
				if i := bytes.Index(text, []byte(shape)); i >= 0 {
					c.t.Errorf("%s holds %s (%s), at: got %d, want less than 0, with %s", where, what, form, i,
						text[max(0, i-200):min(len(text), i+120)])
					break
				}
			}
		}
	}
}

// written is a word as it may be written.
func written(word string) map[string]string {
	out := map[string]string{"as it is": word, "in hexadecimal": hex.EncodeToString([]byte(word))}
	for skip := range 3 {
		// The bytes before a word shift its encoding, and its ends depend on the
		// neighbours.
		inner := base64.StdEncoding.EncodeToString(append(make([]byte, skip), word...))
		out[fmt.Sprintf("in base64 after %d", skip)] = inner[4 : len(inner)-4]
	}
	return out
}

// measured are metrics that must exist, to prove that the searched text is the metrics.
var measured = []string{
	"gen_ai_server_request_duration_seconds_count", "gen_ai_server_time_to_first_token_seconds_count",
	"gen_ai_server_time_per_output_token_seconds_count",
	"gen_ai_client_token_usage", "rpc_server_call_duration_seconds_count", "rpc_client_call_duration_seconds_count",
	"svc_billing_holds_open", "svc_billing_held_nano_usd", "svc_billing_oldest_hold_seconds",
	"svc_billing_usage_lag_seconds", "svc_billing_admissions_waiting",
	"svc_provider_hub_sessions", "svc_provider_hub_slots", "svc_provider_hub_unsettled", "svc_provider_hub_journal_bytes",
	"svc_provider_hub_sockets",
	"svc_router_sessions", "svc_router_models", "svc_router_candidates", "svc_router_breakers_open", "svc_router_bookings",
}

// metrics are the metrics of all services.
func (c *canaries) metrics() map[string][]byte {
	c.t.Helper()
	urls := map[string]string{"a metric": c.m.Env["SVC_METRICS_URL"]}
	if f := c.m.Fleet(); f != nil {
		urls = map[string]string{}
		for _, service := range []string{fleet.Gateway, fleet.Hub, fleet.Router, fleet.Billing, fleet.Settlement,
			fleet.Catalog} {
			for _, name := range f.Replicas(service) {
				urls["a metric of "+name] = f.AdminURL(name) + "/metrics"
			}
		}
	}
	out := map[string][]byte{}
	for where, at := range urls {
		status, _, body := trial.CallAt(c.t, at, http.MethodGet, "", "", "")
		if status != http.StatusOK {
			c.t.Errorf("%s: got %d, want 200, with %.300s", where, status, body)
		}
		out[where] = body
	}
	all := slices.Concat(slices.Collect(maps.Values(out))...)
	for _, name := range measured {
		if !bytes.Contains(all, []byte("\n"+name)) {
			c.t.Errorf("the metric %s: got %q, want %q in it", name, all, []byte("\n"+name))
		}
	}
	return out
}

// database searches every table, as PostgreSQL copies it out.
func (c *canaries) database() {
	c.t.Helper()
	ctx := c.t.Context()
	conn, err := pgx.Connect(ctx, c.m.Env["SVC_DATABASE_URL"])
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	// A letter gets its token when it is sent, which is after the sign-up has its answer.
	trial.Until(c.t, "the letter to the user is sent", func() bool {
		var sent bool
		if err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM billing.letter_token WHERE strpos(email, $1) > 0)`,
			c.said["email"]).Scan(&sent); err != nil {
			c.t.Fatal(err)
		}
		return sent
	})
	rows, err := conn.Query(ctx, `SELECT format('%I.%I', n.nspname, c.relname)
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE c.relkind IN ('r', 'm') AND n.nspname NOT IN ('pg_catalog', 'information_schema')
			AND n.nspname NOT LIKE 'pg\_%'`)
	if err != nil {
		c.t.Fatal(err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		c.t.Fatal(err)
	}
	tables = append(tables, "pg_stat_activity", "pg_largeobject")
	filled := 0
	for _, table := range tables {
		var dump bytes.Buffer
		tag, err := conn.PgConn().CopyTo(ctx, &dump, "COPY (SELECT * FROM "+table+") TO STDOUT")
		if err != nil {
			c.t.Fatalf("%s: %v", table, err)
		}
		if tag.RowsAffected() == 0 {
			continue
		}
		filled++
		said := maps.Clone(c.said)
		if what, ok := keptOnPurpose[table]; ok {
			if !strings.Contains(dump.String(), said[what]) {
				c.t.Errorf("the table %s, which is there for %s: got %q, want %q in it", table, what, dump.String(), said[what])
			}
			delete(said, what)
		}
		dump.WriteString(strings.Repeat("\n", 100)) // a table may be short
		c.look("the table "+table, dump.Bytes(), said, c.opening)
	}
	if filled < leastTables {
		c.t.Errorf("got %d of %d tables have rows, want %d at least", filled, len(tables), leastTables)
	}
	var sealed int
	if err := conn.QueryRow(ctx, `SELECT count(*) FROM kept.answer`).Scan(&sealed); err != nil {
		c.t.Errorf("%d answers are kept that could be read: got the error %v, want none", sealed, err)
	} else if sealed == 0 {
		c.t.Errorf("answers kept that could be read: got %d, want any but 0", sealed)
	}
}

// files searches a directory, except for the secrets that are kept in files of their own,
// the letters to users, the files with the demo's keys for an operator, and PostgreSQL's own tables, which
// database searches.
func (c *canaries) files(dir string) {
	c.t.Helper()
	n := 0
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		name, _ := filepath.Rel(dir, path)
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (name == "secrets" || name == "certs" || name == "letters" || entry.Name() == "base"):
			return fs.SkipDir
		case !entry.Type().IsRegular() || name == "demo.env" || name == "demo.json" || name == "fleet.env":
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		n++
		c.look("the file "+name, append(content, make([]byte, 100)...), c.said, c.opening)
		return nil
	})
	if err != nil {
		c.t.Errorf("%d files of %s: got the error %v, want none", n, dir, err)
	} else if n == 0 {
		c.t.Errorf("%d files of %s: %v: n: got 0, want any but 0", n, dir, err)
	}
}

// heard searches what the engine was sent. Words are for it; keys of others are not, nor
// is what identifies the consumer.
func (c *canaries) heard() {
	c.t.Helper()
	var all strings.Builder
	keys := 0
	for _, r := range c.engine.Requests() {
		if r.Header.Get("Authorization") == "Bearer "+c.opening["an engine's key"] {
			keys++
		}
		r.Header.Del("Authorization")
		fmt.Fprintf(&all, "%v %s\n", r.Header, r.Body)
	}
	if n := len(c.engine.Requests()); n < 20 {
		c.t.Errorf("of %d requests %d came with the engine's key: len(c.engine.Requests()): got %d, want at least 20", n,
			keys, n)
	} else if keys != n {
		c.t.Errorf("of %d requests %d came with the engine's key: keys: got %d, want %d", n, keys, keys, n)
	}
	who := map[string]string{}
	for _, what := range []string{"email", "user agent", "referer", "forwarded", "tracestate", "baggage", "request id",
		"organization", "query"} {
		who[what] = c.text(what)
	}
	c.look("what the engine is sent", []byte(all.String()), c.opening, who)
}
