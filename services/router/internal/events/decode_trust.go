package events

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/ids"
	eventsv1 "svc.internal/proto/svc/events/v1"
	"svc.internal/services/router/internal/trust"
)

// maxTrustReport is the largest report that is read, in bytes. 256 models with the longest
// ids have 55 KiB.
const maxTrustReport = 64 << 10

// trustFromProto reads a report of the verifier. refused counts the models that were left
// out because something about them is out of bounds. The rest of their report counts, so
// that a provider cannot escape a verdict on one model by the name of another.
func trustFromProto(m *eventsv1.TrustReport) (r trust.Report, refused int, err error) {
	provider, err := ids.ParseProvider(m.GetProviderId())
	if err != nil || m.GetRevision() <= 0 || len(m.GetModels()) > trust.MaxReported {
		return trust.Report{}, 0, errBounds
	}
	r = trust.Report{
		Provider: provider.String(), Revision: m.GetRevision(),
		Opinions: make([]trust.Opinion, 0, len(m.GetModels())),
	}
	named := make(map[string]bool, len(m.GetModels()))
	for _, t := range m.GetModels() {
		opinion, ok := opinionFromProto(t)
		if !ok || t.GetProviderId() != m.GetProviderId() || named[opinion.Model] {
			refused++
			continue
		}
		named[opinion.Model] = true
		r.Opinions = append(r.Opinions, opinion)
	}
	return r, refused, nil
}

func opinionFromProto(m *eventsv1.Trust) (trust.Opinion, bool) {
	lane, ok := laneFromProto(m.GetLane())
	window := m.GetMeasuredContextLength()
	grace, inTime := graceFromProto(m.GetGraceUntil())
	// NaN is neither below nor above anything.
	if !ok || !inTime || !text(m.GetModelId(), 1, maxModelID) || !(m.GetTrust() > 0 && m.GetTrust() <= 1) ||
		window < 0 || window > maxWindow || m.GetRevision() <= 0 {
		return trust.Opinion{}, false
	}
	return trust.Opinion{
		Model: m.GetModelId(), Trust: m.GetTrust(), Lane: lane, Window: window,
		GraceUntil: grace, Revision: m.GetRevision(),
	}, true
}

func laneFromProto(l eventsv1.Lane) (trust.Lane, bool) {
	switch l {
	case eventsv1.Lane_LANE_UNSPECIFIED, eventsv1.Lane_LANE_MAIN:
		return trust.Main, true
	case eventsv1.Lane_LANE_PROBE:
		return trust.Probe, true
	case eventsv1.Lane_LANE_SHUT:
		return trust.Shut, true
	default:
		return trust.Shut, false
	}
}

// graceFromProto returns the zero time where there is no grace.
func graceFromProto(t *timestamppb.Timestamp) (time.Time, bool) {
	if t == nil {
		return time.Time{}, true
	}
	return t.AsTime(), t.IsValid()
}
