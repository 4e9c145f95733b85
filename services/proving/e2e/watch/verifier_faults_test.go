//go:build watch

package watch

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/pkg/config"
	"svc.internal/pkg/fakeengine"
	provideragent "svc.internal/services/provider-agent"
	"svc.internal/services/proving/internal/cheat"
	"svc.internal/services/proving/internal/fleet"
	"svc.internal/services/proving/internal/trial"
)

const (
	// watched is the model of the fleet with a verifier that probes, and window its context, in
	// the tokens of package fakeengine.
	watched = "lab/watched"
	window  = 16_384
)

// laboratory is a fleet whose providers are benchmarked and probed, by two references.
type laboratory struct {
	m  *trial.Market
	s  *server
	db *pgxpool.Pool
}

// seat is a provider with an engine that can be turned into one that cheats.
type seat struct {
	*trial.Provider
	engine *cheat.Engine
}

// TestAlertsFireByEffectsOfVerdicts has one provider serve another model, which probes find within
// days.
func TestAlertsFireByEffectsOfVerdicts(t *testing.T) {
	l := newLaboratory(t)
	swapped := l.seat(t, "swapped", 31, cheat.Recalling(t, cheat.OtherTraining(31), fakeengine.Recall{}))
	lost := l.seat(t, "lost", 32, cheat.Recalling(t, cheat.FourBit(32), fakeengine.Recall{}))
	words := fakeengine.New(t)
	words.Script(cheat.Model, fakeengine.Behaviour{Tokens: slices.Repeat([]string{"word "}, 64)})
	wrong := l.seat(t, "wrong", 33, words)
	l.ready(t, swapped, lost, wrong)
	t.Run("settlement does not take a penalty", func(t *testing.T) { penaltyLate(t, l, swapped) })
	t.Run("hubs do not know a provider", func(t *testing.T) { providerUnknown(t, l, lost) })
	t.Run("a provider fails three benchmarks", func(t *testing.T) { benchmarksFail(t, l, wrong) })
}

// TestAlertsFireByFaultsOfProbes has three providers serve a model of four bits, which probes find
// within a day.
func TestAlertsFireByFaultsOfProbes(t *testing.T) {
	l := newLaboratory(t)
	var fourBits []*seat
	for i := range 3 {
		seed := uint64(32 + i)
		fourBits = append(fourBits, l.seat(t, fmt.Sprintf("four-bits-%d", i), seed,
			cheat.Recalling(t, cheat.FourBit(seed), fakeengine.Recall{})))
	}
	l.ready(t, fourBits...)
	t.Run("three providers serve something else", func(t *testing.T) { commonCause(t, l, fourBits) })
	t.Run("the gateway of hidden probes is killed", func(t *testing.T) { gatewayAway(t, l) })
	t.Run("probes are off", func(t *testing.T) { probesOff(t, l) })
}

// ready waits until providers are admitted and the model is calibrated. No alert fires then.
func (l *laboratory) ready(t *testing.T, providers ...*seat) {
	t.Helper()
	for _, one := range providers {
		trial.Until(t, one.ID+" is admitted", func() bool {
			return l.benchmark(t, one) == "proven" && l.m.Offers(t, watched, one.ID)
		})
	}
	l.calibrate(t)
	for _, alert := range []string{"VerdictEffectsRefused", "VerdictEffectsLate", "ProbesLate", "CommonCauseSuspected",
		"ProbesNotAsked", "VerdictsWaitForAnOperator"} {
		l.s.quiet(t, alert)
	}
}

func newLaboratory(t *testing.T) *laboratory {
	t.Helper()
	l := &laboratory{m: trial.StartFleet(t, func(c *fleet.Config) {
		c.Clock = true
		c.Settings = map[string]map[string]any{
			fleet.Verifier:   {"verifier": map[string]any{"probes": true, "benchmarks_waived": false, "haste": 200}},
			fleet.Hub:        {"hub": map[string]any{"development_collateral": true}},
			fleet.Settlement: {"settlement": map[string]any{"development_collateral": true}},
		}
	})}
	var err error
	if l.db, err = pgxpool.New(context.Background(), l.m.Fleet().DatabaseURL()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.db.Close)
	l.exec(t, interrupted, watched)
	l.s = startPrometheus(t, l.m.Fleet())
	l.m.Admin(t, http.MethodPut, "/api/v1/admin/models/"+watched, fmt.Sprintf(`{"name":"Laboratory","input_price":"0.1",
		"output_price":"0.4","payout_input_price":"0.09","payout_output_price":"0.36","context_length":%d,
		"max_output_tokens":1024,"capabilities":["chat"]}`, window))
	for i := range 2 {
		seed := uint64(11 + i)
		p := l.account(t, fmt.Sprintf("reference-%d", i))
		l.m.Admin(t, http.MethodPost, "/api/v1/admin/providers/"+p.ID+"/reference",
			`{"reference":true,"reason":"a laboratory"}`)
		l.connect(t, p, cheat.Recalling(t, cheat.Honest(seed), fakeengine.Recall{}))
	}
	return l
}

