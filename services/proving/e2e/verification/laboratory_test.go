package verification

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/pkg/config"
	"svc.internal/pkg/fakeengine"
	provideragent "svc.internal/services/provider-agent"
	"svc.internal/services/proving/internal/cheat"
	"svc.internal/services/proving/internal/trial"
)

// window is the context window of the models, in bytes, which are the tokens of chats. The
// laboratory's model reads a quarter of it, because only recalls are longer.
const window = 16_384

// capacity is that of every node: more than a benchmark or a calibration asks at once.
const capacity = 64

// laboratory is a marketplace whose verifier's clock the test moves.
type laboratory struct {
	m      *trial.Market
	db     *pgxpool.Pool
	url    string
	dir    string
	models []string
	// weights is the folder with the files of the models' weights; empty for none.
	weights string
	// killed reports whether the verifier is killed meanwhile.
	killed bool
}

// start runs a marketplace with models, and two references that serve all of them.
func start(t testing.TB, models ...string) *laboratory {
	t.Helper()
	l := prepare(t, models...)
	l.m = trial.StartIn(t, l.dir, "DATABASE_URL="+l.url, "SVC_DEMO_AGENT=off", "SVC_VERIFIER_BENCHMARKS_WAIVED=false",
		"SVC_VERIFIER_PROBES=true", fmt.Sprintf("SVC_VERIFIER_HASTE=%d", haste))
	l.furnish(t)
	return l
}

// haste divides the pauses of the verifier's loops.
const haste = 200

// prepare makes the database of a laboratory.
func prepare(t testing.TB, models ...string) *laboratory {
	t.Helper()
	l := &laboratory{url: trial.Migrated(t), dir: t.TempDir(), models: models}
	l.db = owner(t, l.url)
	for _, sql := range clockSQL {
		exec(t, l.db, sql)
	}
	l.organic(t)
	for _, id := range models {
		l.beginRun(t, id)
	}
	return l
}

// furnish gives a running marketplace its models and references.
func (l *laboratory) furnish(t testing.TB) {
	t.Helper()
	for _, id := range l.models {
		l.m.Admin(t, http.MethodPut, "/api/v1/admin/models/"+id, fmt.Sprintf(`{"name":"Laboratory","input_price":"0.1",
			"output_price":"0.4","payout_input_price":"0.09","payout_output_price":"0.36","context_length":%d,
			"max_output_tokens":1024,"capabilities":["chat"]}`, window))
	}
	for i := range 2 {
		l.reference(t, uint64(11+i))
	}
}

// honest is the engine of an honest host.
func honest(t testing.TB, seed uint64) http.Handler {
	t.Helper()
	return cheat.Recalling(t, cheat.Honest(seed), fakeengine.Recall{})
}

// organic has the verifier believe in organic requests among which all probes hide, a week
// of them and as many on every later day: gateways report such counts every hour.
func (l *laboratory) organic(t testing.TB) {
	t.Helper()
	// Chats of 256 to 511 bytes, about which the samples know; recalls, which are longer.
	const bits, days = 8, 90
	for _, length := range []int{9, 11, 12, 13, 14} {
		exec(t, l.db, `INSERT INTO verifier.shape_hour (hour, shape, requests)
			SELECT date_trunc('hour', now()) + day * interval '1 day', $1 + bit, 1000000
			FROM generate_series(0, $2 - 1) AS day, generate_series(0, $3 - 1) AS bit`, length<<4, days, bits)
	}
}

// sealed is the file of the verifier's sealed settings.
func (l *laboratory) sealed() string { return filepath.Join(l.dir, "verifier", "sealed.json") }

// seat is a connected node.
type seat struct {
	*trial.Provider
	leave func()
}

// reference connects a node whose answers the others are compared with.
func (l *laboratory) reference(t testing.TB, seed uint64) *seat {
	t.Helper()
	p := l.account(t, fmt.Sprintf("reference-%d", seed))
	l.m.Admin(t, http.MethodPost, "/api/v1/admin/providers/"+p.ID+"/reference",
		`{"reference":true,"reason":"a laboratory"}`)
	return l.connect(t, p, fmt.Sprintf("reference-%d", seed), honest(t, seed), l.models...)
}

