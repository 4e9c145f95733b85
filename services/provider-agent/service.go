// Package provideragent is what a GPU owner runs: it offers the models of local
// inference engines to the marketplace. It dials out to a hub, so that no port
// has to be opened, and serves the requests that the hub sends by asking the
// engines over HTTP.
//
// An Agent has two parts: internal/engine forwards requests and watches the
// engines, internal/connection keeps the connection to the hub. This package
// joins them. It keeps nothing of prompts and answers, and logs nothing of them.
package provideragent

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"go.opentelemetry.io/otel/trace"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/config"
	"svc.internal/services/provider-agent/internal/connection"
	"svc.internal/services/provider-agent/internal/endpoint"
	"svc.internal/services/provider-agent/internal/engine"
	"svc.internal/services/provider-agent/internal/node"
	"svc.internal/services/provider-agent/internal/offer"
	"svc.internal/services/provider-agent/internal/receipts"
)

// Model is one model of the marketplace and the engine that serves it here.
type Model = offer.Model

// LoadModels reads a models.json.
func LoadModels(path string) ([]Model, error) { return offer.Load(path) }

// Config is what an agent needs to know.
type Config struct {
	// WSURL is the hub's address, ws://… or wss://…; /ws is added to its path
	// unless it ends in that.
	WSURL string
	// Key is the provider key.
	Key config.Secret
	// StateDir keeps the node id, and the receipts of what was served until
	// they are acknowledged. Without one the node is a new one at every start,
	// and receipts end with the process.
	StateDir string
	// NodeName and Region are shown to the owner and to the router; both may
	// be empty, and have at most 64 and 32 characters.
	NodeName, Region string
	// Models are what is offered: 1 to 256.
	Models []Model
	// Version of the program, for the hub's records.
	Version string
	// Capabilities are what is declared to hubs: endpoints that the engines
	// have (chat, embeddings, images, transcriptions) and features (stream,
	// cancel, logprobs). Nil declares all but images and transcriptions.
	Capabilities []string
	// MaxRequestBytes bounds one request's body, at most 26 MiB. Zero is
	// 10 MiB, with transcriptions 26 MiB.
	MaxRequestBytes int64
	// MaxBufferedBytes bounds the bodies of all requests under way; requests
	// beyond it are answered busy.
	MaxBufferedBytes int64
	// DrainTimeout is how long requests under way may go on when Run ends.
	DrainTimeout time.Duration
	// ProbeInterval is the pause between probes of a healthy engine.
	ProbeInterval time.Duration
}

// DefaultConfig lacks the hub's address, the key and the models.
func DefaultConfig() Config {
	return Config{
		Version:          "dev",
		MaxBufferedBytes: 256 << 20,
		DrainTimeout:     30 * time.Second,
		ProbeInterval:    10 * time.Second,
	}
}

// Deps are what an agent works with; all may be left out.
type Deps struct {
	// Log is silent when nil.
	Log *slog.Logger
	// Clock is the system's when nil.
	Clock clock.Clock
	// Random is crypto/rand's when nil.
	Random io.Reader
	// HTTPClient asks the engines instead of one made for them.
	HTTPClient *http.Client
	// Dial opens the network connection to the hub instead of a net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Traces records the calls to engines, within traces that the hub records;
	// nil records nothing.
	Traces trace.TracerProvider
}

// Agent offers models until it is stopped.
type Agent struct {
	nodeID string
	tracer trace.Tracer
	pool   *engine.Pool
	link   *connection.Link
	kept   *receipts.Store
}

