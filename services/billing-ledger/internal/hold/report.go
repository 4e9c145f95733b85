package hold

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
)

// Bounds of a report.
const (
	MaxReports  = 200
	maxAttempts = 16
	maxReasons  = 32
	// maxText is in bytes.
	maxText = 64
)

// ClientGone is the outcome of a request whose caller left.
const ClientGone = "client_gone"

// Attempt is one attempt as the gateway saw it.
type Attempt struct {
	Attempt      int32  `json:"attempt"`
	ProviderID   string `json:"provider_id"`
	ProviderName string `json:"provider_name"`
	Result       string `json:"result"`
	EngineStatus int32  `json:"engine_status"`
	LatencyMS    int64  `json:"latency_ms"`
	HubID        string `json:"hub_id,omitempty"`
	// FirstContentMS is from the attempt's beginning to its first content, ContentMS from then
	// to its end, and ClientMS the part of the latter in which the gateway waited for the
	// client to read. All are 0 where no stream was committed, and of older gateways.
	FirstContentMS int64 `json:"first_content_ms,omitempty"`
	ContentMS      int64 `json:"content_ms,omitempty"`
	ClientMS       int64 `json:"client_ms,omitempty"`
	// PassedOver is what the router passed over when it was asked before this attempt.
	PassedOver []PassedOver `json:"passed_over,omitempty"`
}

// PassedOver is how often the router passed an offer over for a reason, in the router's words.
type PassedOver struct {
	Reason string `json:"reason"`
	Count  int32  `json:"count"`
}

// RequestReport is the gateway's account of how a request ended.
type RequestReport struct {
	Request ids.RequestID
	// Outcome is completed, client_gone, failed, timeout or refused.
	Outcome string
	// CommittedAttempt is the attempt whose answer was relayed, 0 for none.
	CommittedAttempt int32
	// RelayedTokens counts images for a model that is priced by the image.
	RelayedTokens     int64
	RelayedBytes      int64
	HTTPStatus        int32
	ErrorCode         string
	RouteMode         string
	RequestedProvider string
	FallbackReason    string
	Stream            bool
	Attempts          []Attempt
	ReceivedAt        time.Time
	FirstContentMS    int64
	TotalMS           int64
	// Metered is the usage that the hub said it bills, nil when the hub did not finish.
	Metered *money.Tokens
	// ContinuedAs is the request that continues with the consumer's next choice of model;
	// zero for none.
	ContinuedAs ids.RequestID
	// Pin is what the hold says, for the case that it is not written; nil where the caller does not
	// know.
	Pin *Pin
}

// Committed returns where the committed attempt ran. It is zero when the report does not
// name a provider that can be paid.
func (w RequestReport) Committed() (hub string, provider ids.ProviderID) {
	for _, a := range w.Attempts {
		if w.CommittedAttempt == 0 || a.Attempt != w.CommittedAttempt {
			continue
		}
		if id, err := ids.ParseProvider(a.ProviderID); err == nil {
			return a.HubID, id
		}
	}
	return "", ids.ProviderID{}
}

// surelyHung is the time after its dispatch from which a client may leave a request
// because its provider hung, in milliseconds. Nobody pays for such a request either.
const surelyHung = 5000

// LeftAtOnce reports whether a provider was at work on a request that its client left so
// soon that it costs nothing.
func (w RequestReport) LeftAtOnce() bool {
	n := len(w.Attempts)
	return w.Outcome == ClientGone && w.CommittedAttempt == 0 && n > 0 &&
		w.Attempts[n-1].Result == ClientGone && w.Attempts[n-1].LatencyMS < surelyHung
}

