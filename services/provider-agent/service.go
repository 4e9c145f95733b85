// Package provideragent is what a GPU owner runs: it offers the models of local inference
// engines to the marketplace. It dials out to a hub, so that no port has to be opened,
// and serves the requests that the hub sends by asking the engines over HTTP.
//
// An Agent has two parts: internal/engine forwards requests and probes the engines, and
// internal/connection keeps the connection to the hub. This package joins them with the
// report of the machine (internal/hardware), with the proofs of the models' files
// (internal/weights) and with the sign-in of a wallet (internal/wallet at
// internal/service). It keeps nothing of prompts and answers, and
// logs nothing of them.
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
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/fingerprint"
	"svc.internal/services/provider-agent/internal/connection"
	"svc.internal/services/provider-agent/internal/endpoint"
	"svc.internal/services/provider-agent/internal/engine"
	"svc.internal/services/provider-agent/internal/guard"
	"svc.internal/services/provider-agent/internal/hardware"
	"svc.internal/services/provider-agent/internal/offer"
	"svc.internal/services/provider-agent/internal/weights"
	"svc.internal/services/provider-agent/internal/worklog"
	"svc.internal/services/provider-agent/internal/workreceipts"
)

// Deps are what an agent works with. All are optional.
type Deps struct {
	// Log is silent when nil.
	Log *slog.Logger
	// Clock is the system's when nil.
	Clock clock.Clock
	// Random is crypto/rand's when nil.
	Random io.Reader
	// HTTPClient replaces the client that is made for the engines.
	HTTPClient *http.Client
	// Dial replaces a net.Dialer for the connection to the hub.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Resolver looks up the hosts of media; nil is the system's.
	Resolver *net.Resolver
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
	kept   *workreceipts.Store
	work   *worklog.Log
	guard  *guard.Guard
	// folders are the folders with the models' files.
	folders *weights.Folders
	// asks reports that the engines are asked whether they return log probabilities.
	asks bool
	// gpus is nil when the machine is not reported.
	gpus *hardware.Finder
	// stateDir is where the socket for the other commands is; empty for none.
	stateDir string
	watched  *watched
	log      *slog.Logger
	offer    offering
}

