package chaos

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"svc.internal/pkg/crash"
	"svc.internal/pkg/crash/crashtest"
	"svc.internal/services/proving/internal/chaos/caller"
	"svc.internal/services/proving/internal/chaos/engine"
	"svc.internal/services/proving/internal/chaos/link"
	"svc.internal/services/proving/internal/chaos/record"
	"svc.internal/services/proving/internal/fleet"
	"svc.internal/services/proving/internal/paychain"
	"svc.internal/services/proving/internal/peers"
	"svc.internal/services/proving/internal/store"
)

// fleetFolder begins the name of the fleet's folder in that of the run.
const fleetFolder = "fleet-"

const (
	// reachBound bounds the time until a request reaches a moment, and restoreBound the
	// time until a victim can serve.
	reachBound   = 90 * time.Second
	restoreBound = 2 * time.Minute
	// idleInterval is the pause between two looks at what is left to do.
	idleInterval = 300 * time.Millisecond
)

// errMissed is returned when no request reached the moment.
var errMissed = errors.New("no request came to this moment")

// agents is the number of agents. The third shares the hub of the first.
const agents = 3

// settings shorten to seconds what takes minutes in production: leases, reviews,
// heartbeats, and the pauses between retries. A process that stands still does so for
// longer than any of them; see plan.StillFor.
var settings = map[string]map[string]any{
	fleet.Billing: {"billing": map[string]any{
		"hold_lease": "6s", "orphan_after": "15s", "expire_interval": "500ms", "expire_grace": "3s", "admit_timeout": "3s",
		"seal_interval": "1s", "seal_after": "15m",
	}},
	fleet.Settlement: {"settlement": map[string]any{"batch": map[string]any{"interval": "500ms", "patience": "1m"}}},
	fleet.Hub: {"hub": map[string]any{
		"resettle_after": "1s", "heartbeat_interval": "1s", "session_timeout": "4s", "ping_interval": "2s",
		"pong_timeout":    "2s",
		"content_timeout": "10s", "cancel_grace": "3s", "commit_wait": "3s",
	}},
	fleet.Gateway: {"gateway": map[string]any{
		"hold_lease": "6s", "first_content_timeout": "5s", "first_content_total_timeout": "15s", "hub_grace": "3s",
		"admit_timeout": "4s", "select_timeout": "3s", "total_timeout": "35s",
	}},
}

// price is the price of a model in US dollars for a million tokens, and the part of it
// that a provider gets.
type price struct{ input, output, payoutInput, payoutOutput string }

// models are the models that are asked for, the first most often.
var models = []struct {
	id    string
	price price
}{
	{"chaos/plain", price{"1", "3", "0.9", "2.7"}},
	{"chaos/dear", price{"12.5", "37.55", "10", "30.04"}},
	{"chaos/free", price{}},
}

// gold are models of runs with nights, so dear that a few answers are a payout. The last providers serve one each,
// because a router may like one provider of a model so well that another one would earn nothing. The very last one is
// paid in coins.
var gold = struct {
	ids   []string
	price price
}{[]string{"chaos/gold", "chaos/gold-coin"}, price{"100000", "300000", "90000", "270000"}}

// consumers are the accounts of the callers. A limit of 0 is the service's
// default, -1 is none.
var consumers = []struct {
	name, usd  string
	nano       int64
	perMinute  int32
	concurrent int32
	weight     int
}{
	{"rich", "100000", 100_000_000_000_000, -1, -1, 50},
	{"busy", "50", 50_000_000_000, -1, 40, 20},
	{"poor", "0.05", 50_000_000, -1, -1, 10},
	{"narrow", "20", 20_000_000_000, -1, 2, 10},
	{"usual", "20", 20_000_000_000, 0, 0, 10},
}

// market is a fleet with its engines, providers and consumers.
type market struct {
	fleet    *fleet.Fleet
	points   *crashtest.Controller
	links    *link.Net
	books    *store.Databases
	bin, dir string

	clients  *record.File[record.Client]
	served   *record.File[record.Engine]
	engines  []*engine.Engine
	accounts []caller.Account
	setup    record.Setup
	// paying has the chains of a run with nights; nil where there are none. stakers are the providers who serve nothing
	// and have collateral there, and leaver is another one, who asks for it before the first night.
	paying  *paying
	stakers []string
	leaver  string
	// cards are the payments by card, at most one a night.
	cards []cardPayment
	// over is closed when the work of a night is done, so that its faults wait for their moments no longer; nil by day.
	over chan struct{}
	// kept reports whether there is a copy of settlement's database.
	kept bool

	intrusions intrusions
	// reorgs counts the payouts' transactions that were taken off a chain.
	reorgs atomic.Int64
}

// cardPayment is a payment of which the card's owner knows.
type cardPayment struct {
	session, provider string
	back              bool
}

