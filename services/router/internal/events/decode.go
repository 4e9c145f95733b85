package events

import (
	"errors"
	"slices"
	"time"
	"unicode"
	"unicode/utf8"

	"svc.internal/pkg/ids"
	eventsv1 "svc.internal/proto/svc/events/v1"
	"svc.internal/services/router/internal/pick"
	"svc.internal/services/router/internal/presence"
	"svc.internal/services/router/internal/tag"
	"svc.internal/services/router/internal/warmup"
)

// The bounds of a message. A session that exceeds one is left out and counted; the rest
// of its message counts.
const (
	maxSessions     = 1_000
	maxEnded        = 10_000
	maxAttempts     = 4_096
	maxCapabilities = 32
	maxHubID        = 32
	maxModelID      = 128
	maxText         = 128
	maxShortText    = 64
	maxWindow       = 1 << 30
	maxInFlight     = 1 << 20
	maxSaid         = 1 << 20
)

var errBounds = errors.New("a message out of bounds")

// reportFromProto reads a presence message. refused counts the sessions that were left
// out.
func reportFromProto(m *eventsv1.Presence) (r presence.Report, refused int, err error) {
	if !text(m.GetHubId(), 1, maxHubID) || !text(m.GetDispatchAddress(), 1, maxText) || m.GetIncarnation() <= 0 ||
		len(m.GetSessions()) > maxSessions || len(m.GetEndedEpochs()) > maxEnded {
		return presence.Report{}, 0, errBounds
	}
	r = presence.Report{
		Hub: m.GetHubId(), Incarnation: m.GetIncarnation(), Address: m.GetDispatchAddress(),
		Revision: m.GetRevision(), Full: m.GetFull(), Part: m.GetPart(), Parts: m.GetParts(),
		Ended: m.GetEndedEpochs(), Sessions: make([]presence.Session, 0, len(m.GetSessions())),
	}
	for _, s := range m.GetSessions() {
		if session, ok := sessionFromProto(s); ok {
			r.Sessions = append(r.Sessions, session)
		} else {
			refused++
		}
	}
	return r, refused, nil
}

func sessionFromProto(m *eventsv1.Session) (presence.Session, bool) {
	provider, err := ids.ParseProvider(m.GetProviderId())
	// Every hub names a mode. An unknown one is of a later hub: see presence.Session.Tier.
	if err != nil || m.GetConnectionMode() <= eventsv1.ConnectionMode_CONNECTION_MODE_UNSPECIFIED ||
		!text(m.GetProviderName(), 0, maxText) || !text(m.GetNodeId(), 0, maxText) ||
		!text(m.GetRegion(), 0, maxShortText) || m.GetEpoch() <= 0 || m.GetMaxRequestBytes() < 0 ||
		len(m.GetModels()) > presence.MaxModels || len(m.GetCapabilities()) > maxCapabilities {
		return presence.Session{}, false
	}
	s := presence.Session{
		Provider: provider.String(), ProviderName: m.GetProviderName(), Node: m.GetNodeId(), Epoch: m.GetEpoch(),
		Mode: presence.Mode(m.GetConnectionMode()), Vendor: m.GetVendor(),
		// References serve nobody, whatever a hub says of their status.
		Active: m.GetActive() && !m.GetReference(), Draining: m.GetDraining(), MaxRequestBytes: m.GetMaxRequestBytes(),
		Region: m.GetRegion(), Capabilities: slices.Clone(m.GetCapabilities()),
		Offers:   make([]presence.Offer, 0, len(m.GetModels())),
		Capacity: int(max(m.GetCapacity(), 0)), Said: said(m.GetReportedActive()) + said(m.GetReportedQueued()),
		Probation: m.GetProbation(), TakesWarmups: m.GetTakesWarmups(),
	}
	// NaN is neither below nor above anything.
	if up := m.GetUptime_30D(); m.Uptime_30D != nil && up >= 0 && up <= 1 {
		s.Uptime, s.UptimeKnown = up, true
	}
	for _, c := range s.Capabilities {
		if !text(c, 1, maxShortText) {
			return presence.Session{}, false
		}
	}
	slices.Sort(s.Capabilities)
	named := make(map[string]bool, len(m.GetModels()))
	for _, o := range m.GetModels() {
		offer, ok := offerFromProto(o)
		if !ok || named[offer.Model] {
			return presence.Session{}, false
		}
		named[offer.Model] = true
		s.Offers = append(s.Offers, offer)
	}
	return s, true
}