// New checks the configuration, reads the key files of the engines, and reads or makes
// the node id. It starts nothing. It returns all faults at once.
func New(cfg Config, deps Deps) (*Agent, error) {
	asks := cfg.Capabilities == nil
	deps, cfg = withDefaults(deps), cfg.withDefaults()
	address, err := hubAddress(cfg.WSURL, cfg.AllowPlaintext)
	faults := []error{err, checkConfig(cfg), offer.Validate(cfg.Models)}
	targets, err := targetsOf(cfg.Models)
	faults = append(faults, err)
	credential, err := signingIn(cfg, deps.Log)
	if err := errors.Join(append(faults, err)...); err != nil {
		return nil, fmt.Errorf("agent configuration: %w", err)
	}
	id, err := nodeID(cfg.StateDir, deps.Random)
	if err != nil {
		return nil, err
	}
	kept, err := workreceipts.Open(cfg.StateDir, deps.Random, deps.Clock, deps.Log)
	if err != nil {
		return nil, err
	}
	a := &Agent{
		nodeID: id, tracer: tracerOf(deps.Traces), kept: kept, asks: asks,
		work: worklog.Open(cfg.StateDir, deps.Clock, deps.Log), log: deps.Log,
		guard:   guard.New(cfg.RefusedMembers, cfg.FetchMedia, deps.Resolver),
		folders: weights.New(filesOf(cfg.Models), cfg.Stores, listing(cfg), deps.Log), stateDir: cfg.StateDir,
		watched: newWatched(cfg.Version, cfg.NodeName, address, deps.Clock, deps.Log),
	}
	a.offer.models = cfg.Models
	if cfg.ReportHardware {
		a.gpus = hardware.NewFinder(deps.Log)
	}
	a.pool = engine.New(engine.Config{
		ProbeInterval: cfg.ProbeInterval, AskLogprobs: asks, Client: deps.HTTPClient,
	}, targets, deps.Log)
	a.link, err = connection.New(connection.Config{
		URL: address, Key: cfg.Key, NodeID: id, NodeName: cfg.NodeName, Region: cfg.Region, Version: cfg.Version,
		Capabilities: cfg.Capabilities, MaxRequestBytes: cfg.MaxRequestBytes, MaxBufferedBytes: cfg.MaxBufferedBytes,
		DrainTimeout: cfg.DrainTimeout,
	}, connection.Deps{
		Log: deps.Log, Clock: deps.Clock, Random: deps.Random, Dial: deps.Dial,
		Offers: a.offers, Changed: a.pool.Changed(), Serve: a.watched.watch(a.serve), Receipts: kept, Worked: a.work.Chat,
		Warm: a.warm(cfg.Capabilities), Prove: a.folders.Answer, Features: a.features, Load: a.pool.Load,
		Hardware: a.machine, Credential: credential,
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("agent configuration: %w", err), kept.Close())
	}
	return a, nil
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

// offers joins the owner's settings with what the engines report.
func (a *Agent) offers() []connection.Offer { return a.offersOf(a.offer.now()) }

func (a *Agent) offersOf(models []Model) []connection.Offer {
	states := map[string]engine.State{}
	for _, state := range a.pool.States() {
		states[state.ModelID] = state
	}
	offers := make([]connection.Offer, 0, len(models))
	for _, m := range models {
		m = m.WithDefaults()
		state := states[m.ModelID]
		o := connection.Offer{
			ModelID: m.ModelID, ContextLength: state.ContextLength, Quantization: m.Quantization,
			Capacity: m.Capacity, Healthy: state.Healthy, Revision: m.Revision,
		}
		if a.gpus != nil { // the owner lets the platform know the machine
			o.Engine = state.Engine
		}
		if m.LocalModel != m.ModelID {
			o.EngineModel = m.LocalModel
		}
		offers = append(offers, o)
	}
	return offers
}

// serve passes a hub's request to its engine.
func (a *Agent) serve(ctx context.Context, r connection.Request, w io.Writer) connection.Answer {
	span := a.engineCall(ctx, &r)
	if r.ContentType == "" || r.ContentType == jsonType {
		seen, refusal := a.guard.Look(ctx, r.Body, r.ModelOffset)
		if refusal != nil {
			_, err := w.Write(refusal.JSON())
			answer := connection.Answer{Status: refusal.Status, Err: err}
			answered(span, answer)
			return answer
		}
		defer seen.Done()
		r.Body, r.ModelOffset = seen.Bytes, seen.ModelOffset
	}
	ended := a.pool.Forward(ctx, engine.Request{
		ID: r.ID, ModelID: r.ModelID, Endpoint: r.Endpoint, Stream: r.Stream, Body: r.Body, ContentType: r.ContentType,
		ModelOffset: r.ModelOffset, ModelLength: r.ModelLength, Traceparent: r.Traceparent,
	}, w)
	if r.Endpoint != endpoint.Chat && ended.Err == nil && ended.Status == http.StatusOK {
		a.work.Other(r.ModelID) // chats are counted by their receipts
	}
	answer := connection.Answer{Status: ended.Status, Err: ended.Err}
	answered(span, answer)
	return answer
}

// jsonType is the media type of the bodies that the guard inspects.
const jsonType = "application/json"

// warm loads models, if warm-ups are among the capabilities.
func (a *Agent) warm(capabilities []string) connection.Warm {
	if !slices.Contains(capabilities, endpoint.WarmUp) {
		return nil
	}
	return a.pool.Warm
}

// lookTimeout bounds what is looked for before the first registration. What becomes known
// later is declared over another connection.
const lookTimeout = 5 * time.Second

// features are the capabilities that follow from what the agent has found.
func (a *Agent) features() []string {
	var found []string
	if a.pool.Logprobs() { // never where the engines are not asked
		found = append(found, endpoint.Logprobs)
	}
	if a.folders.Usable() {
		found = append(found, endpoint.Fingerprint)
	}
	return found
}

// look asks the engines once and looks for GPUs and the models' files meanwhile, because
// the first registration reports all of it.
func (a *Agent) look(ctx context.Context) {
	var all sync.WaitGroup
	all.Go(func() {
		a.pool.Probe(ctx)
		if a.asks {
			asking, cancel := context.WithTimeout(ctx, lookTimeout)
			defer cancel()
			a.pool.AskLogprobs(asking)
		}
	})
	all.Go(func() {
		looking, cancel := context.WithTimeout(ctx, lookTimeout)
		defer cancel()
		a.folders.Look(looking)
	})
	if a.gpus != nil {
		all.Go(func() { a.gpus.Look(ctx) })
	}
	all.Wait()
}

// machine is the report of the machine for the next registration; nil for none.
func (a *Agent) machine() *hardware.Report {
	if a.gpus == nil {
		return nil
	}
	found := a.gpus.Report()
	if found == nil {
		return nil
	}
	report := *found
	report.Engine = a.pool.Kind()
	return &report
}

// NodeID is the name by which hubs know this machine.
func (a *Agent) NodeID() string { return a.nodeID }

// Registered is closed once a hub has acknowledged the agent for the first time.
func (a *Agent) Registered() <-chan struct{} { return a.link.Registered() }

// Ready returns nil while the agent is registered and at least one of its models is
// healthy; else an error that says what is missing.
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

// Run offers the models until ctx ends. Then it takes no new requests, lets the requests
// under way end within the drain time-out, and returns nil. Drain does the same. Run must be
// called once.
func (a *Agent) Run(ctx context.Context) error {
	ctx, cancel := a.watched.until(ctx)
	defer cancel()
	uncontrolled := a.watched.controlled(a.stateDir, a)
	a.look(ctx)
	// Engines are probed as long as requests are served, drain included.
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	var watch sync.WaitGroup
	watch.Go(func() { a.pool.Watch(watching) })
	watch.Go(func() { a.kept.Run(watching) })
	watch.Go(func() { a.work.Run(watching) })
	watch.Go(func() { a.folders.Watch(watching) })
	if a.gpus != nil {
		watch.Go(func() { a.gpus.Run(watching) })
	}
	err := a.link.Run(ctx)
	stop()
	watch.Wait()
	uncontrolled() // before the lock of the folder is given up
	return errors.Join(err, a.kept.Close())
}

// ReceiptStatus counts the work receipts of this node.
type ReceiptStatus = workreceipts.Status

// Receipts returns how many receipts wait to be acknowledged, and what became of others.
func (a *Agent) Receipts() ReceiptStatus { return a.kept.Status() }

// Finding is the result of Check for one model.
type Finding struct {
	Model Model
	// ContextLength in tokens; 0 where neither owner nor engine gives it.
	ContextLength int64
	// Fault is empty when the engine serves the model.
	Fault string
	// FilesFault says why the model's files cannot be proven. It is empty when they can be,
	// and for a model without a folder.
	FilesFault string
}

// Bench measures how fast the engine of a model answers, with an answer of at most so many
// tokens.
func Bench(ctx context.Context, m Model, tokens int, now func() time.Time) (engine.Speed, error) {
	pool, err := poolOf(m)
	if err != nil {
		return engine.Speed{}, err
	}
	return pool.Measure(ctx, m.ModelID, tokens, now)
}

// Chat asks the engine of a model for a chat of one token.
func Chat(ctx context.Context, m Model) error {
	pool, err := poolOf(m)
	if err != nil {
		return err
	}
	return pool.Chat(ctx, m.ModelID)
}

// poolOf makes the pool of one model's engine.
func poolOf(m Model) (*engine.Pool, error) {
	if err := offer.Validate([]Model{m}); err != nil {
		return nil, err
	}
	targets, err := targetsOf([]Model{m})
	if err != nil {
		return nil, err
	}
	return engine.New(engine.Config{}, targets, slog.New(slog.DiscardHandler)), nil
}

// Check asks every engine once whether it serves its models, and opens the folders of the
// models' files.
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
	routes := pool.Routes(ctx)
	findings := make([]Finding, 0, len(models))
	for i, state := range pool.States() {
		if err := routes[state.ModelID]; err != nil && state.Reason == "" {
			state.Reason = err.Error()
		}
		findings = append(findings, Finding{Model: models[i].WithDefaults(), ContextLength: state.ContextLength,
			Fault: state.Reason, FilesFault: filesFault(models[i])})
	}
	return findings, nil
}

func filesFault(m Model) string {
	if m.WeightsDir == "" {
		return ""
	}
	folder, err := fingerprint.OpenDir(m.WeightsDir)
	if err != nil {
		return err.Error()
	}
	_ = folder.Close()
	return ""
}