// New checks the configuration, reads the key files of the engines and makes or
// reads the node id. It starts nothing. All faults are returned at once.
func New(cfg Config, deps Deps) (*Agent, error) {
	deps, cfg = withDefaults(deps), cfg.withDefaults()
	address, err := hubAddress(cfg.WSURL)
	faults := []error{err, checkConfig(cfg), offer.Validate(cfg.Models)}
	targets, err := targetsOf(cfg.Models)
	if err := errors.Join(append(faults, err)...); err != nil {
		return nil, fmt.Errorf("agent configuration: %w", err)
	}
	id, err := nodeID(cfg.StateDir, deps.Random)
	if err != nil {
		return nil, err
	}
	kept, err := receipts.Open(cfg.StateDir, deps.Random, deps.Clock, deps.Log)
	if err != nil {
		return nil, err
	}
	a := &Agent{nodeID: id, tracer: tracerOf(deps.Traces), kept: kept}
	a.pool = engine.New(engine.Config{ProbeInterval: cfg.ProbeInterval, Client: deps.HTTPClient}, targets, deps.Log)
	a.link, err = connection.New(connection.Config{
		URL: address, Key: cfg.Key, NodeID: id, NodeName: cfg.NodeName, Region: cfg.Region, Version: cfg.Version,
		Capabilities: cfg.Capabilities, MaxRequestBytes: cfg.MaxRequestBytes, MaxBufferedBytes: cfg.MaxBufferedBytes, DrainTimeout: cfg.DrainTimeout,
	}, connection.Deps{
		Log: deps.Log, Clock: deps.Clock, Random: deps.Random, Dial: deps.Dial,
		Offers: a.offers(cfg.Models), Changed: a.pool.Changed(), Serve: a.serve, Receipts: kept,
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("agent configuration: %w", err), kept.Close())
	}
	return a, nil
}

// The largest bodies: of requests, and of a transcription's form.
const (
	maxBody = 10 << 20
	maxForm = 26 << 20
)

func (c Config) withDefaults() Config {
	if c.Capabilities == nil {
		c.Capabilities = endpoint.Capabilities()
	}
	if c.MaxRequestBytes == 0 {
		c.MaxRequestBytes = maxBody
		if endpoint.Transcriptions.Declared(c.Capabilities) {
			c.MaxRequestBytes = maxForm
		}
	}
	return c
}

func withDefaults(deps Deps) Deps {
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	if deps.Clock == nil {
		deps.Clock = clock.System
	}
	if deps.Random == nil {
		deps.Random = rand.Reader
	}
	return deps
}

// hubAddress turns the configured address into that of the upgrade.
func hubAddress(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "ws" && u.Scheme != "wss" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", errors.New("the hub's address must be ws://host or wss://host")
	}
	if path := strings.TrimRight(u.Path, "/"); !strings.HasSuffix(path, "/ws") {
		u.Path = path + "/ws"
	}
	return u.String(), nil
}

func checkConfig(cfg Config) error {
	var faults []error
	if prefix, ok := apikey.Parse(cfg.Key.Reveal()); !ok || prefix != apikey.Provider {
		faults = append(faults, errors.New("the provider key is missing or mistyped: it begins with sk-prov-"))
	}
	if !printable(cfg.NodeName, 64) || !printable(cfg.Region, 32) || !printable(cfg.Version, 32) {
		faults = append(faults, errors.New("node name, region and version may have 64, 32 and 32 printable characters"))
	}
	if cfg.MaxRequestBytes < 1 || cfg.MaxRequestBytes > maxForm {
		faults = append(faults, errors.New("the largest request must be 1 byte to 26 MiB"))
	}
	faults = append(faults, endpoint.Check(cfg.Capabilities))
	if cfg.MaxBufferedBytes < cfg.MaxRequestBytes {
		faults = append(faults, errors.New("the memory for requests must hold one of the largest"))
	}
	if cfg.DrainTimeout < 0 || cfg.ProbeInterval <= 0 {
		faults = append(faults, errors.New("the drain time-out and the probe interval must be positive"))
	}
	return errors.Join(faults...)
}

func printable(text string, most int) bool {
	for _, r := range text {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return false
		}
	}
	return utf8.RuneCountInString(text) <= most
}

// targetsOf reads the key files of the engines.
func targetsOf(models []Model) ([]engine.Target, error) {
	var faults []error
	targets := make([]engine.Target, 0, len(models))
	for _, m := range models {
		m = m.WithDefaults()
		t := engine.Target{
			ModelID: m.ModelID, URL: m.EngineURL, LocalModel: m.LocalModel, ContextLength: m.ContextLength, Capacity: m.Capacity,
		}
		if m.APIKeyFile != "" {
			if err := t.APIKey.UnmarshalText([]byte("file:" + m.APIKeyFile)); err != nil {
				faults = append(faults, fmt.Errorf("the engine key of %s: %w", m.ModelID, err))
			} else if key := t.APIKey.Reveal(); key == "" || !printable(key, 1024) {
				faults = append(faults, fmt.Errorf("the engine key of %s: %s does not hold a key in one line", m.ModelID, m.APIKeyFile))
			}
		}
		targets = append(targets, t)
	}
	return targets, errors.Join(faults...)
}

