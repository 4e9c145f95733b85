package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"svc.internal/services/standalone/demo"
)

// stateFile remembers keys that are shown only once.
const stateFile = "demo.json"

// credentials are the keys that the demo has made.
type credentials struct {
	AccountID    string   `json:"account_id"`
	ConsumerKey  string   `json:"consumer_key"`
	ProviderKeys []string `json:"provider_keys"`
}

// Seed makes the demo as an operator would, over the admin API: models, a consumer with
// credit and a key, and a provider or a reference for each agent. Then it starts the agents
// and waits until their models can be called through every gateway. A second call finds
// what exists.
func (f *Fleet) Seed(ctx context.Context) (demo.Environment, error) {
	engine, catalog, err := f.chooseCatalog(ctx)
	if err != nil {
		return demo.Environment{}, err
	}
	api, err := f.newOperator()
	if err != nil {
		return demo.Environment{}, err
	}
	for _, m := range catalog.Models {
		if err := api.putModel(ctx, m); err != nil {
			return demo.Environment{}, err
		}
	}
	made, err := f.ensureCredentials(ctx, api)
	if err != nil {
		return demo.Environment{}, fmt.Errorf("seed the demo: %w", err)
	}
	if err := f.startAgents(ctx, made, catalog, engine); err != nil {
		return demo.Environment{}, err
	}
	env := demo.Environment{
		BaseURL: f.Gateways()[0], APIKey: made.ConsumerKey,
		AdminURL: api.admin, AdminToken: api.token, DatabaseURL: f.databaseURL,
		MetricsURL: f.AdminURL(instance(Gateway, 1)) + "/metrics", Model: catalog.Models[0].ID,
	}
	if hubs := f.Hubs(); len(hubs) > 0 {
		env.WSURL = hubs[0]
	}
	if len(made.ProviderKeys) > 0 {
		env.ProviderKey = made.ProviderKeys[0]
	}
	return env, f.dir.Write(env.File(), "fleet.env")
}

// chooseCatalog asks the engine for its models and chooses the matching catalog.
func (f *Fleet) chooseCatalog(ctx context.Context) (demo.Engine, demo.Catalog, error) {
	catalog, err := demo.Builtin()
	if err != nil || len(f.named(Agent)) == 0 {
		return demo.Engine{}, catalog, err
	}
	models, err := demo.ListModels(ctx, f.EngineURL(), 10*time.Second)
	if err != nil {
		return demo.Engine{}, demo.Catalog{}, fmt.Errorf("ask the engine at %s: %w", f.EngineURL(), err)
	}
	engine := demo.Engine{URL: f.EngineURL(), Models: models, Capacity: 256}
	if f.cfg.EngineURL != "" {
		catalog = demo.FromEngine(models)
	}
	if len(catalog.Models) == 0 {
		return demo.Engine{}, demo.Catalog{}, fmt.Errorf("the engine at %s has no models", f.EngineURL())
	}
	return engine, catalog, nil
}