// said reads a number that an agent reports of itself. A number that cannot be true
// becomes the nearest that can, so that it harms nobody else.
func said(n int32) int { return int(min(max(n, 0), maxSaid)) }

func offerFromProto(m *eventsv1.ModelOffer) (presence.Offer, bool) {
	if !text(m.GetModelId(), 1, maxModelID) || !text(m.GetQuantization(), 0, maxShortText) ||
		m.GetInFlight() < 0 || m.GetInFlight() > maxInFlight {
		return presence.Offer{}, false
	}
	return presence.Offer{
		Model: m.GetModelId(), Healthy: m.GetHealthy(),
		// A claim of a provider must not cost it its other models.
		Window:   min(max(m.GetReportedContextLength(), 0), maxWindow),
		Capacity: int(m.GetCapacity()), InFlight: int(m.GetInFlight()), Quantization: m.GetQuantization(),
	}, true
}

// text reports whether s is printable and has between minBytes and maxBytes bytes.
func text(s string, minBytes, maxBytes int) bool {
	if len(s) < minBytes || len(s) > maxBytes || !utf8.ValidString(s) {
		return false
	}
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}

// attemptFromProto reads one attempt. Durations out of range count as not known.
func attemptFromProto(m *eventsv1.Attempt) (pick.Attempt, bool) {
	provider, err := ids.ParseProvider(m.GetProviderId())
	account, ok := tag.FromBytes(m.GetAccountTag())
	minBytes := 1
	if m.GetProbe() {
		minBytes = 0 // a warm-up has no request
	}
	if err != nil || !ok || !text(m.GetModelId(), 1, maxModelID) || !text(m.GetNodeId(), 0, maxText) ||
		!text(m.GetRequestId(), minBytes, maxShortText) {
		return pick.Attempt{}, false
	}
	return pick.Attempt{
		Request: m.GetRequestId(), Provider: provider.String(), Node: m.GetNodeId(), Epoch: m.GetEpoch(),
		Model: m.GetModelId(), Outcome: outcomeFromProto(m.GetOutcome()),
		FirstContent: millis(m.GetFirstContentMs()), Duration: millis(m.GetDurationMs()),
		CompletionTokens: m.GetCompletionTokens(), NeverBegan: m.GetAttempt() == 0,
		Account: account, Excused: m.GetExcused(), Probe: m.GetProbe(), Chat: m.GetChat(),
		Prompt: min(max(m.GetPromptTokens(), 0), maxWindow), Blocked: millis(m.GetCallerBlockedMs()),
	}, true
}

func outcomeFromProto(o eventsv1.AttemptOutcome) pick.Outcome {
	switch o {
	case eventsv1.AttemptOutcome_ATTEMPT_OUTCOME_SERVED:
		return pick.Served
	case eventsv1.AttemptOutcome_ATTEMPT_OUTCOME_FAILED:
		return pick.Failed
	case eventsv1.AttemptOutcome_ATTEMPT_OUTCOME_BUSY:
		return pick.TurnedAway
	default:
		return pick.Neutral
	}
}

// targetFromProto reads which nodes a warm-up is asked of: one node, all nodes of a
// provider, or all that serve the model.
func targetFromProto(m *eventsv1.WarmUp) (warmup.Target, bool) {
	t := warmup.Target{Provider: m.GetProviderId(), Node: m.GetNodeId(), Model: m.GetModelId()}
	if !text(t.Model, 1, maxModelID) || !text(t.Node, 0, maxText) || t.Provider == "" && t.Node != "" {
		return warmup.Target{}, false
	}
	if t.Provider == "" {
		return t, true
	}
	provider, err := ids.ParseProvider(t.Provider)
	t.Provider = provider.String()
	return t, err == nil
}

// millis reads a duration of at most an hour.
func millis(ms int64) time.Duration {
	if ms < 0 || ms > time.Hour.Milliseconds() {
		return 0
	}
	return time.Duration(ms) * time.Millisecond
}