// open starts the fleet and makes everything that callers need.
func open(ctx context.Context, cfg Config, nights bool) (_ *market, err error) {
	m := &market{dir: cfg.Dir, links: link.New()}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.close(context.WithoutCancel(ctx)))
		}
	}()
	if m.bin = cfg.BinDir; m.bin == "" {
		if m.bin, err = fleet.Build(ctx, "crashpoints"); err != nil {
			return nil, err
		}
	}
	if m.points, err = crashtest.New(); err != nil {
		return nil, err
	}
	if m.clients, err = record.Create[record.Client](m.path(record.ClientsFile)); err != nil {
		return nil, err
	}
	if m.served, err = record.Create[record.Engine](m.path(record.EnginesFile)); err != nil {
		return nil, err
	}
	config := m.fleetConfig(cfg, nights)
	if nights {
		if m.paying, err = startChain(ctx, paychain.Seed(config.Dir)); err != nil {
			return nil, err
		}
	}
	if m.paying != nil {
		if config.Settings, err = m.paying.configure(settings); err != nil {
			return nil, err
		}
	}
	if m.fleet, err = fleet.Start(ctx, config); err != nil {
		return nil, err
	}
	if m.paying != nil {
		m.paying.courier.To(m.fleet.Gateways()[0])
	}
	if m.books, err = store.Open(ctx, m.fleet.DatabaseURL()); err != nil {
		return nil, err
	}
	if cfg.Plant == crash.SkipPrimaryKey {
		if err := m.books.DropSettlementKey(ctx); err != nil {
			return nil, err
		}
	}
	return m, m.stock(ctx)
}

// fleetConfig is the fleet's configuration. With nights the time of its database can be moved.
func (m *market) fleetConfig(cfg Config, nights bool) fleet.Config {
	environ := []string{crash.EnvSocket + "=" + m.points.Socket()}
	if cfg.Plant != "" {
		environ = append(environ, crash.EnvPlant+"="+cfg.Plant)
	}
	return fleet.Config{
		// The folder is new each time, because the place of a database may outlive it.
		Dir: m.path(fleetFolder + time.Now().UTC().Format("150405.000000")), BinDir: m.bin,
		Replicas:   map[string]int{fleet.Agent: agents, fleet.Engine: 0, fleet.Verifier: 1, fleet.Signer: 1},
		DrainDelay: 500 * time.Millisecond, LogLevel: "info", Restart: true,
		Settings: settings, Environ: environ, Via: m.links.Via, Clock: nights,
	}
}

func (m *market) path(name string) string { return filepath.Join(m.dir, name) }

// stock makes the models, providers and consumers.
func (m *market) stock(ctx context.Context) error {
	m.setup.Setup = true
	for _, model := range models {
		if err := m.putModel(ctx, model.id, model.price); err != nil {
			return err
		}
	}
	if m.paying != nil {
		for _, id := range gold.ids {
			if err := m.putModel(ctx, id, gold.price); err != nil {
				return err
			}
		}
	}
	for i := range consumers {
		if err := m.addConsumer(ctx, i); err != nil {
			return err
		}
	}
	for i, name := range m.fleet.Replicas(fleet.Agent) {
		if err := m.addProvider(ctx, name, fmt.Sprintf("engine-%d", i+1)); err != nil {
			return err
		}
	}
	if err := record.Write(m.path(record.SetupFile), m.setup); err != nil {
		return err
	}
	return m.fleet.WaitOnline(ctx, m.modelIDs())
}

func (m *market) modelIDs() []string {
	var ids []string
	for _, model := range models {
		ids = append(ids, model.id)
	}
	if m.paying != nil {
		ids = append(ids, gold.ids...)
	}
	return ids
}

type object = map[string]any

func (m *market) putModel(ctx context.Context, id string, p price) error {
	body := object{"name": "Chaos", "context_length": 8192, "max_output_tokens": 1024, "capabilities": []string{"chat"}}
	line := record.Model{Model: id}
	for field, value := range map[string]struct {
		usd  string
		rate *int64
	}{
		"input_price": {p.input, &line.InputRate}, "output_price": {p.output, &line.OutputRate},
		"payout_input_price": {p.payoutInput, &line.PayoutInputRate}, "payout_output_price": {p.payoutOutput,
			&line.PayoutOutputRate},
	} {
		if value.usd == "" {
			continue
		}
		body[field] = value.usd
		*value.rate = micro(value.usd)
	}
	m.setup.Models = append(m.setup.Models, line)
	return m.put(ctx, "models/"+id, body)
}

// setupTries is how often a call of the setup is made, and setupPause is the time between two.
const (
	setupTries = 10
	setupPause = time.Second
)