// join connects a provider, which its benchmarks admit.
func (l *laboratory) join(t testing.TB, name string, engine http.Handler, models ...string) *seat {
	t.Helper()
	return l.connect(t, l.account(t, name), name, engine, models...)
}

// account makes a provider that lacks a benchmark alone.
func (l *laboratory) account(t testing.TB, name string) *trial.Provider {
	t.Helper()
	p := &trial.Provider{Leave: func() {}}
	p.ID = trial.Text(t, l.m.Admin(t, http.MethodPost, "/api/v1/admin/providers", `{"name":"`+name+`"}`), "provider",
		"provider_id")
	l.m.Admin(t, http.MethodPost, "/api/v1/admin/providers/"+p.ID+"/qualification",
		`{"gpu_waived":true,"reason":"a laboratory has no GPU"}`)
	p.Key = trial.Text(t, l.m.Admin(t, http.MethodPost, "/api/v1/admin/providers/"+p.ID+"/keys", `{"name":"k"}`),
		"api_key")
	return p
}

// connect runs a provider's agent before an engine.
func (l *laboratory) connect(
	t testing.TB, p *trial.Provider, name string, engine http.Handler, models ...string,
) *seat {
	t.Helper()
	server := httptest.NewServer(engine)
	t.Cleanup(server.Close)
	cfg := provideragent.DefaultConfig()
	cfg.Capabilities = []string{"chat", "stream", "cancel", "logprobs"}
	cfg.WSURL, cfg.Key, cfg.StateDir, cfg.NodeName = l.m.WSURL(), config.NewSecret(p.Key), t.TempDir(), name
	for _, id := range models {
		cfg.Models = append(cfg.Models, provideragent.Model{ModelID: id, EngineURL: server.URL + "/v1",
			LocalModel: cheat.Model, ContextLength: window, Capacity: capacity, Quantization: "fp16",
			WeightsDir: l.weights})
	}
	agent, err := provideragent.New(cfg, provideragent.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- agent.Run(ctx) }()
	s := &seat{Provider: p, leave: sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the agent of %s ended with %v", name, err)
		}
	})}
	t.Cleanup(s.leave)
	return s
}

// patience bounds the wait for what takes a career, also on a machine with other work.
const patience = 5 * time.Minute

// until lets the verifier's clock run until a state is reached: by a part of an hour at each
// look, as long as no probe is due that is not done.
func (l *laboratory) until(t testing.TB, what string, reached func() bool) {
	t.Helper()
	const look, step = 30 * time.Millisecond, 30 * time.Minute
	l.run(t, what, look, reached, func() { l.pass(t, step) })
}

// hours is until by whole hours, each of which the verifier plans before the clock leaves it.
// Probes of an hour that passes between two plans are never asked, and until lets many pass on
// a busy machine: the observations that count then lie over more days. The clock goes on to the
// hour that next returns, and to the next one where next is nil.
func (l *laboratory) hours(t testing.TB, what string, next func(now time.Time) time.Time, reached func() bool) {
	t.Helper()
	const look = 250 * time.Millisecond // a plan is made every 100 ms
	l.run(t, what, look, reached, func() {
		now := l.now(t)
		to := now.Truncate(time.Hour).Add(time.Hour)
		if next != nil {
			to = next(now)
		}
		l.pass(t, to.Sub(now))
	})
}

// run calls pass at each look at which no probe is due, until a state is reached.
func (l *laboratory) run(t testing.TB, what string, look time.Duration, reached func() bool, pass func()) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	looks := time.NewTicker(look)
	defer looks.Stop()
	for !reached() {
		select {
		case <-looks.C:
		case <-deadline.C:
			t.Fatalf("still not: %s", what)
		}
		if l.due(t) == 0 {
			pass()
		}
	}
}

// due is how many probes are due and not done.
func (l *laboratory) due(t testing.TB) int {
	t.Helper()
	return count(t, l.db, `SELECT count(*) FROM verifier.probe WHERE state IN ('queued', 'leased') AND next_at <= $1`,
		l.now(t))
}
