package standalone

import (
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"svc.internal/pkg/config"
	"svc.internal/pkg/node"
	billingv1 "svc.internal/proto/svc/billing/v1"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
	provideragent "svc.internal/services/provider-agent"
	"svc.internal/services/standalone/console"
	"svc.internal/services/standalone/demo"
)

// demoEnv is the file with the variables that scripts need to call the demo.
const demoEnv = "demo.env"

// maxWaits is how often a process that has all services waits a minute for them before it gives up.
const maxWaits = 3

// runDemo waits for the services, seeds a first start, runs the demo's agent and tells
// the person that everything runs.
func (p *process) runDemo(ctx context.Context) error {
	for waits := 1; ; waits++ {
		err := p.waitReady(ctx)
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return nil
		}
		if p.cfg.all() && waits == maxWaits {
			return fmt.Errorf("services are not ready: %w", err)
		}
		// The machine may be slow, or the missing service another process, which is not up yet.
		p.con.Say("Still waiting: %v", err)
	}
	p.built(strings.Join(p.cfg.Services, ", "))
	if !p.cfg.all() || !bool(p.cfg.Demo) {
		p.con.Ready(p.addresses())
		<-ctx.Done()
		return nil
	}
	return p.seedAndServe(ctx)
}

func (p *process) seedAndServe(ctx context.Context) error {
	engine, catalog := p.engine, p.catalog
	credentials, err := p.seed(ctx, catalog)
	if err != nil {
		return fmt.Errorf("seed the demo: %w", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	if engine.Run != nil {
		group.Go(func() error { return engine.Run(ctx) })
	}
	if p.cfg.DemoAgent {
		for _, seat := range []seat{
			{"reference", "agent-reference", credentials.ReferenceKey}, {"demo", "agent", credentials.ProviderKey},
		} {
			agent, err := p.newAgent(seat, catalog, engine)
			if err != nil {
				return err
			}
			group.Go(func() error { return agent.Run(ctx) })
		}
		done := p.con.Step("Provider")
		if err := p.waitOnline(ctx, slices.Sorted(maps.Keys(demo.Offers(catalog, engine)))); err != nil {
			p.con.Say("No provider is online yet: %v", err)
		} else {
			done("benchmarked by the verifier")
		}
	}
	// A reader who finds the file can call everything that it names.
	env := p.environment(credentials, catalog)
	if err := p.dir.Write(env.File(), demoEnv); err != nil {
		return err
	}
	p.announce(env, engine)
	group.Go(func() error { // the demo goes on without an agent
		<-ctx.Done()
		return nil
	})
	return group.Wait()
}

func (p *process) seed(ctx context.Context, catalog demo.Catalog) (demo.Credentials, error) {
	billing, err := p.node.Peer(node.BillingLedger)
	if err != nil {
		return demo.Credentials{}, err
	}
	models, err := p.node.Peer(node.Catalog)
	if err != nil {
		return demo.Credentials{}, err
	}
	hub, err := p.node.Peer(node.ProviderHub)
	if err != nil {
		return demo.Credentials{}, err
	}
	return demo.Seed(ctx, demo.Peers{
		Accounts:  billingv1.NewAccountAdminServiceClient(billing),
		Keys:      billingv1.NewKeyServiceClient(billing),
		Catalog:   catalogv1.NewCatalogAdminServiceClient(models),
		Providers: hubv1.NewProviderAdminServiceClient(hub),
		BaseURL:   "http://" + reachable(p.httpAddr), OperatorsURL: "http://" + reachable(p.operatorAddr),
		Bootstrap: p.bootstrap,
	}, p.dir, catalog)
}

// chooseDemo chooses what a demo serves, before its services start.
func (p *process) chooseDemo(ctx context.Context) (err error) {
	if !p.cfg.all() || !bool(p.cfg.Demo) {
		return nil
	}
	if p.engine, p.catalog, err = p.chooseCatalog(ctx); err != nil {
		return err
	}
	p.cfg = withPlayground(p.cfg, p.catalog.Models[0].ID) // a catalog has one at least
	return nil
}

// withPlayground lets visitors of a demo that has a provider, and that only this machine reaches, ask a model. It
// does not where SVC_GATEWAY_PLAYGROUND_MODELS names others, and where the platform pays for nobody.
func withPlayground(cfg Config, model string) Config {
	free := bool(cfg.DemoAgent) && cfg.onLoopback() && cfg.Billing.PlaygroundDailyUSD > 0
	if free && cfg.Gateway.PlaygroundModels == "" {
		cfg.Gateway.PlaygroundModels = model
	}
	return cfg
}

// chooseCatalog chooses the engine and the matching models.
func (p *process) chooseCatalog(ctx context.Context) (demo.Engine, demo.Catalog, error) {
	done := p.con.Step("Engine")
	var engine demo.Engine
	if p.cfg.DemoAgent {
		var err error
		if engine, err = demo.ChooseEngine(ctx, p.cfg.EngineURL, p.cfg.OllamaHost, p.tel.Log); err != nil {
			return demo.Engine{}, demo.Catalog{}, err
		}
		done(engine.Name)
	} else {
		done("none: SVC_DEMO_AGENT is off")
	}
	switch {
	case p.cfg.CatalogFile != "":
		text, err := os.ReadFile(p.cfg.CatalogFile)
		if err != nil {
			return demo.Engine{}, demo.Catalog{}, fmt.Errorf("SVC_CATALOG: %w", err)
		}
		catalog, err := demo.ParseCatalog(text)
		return engine, catalog, err
	case engine.Builtin || len(engine.Models) == 0:
		catalog, err := demo.Builtin()
		return engine, catalog, err
	default:
		return engine, demo.FromEngine(engine.Models), nil
	}
}

// seat is who an agent of the demo is: the node's name, the folder of its state, and the
// key that it connects with.
type seat struct{ node, dir, key string }

func (p *process) newAgent(at seat, catalog demo.Catalog, engine demo.Engine) (*provideragent.Agent, error) {
	cfg := provideragent.DefaultConfig()
	cfg.WSURL, cfg.AllowPlaintext = "ws://"+reachable(p.wsAddr), true // its hub is this process
	cfg.Key = config.NewSecret(at.key)
	cfg.StateDir = p.dir.Path(at.dir)
	cfg.NodeName = at.node
	cfg.Region = "local"
	for _, m := range demo.Offers(catalog, engine) {
		cfg.Models = append(cfg.Models, provideragent.Model{
			ModelID: m.ID, EngineURL: engine.URL, LocalModel: m.LocalModel,
			ContextLength: int64(m.ContextLength), Capacity: engine.Capacity,
		})
	}
	agent, err := provideragent.New(cfg, provideragent.Deps{Log: p.node.Log("provider-agent"), Traces: p.tel.Traces})
	if err != nil {
		return nil, fmt.Errorf("set up the demo's agent %s: %w", at.node, err)
	}
	return agent, nil
}

// onlinePatience bounds the wait for the demo's provider, which the verifier benchmarks
// first: seconds at an engine that answers at once, and longer on a busy machine.
const onlinePatience = 3 * time.Minute

// waitOnline returns when the public API lists each model as callable.
func (p *process) waitOnline(ctx context.Context, models []string) error {
	url := "http://" + reachable(p.httpAddr) + "/v1"
	return poll(ctx, onlinePatience, func(ctx context.Context) error {
		callable, err := demo.ListModels(ctx, url, 5*time.Second)
		if err != nil {
			return err
		}
		for _, id := range models {
			if !slices.Contains(callable, id) {
				return fmt.Errorf("no provider serves %s", id)
			}
		}
		return nil
	})
}

func (p *process) environment(c demo.Credentials, catalog demo.Catalog) demo.Environment {
	return demo.Environment{
		BaseURL: "http://" + reachable(p.httpAddr),
		WSURL:   "ws://" + reachable(p.wsAddr),
		APIKey:  c.ConsumerKey, ProviderKey: c.ProviderKey,
		AdminURL: "http://" + reachable(p.operatorAddr), AdminToken: p.adminToken(), DatabaseURL: p.infra.databaseURL,
		MetricsURL: "http://" + reachable(p.node.AdminAddress()) + "/metrics",
		Model:      catalog.Models[0].ID,
		ChainURLs:  p.chains.urls(), ConsumerPassword: c.ConsumerPassword, OwnerPassword: c.OwnerPassword,
		OperatorPassword: c.OperatorPassword, OperatorSecret: c.OperatorSecret,
	}
}

// adminToken is the directory's token for operators' calls, which withData made.
func (p *process) adminToken() string {
	token, _ := p.dir.AdminToken()
	return token
}

// reachable turns a listener's address into an address to connect to.
func reachable(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

func (p *process) addresses() []console.Row {
	rows := []console.Row{{Name: "Services", Value: strings.Join(p.cfg.Services, ", ")}}
	if p.httpAddr != "" {
		rows = append(rows, console.Row{Name: "API base URL", Value: "http://" + reachable(p.httpAddr) + "/v1"})
	}
	if p.operatorAddr != "" {
		rows = append(rows, console.Row{Name: "Operators' URL", Value: "http://" + reachable(p.operatorAddr)})
	}
	if p.wsAddr != "" {
		rows = append(rows, console.Row{Name: "Provider URL", Value: "ws://" + reachable(p.wsAddr)})
	}
	return append(rows,
		console.Row{Name: "Metrics", Value: "http://" + reachable(p.node.AdminAddress()) + "/metrics"},
		console.Row{Name: "Data", Value: p.dir.Path()})
}

func (p *process) announce(env demo.Environment, engine demo.Engine) {
	answered := engine.Name
	if answered == "" {
		answered = "nobody yet (SVC_DEMO_AGENT=off): run svc-agent with the provider key"
	}
	rows := []console.Row{{Name: "Console", Value: env.BaseURL + "/"}}
	for _, login := range []struct{ who, email, password string }{
		{"  as a consumer", demo.ConsumerEmail, env.ConsumerPassword},
		{"  as a provider", demo.OwnerEmail, env.OwnerPassword},
	} {
		if login.password != "" {
			rows = append(rows, console.Row{Name: login.who, Value: login.email + "  " + login.password})
		}
	}
	rows = append(rows, console.Row{Name: "Operators' console", Value: env.AdminURL + "/"})
	if env.OperatorSecret != "" {
		rows = append(rows,
			console.Row{Name: "  as an operator", Value: demo.OperatorName + "  " + env.OperatorPassword},
			console.Row{Name: "  with a code", Value: "make operator-code"})
	}
	p.con.Ready(append(rows, []console.Row{
		{Name: "API base URL", Value: env.BaseURL + "/v1"},
		{Name: "API key", Value: env.APIKey},
		{Name: "Model", Value: env.Model},
		{Name: "Answered by", Value: answered},
		{Name: "Provider URL", Value: env.WSURL},
		{Name: "Metrics", Value: env.MetricsURL},
		{Name: "Chains", Value: p.chains.String()},
		{Name: "Environment", Value: p.dir.Path(demoEnv)},
	}...), env.Curl())
}
