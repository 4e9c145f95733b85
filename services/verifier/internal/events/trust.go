package events

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/ids"
	eventsv1 "svc.internal/proto/svc/events/v1"
	"svc.internal/services/verifier/internal/trust"
)

// MaxReported bounds the models of one report. A provider has no more that are routed.
const MaxReported = 256

// Opinion is what routers are to know of a model of a provider.
type Opinion struct {
	Model string
	// Trust is above 0 and at most 1.
	Trust float64
	Lane  trust.Lane
	// CapTokens is the window that is routed at most; 0 for no cap.
	CapTokens  int64
	GraceUntil time.Time
	// Revision grows with every change of the opinion.
	Revision int64
}

// Report is all that routers are to know of a provider.
type Report struct {
	Provider ids.ProviderID
	// Revision grows with every change of one of the opinions.
	Revision int64
	Opinions []Opinion
}

var lanes = map[trust.Lane]eventsv1.Lane{
	trust.Main: eventsv1.Lane_LANE_MAIN, trust.Probe: eventsv1.Lane_LANE_PROBE, trust.Shut: eventsv1.Lane_LANE_SHUT,
}

// Reports reads what routers are to know.
type Reports interface {
	// Report returns the report of one provider.
	Report(ctx context.Context, provider ids.ProviderID) (Report, error)
	// ReportsAfter returns reports in the order of their providers, behind after, at most
	// limit.
	ReportsAfter(ctx context.Context, after ids.ProviderID, limit int) ([]Report, error)
}

const (
	// fullInterval is the pause between two reports of all providers.
	fullInterval = 10 * time.Second
	// reportBatch bounds the reports that are read, and under way, at a time.
	reportBatch = 500
	// maxChanged bounds the providers whose changes wait. When there are more, all are
	// reported.
	maxChanged = 10_000
)

// Reporter tells routers what the verifier makes of providers: a change at once, everything
// every 10 s and when a router asks. The stream keeps the last report of each provider. A
// repeat of a revision is a duplicate for the stream, which costs it nothing, and is heard
// by routers all the same. The stream is made at first and after every failure, because a
// server may have lost its store.
type Reporter struct {
	bus     *bus.Conn
	reports Reports
	log     *slog.Logger
	// ensured reports whether the stream was there last. Run's goroutine alone uses it.
	ensured bool

	mu      sync.Mutex
	changed map[ids.ProviderID]bool
	all     bool
	wake    chan struct{}
}

// NewReporter makes a reporter; Run starts it.
func NewReporter(conn *bus.Conn, reports Reports, log *slog.Logger) *Reporter {
	return &Reporter{bus: conn, reports: reports, log: log, changed: map[ids.ProviderID]bool{},
		wake: make(chan struct{}, 1)}
}

// Changed has the report of a provider published at once.
func (r *Reporter) Changed(provider ids.ProviderID) {
	r.mu.Lock()
	if len(r.changed) >= maxChanged {
		r.all = true
	} else {
		r.changed[provider] = true
	}
	r.mu.Unlock()
	r.ring()
}

// All has the reports of all providers published at once.
func (r *Reporter) All() {
	r.mu.Lock()
	r.all = true
	r.mu.Unlock()
	r.ring()
}

func (r *Reporter) ring() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Run publishes until ctx ends.
func (r *Reporter) Run(ctx context.Context) error {
	full := time.NewTicker(fullInterval)
	defer full.Stop()
	r.All()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-full.C:
			r.All()
		case <-r.wake:
			if err := r.pass(ctx); err != nil && ctx.Err() == nil {
				r.log.WarnContext(ctx, "trust could not be told to routers, and will be", "error", err)
			}
		}
	}
}

// pass publishes what waits. After an error all is published with the next full report. The
// routers that listen hear a report although no stream keeps it.
func (r *Reporter) pass(ctx context.Context) error {
	err := errors.Join(r.ensure(ctx), r.publishWaiting(ctx))
	r.ensured = err == nil
	return err
}

// ensure makes the stream, unless it was there last.
func (r *Reporter) ensure(ctx context.Context) error {
	if r.ensured {
		return nil
	}
	return r.bus.EnsureStream(ctx, bus.TrustStream)
}

func (r *Reporter) publishWaiting(ctx context.Context) error {
	r.mu.Lock()
	changed, all := r.changed, r.all
	r.changed, r.all = map[ids.ProviderID]bool{}, false
	r.mu.Unlock()
	if all {
		return r.publishAll(ctx)
	}
	var list []Report
	for provider := range changed {
		report, err := r.reports.Report(ctx, provider)
		if err != nil {
			return err
		}
		list = append(list, report)
	}
	return r.publish(ctx, list)
}

func (r *Reporter) publishAll(ctx context.Context) error {
	var after ids.ProviderID
	for {
		list, err := r.reports.ReportsAfter(ctx, after, reportBatch)
		if err != nil {
			return err
		}
		if err := r.publish(ctx, list); err != nil {
			return err
		}
		if len(list) < reportBatch {
			return nil
		}
		after = list[len(list)-1].Provider
	}
}

// publish sends reports and waits until the stream has them. One that fails does not keep
// the others from it.
func (r *Reporter) publish(ctx context.Context, list []Report) error {
	var faults []error
	futures := make([]*bus.Future, 0, len(list))
	for _, report := range list {
		data, err := encode(report)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		provider := report.Provider.String()
		id := provider + "/" + strconv.FormatInt(report.Revision, 10)
		future, err := r.bus.PublishStreamAsync(ctx, bus.SubjectTrust(provider), id, data, nil)
		if err != nil {
			faults = append(faults, fmt.Errorf("publish trust: %w", err))
			continue
		}
		futures = append(futures, future)
	}
	for _, future := range futures {
		if _, err := future.Wait(ctx); err != nil {
			faults = append(faults, fmt.Errorf("publish trust: %w", err))
		}
	}
	return errors.Join(faults[:min(len(faults), 3)]...)
}

// encode writes a report. Of a provider with too many models the restricted ones go first,
// because an unknown model is in the main lane.
func encode(r Report) ([]byte, error) {
	opinions := r.Opinions
	if len(opinions) > MaxReported {
		opinions = slices.Clone(opinions)
		slices.SortStableFunc(opinions, func(a, b Opinion) int { return cmp.Compare(severity(b), severity(a)) })
		opinions = opinions[:MaxReported]
	}
	msg := &eventsv1.TrustReport{ProviderId: r.Provider.String(), Revision: r.Revision}
	for _, o := range opinions {
		t := &eventsv1.Trust{
			ProviderId: msg.GetProviderId(), ModelId: o.Model, Trust: o.Trust, Lane: lanes[o.Lane],
			MeasuredContextLength: o.CapTokens, Revision: o.Revision,
		}
		if !o.GraceUntil.IsZero() {
			t.GraceUntil = timestamppb.New(o.GraceUntil)
		}
		msg.Models = append(msg.Models, t)
	}
	data, err := proto.Marshal(msg)
	if err != nil {
		return nil, fmt.Errorf("encode a report of trust: %w", err)
	}
	return data, nil
}

// severity orders opinions by how much they restrict.
func severity(o Opinion) int {
	n := map[trust.Lane]int{trust.Probe: 2, trust.Shut: 4}[o.Lane]
	if o.CapTokens > 0 {
		n++
	}
	return n
}
