package upgrade

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/pkg/pgtest"
	billingledger "svc.internal/services/billing-ledger"
	"svc.internal/services/proving/internal/auditor"
	"svc.internal/services/proving/internal/store"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// verified is the output of billing-ledger verify --json.
type verified struct {
	TrialBalance []trialLine `json:"trial_balance"`
	Seal         string      `json:"seal"`
	Drift        int64       `json:"drift"`
}

type trialLine struct {
	Account string `json:"account"`
	Debit   string `json:"debit_usd"`
	Credit  string `json:"credit_usd"`
}

// moved is the report without accounts that nothing ever moved: a later chart has more of
// them.
func (v verified) moved() verified {
	v.TrialBalance = slices.DeleteFunc(slices.Clone(v.TrialBalance), func(l trialLine) bool {
		return l.Debit == "0.00" && l.Credit == "0.00"
	})
	return v
}

// sealed is a closed day.
type sealed struct {
	Day      string `json:"day"`
	Lines    int64  `json:"lines"`
	Entries  int64  `json:"entries"`
	Postings int64  `json:"postings"`
	Root     string `json:"root"`
}

// wallet is an account's credit in nano-USD.
type wallet struct {
	Account string `json:"account_id"`
	Posted  int64  `json:"posted"`
	Held    int64  `json:"held"`
}

// earned is what a provider has earned by settlement's lines, in nano-USD. Digest covers
// the request and the payout of each.
type earned struct {
	Provider string `json:"provider_id"`
	Lines    int64  `json:"lines"`
	Payout   int64  `json:"payout_nano_usd"`
	Digest   string `json:"digest"`
}

// audited is the auditor's report, without names of tables.
type audited struct {
	Requests   int               `json:"requests"`
	Calls      int               `json:"calls"`
	Answers    []auditor.Count   `json:"answers"`
	Settled    int               `json:"settled"`
	Open       int               `json:"open"`
	Judged     int               `json:"judged"`
	Untied     int               `json:"untied"`
	Judgements []judgement       `json:"judgements"`
	Doubts     int               `json:"doubts"`
	Balances   []auditor.Balance `json:"balances"`
}

type judgement struct {
	Verdict string `json:"verdict"`
	Count   int    `json:"count"`
}

// books is what the version that made the day said of its tables.
type books struct {
	Verify  verified `json:"verify"`
	Seals   []sealed `json:"seals"`
	Wallets []wallet `json:"wallets"`
	Earned  []earned `json:"earned"`
	Audit   audited  `json:"audit"`
}

// day is the database of the day.
type day struct {
	url  string
	pool *pgxpool.Pool // of billing-ledger
	want books
}

// The tables are loaded once for all claims, and none of the claims changes them.
func TestTheBooksOfADayAreRead(t *testing.T) {
	d := day{url: pgtest.URL(t), want: read[books](t, "want.json")}
	load(t, d.url)
	d.pool = pgtest.Open(t, d.url, billingledger.Schema, billingledger.Role)
	t.Run("verify finds no drift and the same trial balance", d.testVerify)
	t.Run("the days have the same seals", d.testSeals)
	t.Run("accounts have the same credit", d.testWallets)
	t.Run("providers have earned the same by every line", d.testEarned)
	t.Run("ledger and settlement settled the same requests", d.testCompared)
	t.Run("the auditor finds the same", d.testAudit)
}

func (d day) testVerify(t *testing.T) {
	report, err := billingledger.Verify(t.Context(), d.pool)
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := report.PrintJSON(&text); err != nil {
		t.Fatal(err)
	}
	var got verified
	if err := json.Unmarshal(text.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	same(t, got.moved(), d.want.Verify.moved())
	for _, i := range report.Invariants {
		if i.Drift > 0 {
			t.Errorf("%s: got drift %d, want 0", i.Name, i.Drift)
		}
	}
}

func (d day) testSeals(t *testing.T) {
	same(t, query[sealed](t, d.pool, `SELECT day::text, lines, entries, postings, encode(root, 'hex') AS root
		FROM billing.seal ORDER BY 1`), d.want.Seals)
}

func (d day) testWallets(t *testing.T) {
	same(t, query[wallet](t, d.pool, `SELECT account_id::text, posted, held
		FROM billing.wallet ORDER BY 1`), d.want.Wallets)
}

func (d day) testEarned(t *testing.T) {
	pool := pgtest.Open(t, d.url, "settlement", "")
	same(t, query[earned](t, pool, `SELECT provider_id::text, count(*), sum(payout_nano_usd)::bigint,
			encode(sha256(string_agg(request_id || ' ' || payout_nano_usd, ',' ORDER BY request_id)::bytea), 'hex')
		FROM settlement.earning WHERE settled GROUP BY 1 ORDER BY 1`), d.want.Earned)
}

func (d day) testCompared(t *testing.T) {
	b, err := store.Open(t.Context(), d.url)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	compared, err := b.Compare(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := compared.Requests, int64(d.want.Audit.Settled); got != want {
		t.Errorf("got %d requests, want %d", got, want)
	}
	if len(compared.Differing) > 0 {
		t.Errorf("got %d requests that differ, want none, the first: %s", len(compared.Differing), compared.Differing[0])
	}
}

// auditSkew is the skew that chaos allows a transaction.
const auditSkew = 30 * time.Second

func (d day) testAudit(t *testing.T) {
	var export, earnings bytes.Buffer
	if err := billingledger.Export(t.Context(), d.pool, &export, func(string, int64) {}); err != nil {
		t.Fatal(err)
	}
	b, err := store.Open(t.Context(), d.url)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := b.Dump(t.Context(), "settlement", &earnings); err != nil {
		t.Fatal(err)
	}
	report, err := auditor.Audit(auditor.Inputs{
		Export: &export, Earnings: &earnings,
		Clients: open(t, "clients.jsonl.gz"), Engines: open(t, "engines.jsonl.gz"), Setup: open(t, "setup.json"),
	}, auditor.Options{Skew: auditSkew})
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range report.Judgements {
		for _, f := range j.Findings {
			t.Errorf("%s: %s: %s", j.Verdict, f.Subject, f.Text)
		}
	}
	text, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	var got audited
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	// A later migration may open an account of the house, which has nothing.
	for _, a := range []*audited{&got, &d.want.Audit} {
		a.Balances = slices.DeleteFunc(a.Balances, func(b auditor.Balance) bool { return b.Amount == "0" })
	}
	same(t, got, d.want.Audit)
}

// query reads rows whose columns are the fields of T in their order.
func query[T any](t *testing.T, pool *pgxpool.Pool, sql string) []T {
	t.Helper()
	rows, err := pool.Query(t.Context(), sql)
	if err != nil {
		t.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[T])
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func same[T any](t *testing.T, got, want T) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}