// put says how something shall be. It says it again where a service does not answer, because a fleet that
// has just come up beside others is short of time.
func (m *market) put(ctx context.Context, path string, body object) error {
	for tries := 1; ; tries++ {
		err := m.fleet.Admin(ctx, http.MethodPut, path, body, nil)
		if !errors.Is(err, fleet.ErrUnavailable) || tries == setupTries {
			return err
		}
		select {
		case <-time.After(setupPause):
		case <-ctx.Done():
			return err
		}
	}
}

// micro converts a decimal number of at most six places to millionths.
func micro(text string) int64 {
	whole, part, _ := strings.Cut(text, ".")
	var n int64
	for _, digit := range whole + (part + "000000")[:6] {
		n = 10*n + int64(digit-'0')
	}
	return n
}

func (m *market) addConsumer(ctx context.Context, number int) error {
	c := consumers[number]
	var made struct {
		Account struct {
			ID string `json:"account_id"`
		} `json:"account"`
	}
	if err := m.fleet.Admin(ctx, http.MethodPost, "accounts", object{"name": c.name}, &made); err != nil {
		return err
	}
	path := "accounts/" + made.Account.ID
	if err := m.fleet.Admin(ctx, http.MethodPost, path+"/credit", object{"amount_usd": c.usd, "idempotency_key": c.name,
		"memo": "chaos"}, nil); err != nil {
		return err
	}
	if c.perMinute != 0 || c.concurrent != 0 {
		limits := object{"requests_per_minute": c.perMinute, "concurrent_requests": c.concurrent}
		if err := m.put(ctx, path+"/limits", limits); err != nil {
			return err
		}
	}
	key, err := m.issueKey(ctx, path)
	if err != nil {
		return err
	}
	m.accounts = append(m.accounts, caller.Account{Name: c.name, ID: made.Account.ID, Key: key, Weight: c.weight})
	m.setup.Accounts = append(m.setup.Accounts, record.Account{
		AccountID: made.Account.ID, Name: c.name, GrantedNano: c.nano,
		RequestsPerMinute: c.perMinute, ConcurrentRequests: c.concurrent,
	})
	return nil
}

func (m *market) issueKey(ctx context.Context, path string) (string, error) {
	var issued struct {
		Key string `json:"api_key"`
	}
	err := m.fleet.Admin(ctx, http.MethodPost, path+"/keys", object{"name": "chaos"}, &issued)
	return issued.Key, err
}

// addProvider makes a provider with an engine and starts its agent. The verifier waives its
// benchmark once the agent is connected.
func (m *market) addProvider(ctx context.Context, agent, name string) error {
	id, key, err := m.peers().SignUp(ctx, name, beneficiary(len(m.setup.Providers)))
	if err != nil {
		return err
	}
	confirmed := object{"collateral": true, "gpu_waived": true, "reason": "chaos"}
	if err := m.fleet.Admin(ctx, http.MethodPost, "providers/"+id+"/qualification", confirmed, nil); err != nil {
		return err
	}
	served := m.servedBy(len(m.setup.Providers))
	e, err := engine.Start(name, id, served, m.served)
	if err != nil {
		return err
	}
	m.engines = append(m.engines, e)
	m.setup.Providers = append(m.setup.Providers, record.Provider{ProviderID: id, Engine: name})
	var offers []fleet.Offer
	for _, model := range served {
		offers = append(offers, fleet.Offer{ModelID: model, EngineURL: e.URL + "/v1", LocalModel: model,
			ContextLength: 8192, Capacity: 64})
	}
	if err := m.fleet.Equip(agent, key, offers); err != nil {
		return err
	}
	return m.fleet.Launch(ctx, agent)
}

// servedBy are the models that a provider serves, by its number.
func (m *market) servedBy(number int) (ids []string) {
	for _, model := range models {
		ids = append(ids, model.id)
	}
	if at := number - (agents - len(gold.ids)); m.paying != nil && at >= 0 {
		ids = append(ids, gold.ids[at])
	}
	return ids
}

func (m *market) peers() peers.Services { return peers.Services{Fleet: m.fleet} }

// services are the names of the marketplace's own processes.
func (m *market) services() []string {
	var names []string
	for _, program := range fleet.Services() {
		names = append(names, m.fleet.Replicas(program)...)
	}
	return names
}

// close ends everything that open has begun.
func (m *market) close(ctx context.Context) error {
	var errs []error
	if m.books != nil {
		m.books.Close()
	}
	if m.fleet != nil {
		// What services hold is judged already and need not be drained.
		for _, name := range append(m.services(), m.fleet.Replicas(fleet.Agent)...) {
			errs = append(errs, m.fleet.Kill(name))
		}
		errs = append(errs, m.fleet.Stop(ctx))
	}
	for _, e := range m.engines {
		errs = append(errs, e.Stop(ctx))
	}
	if m.points != nil {
		errs = append(errs, m.points.Close())
	}
	return errors.Join(append(errs, m.links.Close(), m.paying.close())...)
}