// interrupted is the calibration of a replica that has died, which the verifier goes on with.
const interrupted = `WITH t AS (SELECT $1::text AS model, decode(repeat('00', 32), 'hex') AS files,
		16 AS class, ''::text AS engine, ''::text AS gpu),
	key AS (SELECT sha256('svc stratum v1 '::bytea || int4send(octet_length(model)) || convert_to(model, 'UTF8')
		|| int4send(32) || files || int4send(1) || '\x10'::bytea || int4send(0) || int4send(0)) AS stratum, t.* FROM t),
	made AS (INSERT INTO verifier.stratum (stratum, model_id, files, class, engine, gpu)
		SELECT stratum, model, files, class, engine, gpu FROM key RETURNING stratum)
	INSERT INTO verifier.calibration_run (run_id, stratum) SELECT gen_random_uuid(), stratum FROM made`

func (l *laboratory) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := l.db.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%.200s: %v", sql, err)
	}
}

// account makes a provider that lacks a benchmark alone.
func (l *laboratory) account(t *testing.T, name string) *trial.Provider {
	t.Helper()
	p := &trial.Provider{}
	p.ID = trial.Text(t, l.m.Admin(t, http.MethodPost, "/api/v1/admin/providers", `{"name":"`+name+`"}`), "provider",
		"provider_id")
	l.m.Admin(t, http.MethodPost, "/api/v1/admin/providers/"+p.ID+"/qualification",
		`{"gpu_waived":true,"reason":"a laboratory has no GPU"}`)
	p.Key = trial.Text(t, l.m.Admin(t, http.MethodPost, "/api/v1/admin/providers/"+p.ID+"/keys", `{"name":"k"}`),
		"api_key")
	return p
}

// seat makes a provider that is honest until its engine is turned.
func (l *laboratory) seat(t *testing.T, name string, seed uint64, cheating http.Handler) *seat {
	t.Helper()
	s := &seat{Provider: l.account(t, name),
		engine: cheat.NewEngine(cheat.Recalling(t, cheat.Honest(seed), fakeengine.Recall{}), cheating)}
	l.connect(t, s.Provider, s.engine)
	return s
}

// connect runs a provider's agent before an engine until the end of the test.
func (l *laboratory) connect(t *testing.T, p *trial.Provider, engine http.Handler) {
	t.Helper()
	server := httptest.NewServer(engine)
	t.Cleanup(server.Close)
	cfg := provideragent.DefaultConfig()
	cfg.Capabilities = []string{"chat", "stream", "cancel", "logprobs"}
	cfg.WSURL, cfg.Key, cfg.StateDir, cfg.NodeName = l.m.WSURL(), config.NewSecret(p.Key), t.TempDir(), "node"
	cfg.Models = []provideragent.Model{{ModelID: watched, EngineURL: server.URL + "/v1", LocalModel: cheat.Model,
		ContextLength: window, Capacity: 64, Quantization: "fp16"}}
	agent, err := provideragent.New(cfg, provideragent.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- agent.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the agent of %s ended with %v", p.ID, err)
		}
	})
}

// benchmark is where an offer stands with its benchmarks; empty before there is one.
func (l *laboratory) benchmark(t *testing.T, of *seat) string {
	t.Helper()
	_, _, body := trial.CallAt(t, l.m.AdminURL(), http.MethodGet,
		"/api/v1/admin/verification/offerings/"+of.ID+"/"+watched, l.m.Env["SVC_ADMIN_TOKEN"], "")
	standing, _ := trial.At(trial.Decode(t, body), "offering", "benchmark").(string)
	return standing
}