// ensureCredentials makes the keys that an earlier start has not made, or that this
// database does not know.
func (f *Fleet) ensureCredentials(ctx context.Context, api *operator) (credentials, error) {
	var known credentials
	text, err := os.ReadFile(f.dir.Path(stateFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return known, fmt.Errorf("read the demo's state: %w", err)
	}
	if err == nil {
		if err := json.Unmarshal(text, &known); err != nil {
			return known, fmt.Errorf("read the demo's state: %w", err)
		}
		switch valid, err := api.knows(ctx, known.ConsumerKey); {
		case err != nil:
			return known, err
		case !valid:
			known = credentials{}
		}
	}
	if known.ConsumerKey == "" {
		if known.AccountID, known.ConsumerKey, err = api.makeConsumer(ctx); err != nil {
			return known, err
		}
	}
	for i := len(known.ProviderKeys); i < f.cfg.Replicas[Agent]; i++ {
		path, becomes := f.becomes(i)
		key, err := api.makeProvider(ctx, i+1, path, becomes)
		if err != nil {
			return known, err
		}
		known.ProviderKeys = append(known.ProviderKeys, key)
	}
	if text, err = json.Marshal(known); err != nil {
		return known, fmt.Errorf("remember the demo: %w", err)
	}
	return known, f.dir.Write(text, stateFile)
}

// becomes is an operator's word on the provider of an agent, counted from 0: the last ones
// are references, and the others are on any machine.
func (f *Fleet) becomes(agent int) (path string, word fields) {
	if agent >= f.cfg.Replicas[Agent]-f.cfg.References {
		return "/reference", fields{"reference": true, "reason": "the demo's providers are verified by it"}
	}
	word = fields{"gpu_waived": true, "reason": "a demo on any machine"}
	if !f.verifies() {
		word["collateral"] = true // settlement confirms none
	}
	return "/qualification", word
}

func (f *Fleet) startAgents(ctx context.Context, made credentials, catalog demo.Catalog, engine demo.Engine) error {
	agents := f.named(Agent)
	if len(agents) == 0 {
		return nil
	}
	var offers []Offer
	offered := demo.Offers(catalog, engine)
	for _, id := range slices.Sorted(maps.Keys(offered)) {
		m := offered[id]
		offers = append(offers, Offer{m.ID, engine.URL, m.LocalModel, m.ContextLength, engine.Capacity})
	}
	for _, name := range agents {
		if err := f.Equip(name, made.ProviderKeys[number(name)-1], offers); err != nil {
			return err
		}
		if f.Pid(name) != 0 {
			continue
		}
		if err := f.Launch(ctx, name); err != nil {
			return err
		}
	}
	return f.WaitOnline(ctx, slices.Sorted(maps.Keys(offered)))
}

// onlineTimeout bounds the wait for the agents' models. steadyAnswers is how often in a
// row a gateway must list them, because it asks one replica at a time.
const (
	onlineTimeout = 4 * time.Minute
	steadyAnswers = 4
)

// WaitOnline returns when every gateway lists each model as callable. It waits at most 4
// minutes. Its error says how far each provider has come.
func (f *Fleet) WaitOnline(ctx context.Context, models []string) error {
	whole := ctx
	ctx, cancel := context.WithTimeout(ctx, onlineTimeout)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for _, base := range f.Gateways() {
		for steady := 0; steady < steadyAnswers; steady++ {
			callable, err := demo.ListModels(ctx, base+"/v1", 5*time.Second)
			for _, id := range models {
				if !slices.Contains(callable, id) {
					steady = -1
				}
			}
			select {
			case <-ticker.C:
			case <-ctx.Done():
				lost := fmt.Errorf("%s are not callable through %s", strings.Join(models, ", "), base)
				return errors.Join(lost, err, f.unready(context.WithoutCancel(whole)))
			}
		}
	}
	return nil
}

// progress is how far a provider has come on its way to its first request.
type progress struct {
	Name          string `json:"name"`
	ID            string `json:"provider_id"`
	Status        string `json:"status"`
	Online        bool   `json:"online"`
	Reference     bool   `json:"reference"`
	Qualification struct {
		Collateral bool `json:"collateral_confirmed"`
		GPU        bool `json:"gpu_eligible"`
		Waived     bool `json:"gpu_waived"`
		Benchmark  bool `json:"benchmark_passed"`
	} `json:"qualification"`
}

// unready is an error that says how far each provider has come, for the person who waits.
func (f *Fleet) unready(ctx context.Context) error {
	var known struct {
		List []progress `json:"list"`
	}
	if err := f.Admin(ctx, http.MethodGet, "providers?page_size=50", nil, &known); err != nil {
		return err
	}
	var faults []error
	for _, p := range known.List {
		var offered struct {
			List []struct {
				Model     string `json:"model_id"`
				Lane      string `json:"lane"`
				Benchmark string `json:"benchmark"`
			} `json:"list"`
		}
		err := f.Admin(ctx, http.MethodGet, "verification/offerings?provider_id="+p.ID, nil, &offered)
		text := p.String()
		for _, o := range offered.List {
			text += fmt.Sprintf("; %s: benchmark %s, lane %s", o.Model, o.Benchmark, o.Lane)
		}
		faults = append(faults, errors.New(text), err)
	}
	return errors.Join(faults...)
}

func (p progress) String() string {
	text := p.Name + " is " + strings.ToLower(strings.TrimPrefix(p.Status, "PROVIDER_STATUS_"))
	if p.Reference {
		text = p.Name + " is a reference"
	}
	if !p.Online {
		text += ", not connected"
	}
	q := p.Qualification
	for _, need := range []struct {
		name string
		met  bool
	}{{"collateral", q.Collateral}, {"a GPU", q.GPU || q.Waived}, {"a benchmark", q.Benchmark}} {
		if !need.met && !p.Reference {
			text += ", without " + need.name
		}
	}
	return text
}

// operator makes calls of the admin API, at admin, and of a consumer, at base.
type operator struct{ base, admin, token string }

func (f *Fleet) newOperator() (*operator, error) {
	token, err := f.AdminToken()
	gateways := f.Gateways()
	if err == nil && len(gateways) == 0 {
		err = errors.New("there is no gateway")
	}
	if err != nil {
		return nil, fmt.Errorf("ask as an operator: %w", err)
	}
	return &operator{base: gateways[0], admin: f.Operators()[0], token: token}, nil
}

// knows reports whether a consumer key is good here.
func (o *operator) knows(ctx context.Context, key string) (bool, error) {
	status, _, err := o.send(ctx, o.base, http.MethodGet, "/api/v1/requests/00000000-0000-7000-8000-000000000000", key,
		nil)
	return status != http.StatusUnauthorized, err
}