// bounded returns w within its bounds. Reports are evidence, and gateways send a batch
// again until it is accepted. So an odd report is cut to size instead of holding up the
// others.
func (w RequestReport) bounded() RequestReport {
	w.CommittedAttempt = max(w.CommittedAttempt, 0)
	w.RelayedTokens = max(w.RelayedTokens, 0)
	w.RelayedBytes = max(w.RelayedBytes, 0)
	if w.HTTPStatus < 100 || w.HTTPStatus > 599 {
		w.HTTPStatus = 0
	}
	w.FirstContentMS = max(w.FirstContentMS, 0)
	w.TotalMS = max(w.TotalMS, 0)
	w.ErrorCode = cut(w.ErrorCode, maxText)
	w.RequestedProvider = cut(w.RequestedProvider, maxText)
	w.FallbackReason = cut(w.FallbackReason, maxText)
	attempts := make([]Attempt, 0, min(len(w.Attempts), maxAttempts))
	for _, a := range w.Attempts[:min(len(w.Attempts), maxAttempts)] {
		a.ProviderID = cut(a.ProviderID, maxText)
		a.ProviderName = cut(a.ProviderName, 4*maxText)
		a.Result = cut(a.Result, maxText)
		a.HubID = cut(a.HubID, maxText)
		a.FirstContentMS, a.ContentMS, a.ClientMS = max(a.FirstContentMS, 0), max(a.ContentMS, 0), max(a.ClientMS, 0)
		a.PassedOver = boundedReasons(a.PassedOver)
		attempts = append(attempts, a)
	}
	w.Attempts = attempts
	if m := w.Metered; m != nil && (m.Prompt < 0 || m.Completion < 0) {
		w.Metered = nil
	}
	if w.ContinuedAs == w.Request {
		w.ContinuedAs = ids.RequestID{}
	}
	return w
}

// boundedReasons returns at most maxReasons of the reasons, each within its bounds.
func boundedReasons(all []PassedOver) []PassedOver {
	var bounded []PassedOver
	for _, p := range all[:min(len(all), maxReasons)] {
		bounded = append(bounded, PassedOver{Reason: cut(p.Reason, maxText), Count: max(p.Count, 0)})
	}
	return bounded
}

// cut returns at most n bytes of s, in whole characters and without the characters that
// PostgreSQL cannot store.
func cut(s string, n int) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, ""), "\x00", "")
	if len(s) > n {
		s = strings.ToValidUTF8(s[:n], "")
	}
	return s
}

// ReportStore keeps reports.
type ReportStore interface {
	// Conclude records the first report of each known request, frees its places in the
	// concurrency of account and plan, and counts it if its client left at once. It
	// closes as Released the open holds of which a new report says that nothing was
	// relayed. The other holds stay open for the usage of what was served. It returns the
	// number of holds that it released, and the requests with pins that have no hold, in no
	// order.
	Conclude(ctx context.Context, all []RequestReport) (released int, unwritten []ids.RequestID, err error)
}

// Concluder records reports. A report may come before the hold of its request is written, and
// Concluder writes the hold then.
type Concluder struct {
	Store ReportStore
	// Pins writes missing holds; nil writes none. Clock shows the age of a request.
	Pins  PinWriter
	Clock clock.Clock
	// Observe gets the number of holds that were released.
	Observe func(int)
}

// Conclude records at most MaxReports reports.
func (c *Concluder) Conclude(ctx context.Context, all []RequestReport) error {
	if len(all) > MaxReports {
		return fault.New(fault.Invalid, fault.InvalidValue, "at most %d reports a call", MaxReports).On("reports")
	}
	if len(all) == 0 {
		return nil
	}
	bounded, pins := make([]RequestReport, len(all)), make([]*Pin, len(all))
	for i, w := range all {
		bounded[i], pins[i] = w.bounded(), w.Pin
	}
	if err := WriteFresh(ctx, c.Pins, c.Clock, pins); err != nil {
		return err
	}
	unwritten, err := c.record(ctx, bounded)
	if err != nil || c.Pins == nil || len(unwritten) == 0 {
		return err
	}
	missing := make([]Pin, len(unwritten))
	for i, w := range unwritten {
		missing[i] = *w.Pin
	}
	if err := c.Pins.Write(ctx, missing); err != nil {
		return fmt.Errorf("write the holds of %d reports: %w", len(missing), err)
	}
	_, err = c.record(ctx, unwritten)
	return err
}

// record records reports and returns those whose holds are not written.
func (c *Concluder) record(ctx context.Context, all []RequestReport) (unwritten []RequestReport, err error) {
	released, unknown, err := c.Store.Conclude(ctx, all)
	if err != nil {
		return nil, fmt.Errorf("record %d reports: %w", len(all), err)
	}
	c.Observe(released)
	for _, w := range all {
		if w.Pin != nil && slices.Contains(unknown, w.Request) {
			unwritten = append(unwritten, w)
		}
	}
	return unwritten, nil
}