// calibrate gives the verifier what an earlier calibration measured (package verification has
// its samples), and turns penalties on.
func (l *laboratory) calibrate(t *testing.T) {
	t.Helper()
	hosts := `SELECT host FROM verifier.reference ORDER BY host`
	trial.Until(t, "the references are known", func() bool { return len(l.texts(t, hosts)) == 2 })
	known, run := l.texts(t, hosts), l.texts(t, `SELECT run_id::text FROM verifier.calibration_run`)
	text, err := os.ReadFile("../verification/testdata/samples.gz")
	if err != nil {
		t.Fatal(err)
	}
	in, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var rows [][]any
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var family, digits string
		var n, host int
		if _, err := fmt.Sscan(lines.Text(), &family, &n, &host, &digits); err != nil {
			t.Fatal(err)
		}
		body, err := hex.DecodeString(digits)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, []any{run[0], family, n, known[host], false, body})
	}
	if _, err := l.db.CopyFrom(t.Context(), pgx.Identifier{"verifier", "calibration_sample"},
		[]string{"run_id", "family", "number", "host", "cheaper", "body"}, pgx.CopyFromRows(rows)); err != nil {
		t.Fatal(err)
	}
	l.until(t, "the model is calibrated", func() bool {
		return number(t, l.m, `SELECT count(*) FROM verifier.calibration`) > 0
	})
	trial.Until(t, "penalties are on", func() bool {
		status, _, _ := trial.CallAt(t, l.m.AdminURL(), http.MethodPost, "/api/v1/admin/verification/penalties",
			l.m.Env["SVC_ADMIN_TOKEN"], `{"on":true,"reason":"all is calibrated"}`)
		return status == http.StatusOK
	})
}