func nodeID(dir string, random io.Reader) (string, error) {
	if dir == "" {
		return node.New(random)
	}
	return node.Load(dir, random)
}

// offers joins what the owner says with what the engines say.
func (a *Agent) offers(models []Model) func() []connection.Offer {
	return func() []connection.Offer {
		offers := make([]connection.Offer, 0, len(models))
		for i, state := range a.pool.States() {
			m := models[i].WithDefaults()
			offers = append(offers, connection.Offer{
				ModelID: m.ModelID, ContextLength: state.ContextLength, Quantization: m.Quantization,
				Capacity: m.Capacity, Healthy: state.Healthy,
			})
		}
		return offers
	}
}

// serve hands a request of the hub's to its engine.
func (a *Agent) serve(ctx context.Context, r connection.Request, w io.Writer) connection.Answer {
	span := a.engineCall(ctx, &r)
	ended := a.pool.Forward(ctx, engine.Request{
		ID: r.ID, ModelID: r.ModelID, Endpoint: r.Endpoint, Stream: r.Stream, Body: r.Body, ContentType: r.ContentType,
		ModelOffset: r.ModelOffset, ModelLength: r.ModelLength, Traceparent: r.Traceparent,
	}, w)
	answer := connection.Answer{Status: ended.Status, Err: ended.Err}
	answered(span, answer)
	return answer
}

// NodeID is the name by which hubs tell this machine from others.
func (a *Agent) NodeID() string { return a.nodeID }

// Registered is closed once a hub has acknowledged the agent for the first time.
func (a *Agent) Registered() <-chan struct{} { return a.link.Registered() }

// Ready is nil while the agent is registered and at least one of its models is
// healthy; else it says what is missing.
func (a *Agent) Ready(context.Context) error {
	if err := a.link.Ready(); err != nil {
		return err
	}
	reason := ""
	for _, state := range a.pool.States() {
		if state.Healthy {
			return nil
		}
		reason = state.ModelID + ": " + state.Reason
	}
	return errors.New("no engine serves its model; " + reason)
}

// Run offers the models until ctx ends. Then it takes no new requests, lets
// those under way end, within the drain time-out, and returns nil. It must be
// called once.
func (a *Agent) Run(ctx context.Context) error {
	a.pool.Probe(ctx)
	// Engines are watched as long as requests are served, drain included.
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	var watch sync.WaitGroup
	watch.Go(func() { a.pool.Watch(watching) })
	watch.Go(func() { a.kept.Run(watching) })
	err := a.link.Run(ctx)
	stop()
	watch.Wait()
	return errors.Join(err, a.kept.Close())
}

// ReceiptStatus tells of the receipts that this node keeps.
type ReceiptStatus = receipts.Status

// Receipts tells how many receipts wait to be acknowledged, and what became of
// others.
func (a *Agent) Receipts() ReceiptStatus { return a.kept.Status() }

// Finding is what Check has found about one model.
type Finding struct {
	Model Model
	// ContextLength in tokens, 0 when neither owner nor engine says.
	ContextLength int64
	// Fault is empty when the engine serves the model.
	Fault string
}

// Check asks every engine once whether it serves its models.
func Check(ctx context.Context, models []Model, deps Deps) ([]Finding, error) {
	if err := offer.Validate(models); err != nil {
		return nil, err
	}
	targets, err := targetsOf(models)
	if err != nil {
		return nil, err
	}
	pool := engine.New(engine.Config{Client: deps.HTTPClient}, targets, slog.New(slog.DiscardHandler))
	pool.Probe(ctx)
	findings := make([]Finding, 0, len(models))
	for i, state := range pool.States() {
		findings = append(findings, Finding{Model: models[i].WithDefaults(), ContextLength: state.ContextLength, Fault: state.Reason})
	}
	return findings, nil
}