// texts are the texts that a query reads.
func (l *laboratory) texts(t *testing.T, query string) []string {
	t.Helper()
	rows, err := l.db.Query(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// until lets time pass by half an hour at each look at which no probe is due, until a state is
// reached.
func (l *laboratory) until(t *testing.T, what string, reached func() bool) {
	t.Helper()
	trial.Until(t, what, func() bool {
		if reached() {
			return true
		}
		if number(t, l.m, `SELECT count(*) FROM verifier.probe
			WHERE state IN ('queued', 'leased') AND next_at <= clock_timestamp()`) == 0 {
			pass(t, l.m, 30*time.Minute)
		}
		return false
	})
}

// benchmarked has an operator order a benchmark every hour until a query counts something.
func (l *laboratory) benchmarked(t *testing.T, of *seat, what, query string) {
	t.Helper()
	trial.Until(t, what, func() bool {
		if number(t, l.m, query) > 0 {
			return true
		}
		if number(t, l.m, `SELECT count(*) FROM verifier.benchmark_run WHERE state = 'running'`) == 0 {
			pass(t, l.m, time.Hour+time.Minute) // lies between two benchmarks
			l.m.Admin(t, http.MethodPost, "/api/v1/admin/verification/benchmarks",
				fmt.Sprintf(`{"provider_id":%q,"model_id":%q}`, of.ID, watched))
		}
		return false
	})
}

// benchmarksFail has a provider answer each question with the same words. Its third failure in a row
// would end its place in the market, to which an operator has to agree.
func benchmarksFail(t *testing.T, l *laboratory, wrong *seat) {
	l.s.quiet(t, "VerdictsWaitForAnOperator")
	wrong.engine.Turn(true)
	l.benchmarked(t, wrong, "a verdict waits for an operator",
		`SELECT count(*) FROM verifier.verdict WHERE needs_operator AND provider_id = '`+wrong.ID+`'`)
	l.s.fires(t, "VerdictsWaitForAnOperator", `,severity="ticket"`)
	const verdicts = "/api/v1/admin/verification/verdicts"
	for _, id := range l.listed(t, verdicts+"?provider_id="+wrong.ID+"&waiting=true", "verdict_id") {
		l.m.Admin(t, http.MethodPost, verdicts+"/"+id+"/approve", `{}`)
	}
	l.s.quiet(t, "VerdictsWaitForAnOperator")
}

// penaltyLate has probes convict a provider while settlement is away, so that nobody opens the
// penalty.
func penaltyLate(t *testing.T, l *laboratory, swapped *seat) {
	swapped.engine.Turn(true)
	again := kill(t, l.m, fleet.Settlement)
	l.until(t, "a penalty is to be opened", func() bool {
		return number(t, l.m, `SELECT count(*) FROM verifier.effect WHERE kind = 'open_penalty' AND state = 'pending'`) > 0
	})
	pass(t, l.m, 15*time.Minute)
	l.s.lasts(t, "VerdictEffectsLate")
	again()
	pass(t, l.m, 15*time.Minute) // the next try is due
	l.s.quiet(t, "VerdictEffectsLate")
}

// providerUnknown has a provider pass a benchmark. Hubs do not know the provider, because their
// tables were restored to a point before it came. A hub takes a pass only once the hub's own clock,
// which is behind the database's here, has reached the time of the pass; until then the verifier
// tries again.
func providerUnknown(t *testing.T, l *laboratory, lost *seat) {
	l.s.quiet(t, "VerdictEffectsRefused")
	l.benchmarked(t, lost, "hubs are told of a benchmark",
		`SELECT count(*) FROM verifier.effect WHERE state = 'pending' AND tries > 0 AND provider_id = '`+lost.ID+`'`)
	l.unchecked(t, `CREATE TABLE lost AS SELECT * FROM hub.provider WHERE provider_id = '`+lost.ID+`'`,
		`DELETE FROM hub.provider WHERE provider_id = '`+lost.ID+`'`)
	pass(t, l.m, 15*time.Minute) // the next try is due
	l.s.fires(t, "VerdictEffectsRefused", `,severity="page"`)
	l.unchecked(t, `INSERT INTO hub.provider SELECT * FROM lost`)
	const effects = "/api/v1/admin/verification/effects"
	for _, id := range l.listed(t, effects, "effect_id") {
		l.m.Admin(t, http.MethodPost, effects+"/"+id+"/retry", `{}`)
	}
	l.s.quiet(t, "VerdictEffectsRefused")
}

// listed are the ids of an operator's list.
func (l *laboratory) listed(t *testing.T, path, id string) (ids []string) {
	t.Helper()
	list, _ := l.m.Admin(t, http.MethodGet, path, "")["list"].([]any)
	for _, one := range list {
		ids = append(ids, trial.Text(t, one, id))
	}
	if len(ids) == 0 {
		t.Fatalf("%s: got nothing, want something", path)
	}
	return ids
}

// unchecked runs statements without triggers and without the checks of what refers to a row.
func (l *laboratory) unchecked(t *testing.T, statements ...string) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), l.db, func(tx pgx.Tx) error {
		for _, sql := range append([]string{`SET LOCAL session_replication_role = replica`}, statements...) {
			if _, err := tx.Exec(t.Context(), sql); err != nil {
				return fmt.Errorf("%s: %w", sql, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// commonCause has three owners' providers serve something else from the same day on, as they do
// after an update of their engine that no calibration knows.
func commonCause(t *testing.T, l *laboratory, cheaters []*seat) {
	l.s.quiet(t, "CommonCauseSuspected")
	for _, c := range cheaters {
		c.engine.Turn(true)
	}
	const firing = `ALERTS{alertname="CommonCauseSuspected",alertstate="firing"}`
	l.until(t, "a common cause is suspected", func() bool { return len(l.s.query(t, firing)) > 0 })
	l.s.fires(t, "CommonCauseSuspected", `,severity="page"`)
}

// gatewayAway kills the gateway that hidden probes are asked of. Two tries of a probe that is
// given back are a minute apart, and it is void after three.
func gatewayAway(t *testing.T, l *laboratory) {
	l.s.quiet(t, "ProbesNotAsked")
	f := l.m.Fleet()
	name := f.Replicas(fleet.Gateway)[0]
	if err := f.Kill(name); err != nil {
		t.Fatal(err)
	}
	const firing = `ALERTS{alertname="ProbesNotAsked",alertstate="firing"}`
	l.until(t, "hidden probes are not asked", func() bool { return len(l.s.query(t, firing)) > 0 })
	l.s.fires(t, "ProbesNotAsked", `,severity="ticket",flow="hidden"`)
	if err := f.Start(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	l.until(t, "hidden probes are asked", func() bool { return len(l.s.query(t, firing)) == 0 })
}

// probesOff restarts the verifier with probes turned off: a probe that is planned waits. With probes
// turned off no probe is planned, so the verifier is stopped only while one is planned for the next hours.
func probesOff(t *testing.T, l *laboratory) {
	l.s.quiet(t, "ProbesLate")
	f := l.m.Fleet()
	name := f.Replicas(fleet.Verifier)[0]
	path := f.Path("config", name+".yaml")
	on, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	off := strings.Replace(string(on), "probes: true", "probes: false", 1)
	if off == string(on) {
		t.Fatalf("%s: got no probes: true, want it", path)
	}
	restart := func(settings string) {
		write(t, path, []byte(settings))
		if err := f.Restart(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	l.until(t, "a probe is planned", func() bool {
		return number(t, l.m, `SELECT count(*) FROM verifier.probe WHERE state = 'queued'
			AND next_at - clock_timestamp() BETWEEN interval '5 minutes' AND interval '90 minutes'`) > 0
	})
	restart(off)
	pass(t, l.m, 3*time.Hour)
	l.s.lasts(t, "ProbesLate")
	restart(string(on))
	l.s.quiet(t, "ProbesLate")
}
