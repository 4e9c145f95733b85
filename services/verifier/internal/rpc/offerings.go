package rpc

import (
	"context"

	verifierv1 "svc.internal/proto/svc/verifier/v1"
	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/ladder"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/standing"
	"svc.internal/services/verifier/internal/store"
)

// ListOfferings is one page of the offers, by provider and model.
func (s *Admin) ListOfferings(
	ctx context.Context, req *verifierv1.ListOfferingsRequest,
) (*verifierv1.ListOfferingsResponse, error) {
	size, err := length(req.GetPageSize())
	if err != nil {
		return nil, err
	}
	after, err := readCursor[probe.Offer](req.GetCursor())
	if err != nil {
		return nil, err
	}
	var list []store.Standing
	if req.GetProviderId() != "" {
		provider, err := providerOf(req.GetProviderId())
		if err != nil {
			return nil, err
		}
		list, err = s.Store.StandingsOf(ctx, provider, after.Model, more(size))
		if err != nil {
			return nil, err
		}
	} else {
		level := ladder.Level(req.GetLevel())
		if level != "" && !known(ladder.Levels(), level) {
			return nil, invalid("level", "a level")
		}
		if list, err = s.Store.Standings(ctx, level, after, more(size)); err != nil {
			return nil, err
		}
	}
	list, next := paged(list, size, func(st store.Standing) probe.Offer { return st.Offer })
	resp := &verifierv1.ListOfferingsResponse{NextCursor: next}
	for _, st := range list {
		resp.List = append(resp.List, offeringToProto(st))
	}
	return resp, nil
}

func known[T comparable](all []T, one T) bool {
	for _, each := range all {
		if each == one {
			return true
		}
	}
	return false
}

func offeringToProto(st store.Standing) *verifierv1.Offering {
	unjudged := ""
	if f := st.State.Unjudged.Family(); f != evidence.NoFamily {
		unjudged = f.String()
	}
	return &verifierv1.Offering{
		ProviderId: st.Offer.Provider.String(), ModelId: st.Offer.Model, Level: string(st.State.Level),
		LevelSince: moment(st.State.Since), Evidence: st.State.Process.M(), Trust: st.Opinion.Trust,
		Lane: st.Opinion.Lane.String(), CapTokens: number(st.Opinion.CapTokens), Benchmark: string(st.State.Run),
		BenchmarkPassedAt: moment(st.State.PassedAt), MovedAt: moment(st.MovedAt),
		LaneReason: st.State.Reason(st.Opinion.Lane, !st.Opinion.PassedAt.IsZero()), Unjudged: unjudged,
	}
}

// GetOffering explains the state of one offer.
func (s *Admin) GetOffering(
	ctx context.Context, req *verifierv1.GetOfferingRequest,
) (*verifierv1.GetOfferingResponse, error) {
	o, err := offerOf(req.GetProviderId(), req.GetModelId())
	if err != nil {
		return nil, err
	}
	st, err := s.Store.Standing(ctx, o)
	if err != nil {
		return nil, shown(err)
	}
	stated, err := s.Store.Offering(ctx, o)
	if err != nil {
		return nil, shown(err)
	}
	// What was held the last time says why nothing follows from the evidence.
	last, err := s.Store.Events(ctx, o, 0, 1)
	if err != nil {
		return nil, err
	}
	now, err := s.Store.Now(ctx)
	if err != nil {
		return nil, err
	}
	resp := detailToProto(st)
	resp.Observations = number(st.State.Taken.Year(now))
	for _, e := range last {
		resp.Held = string(e.Outcome.Held)
	}
	f := st.State.Publish(now, standing.World{Offer: o}).Factors
	resp.Factors = &verifierv1.TrustFactors{Verified: f.V, Integrity: f.I, Context: f.C, Fairness: f.F}
	resp.Quantization, resp.Engine, resp.GpuClass = stated.Quantization, stated.Engine, stated.GPU
	resp.FirstSeen, resp.SeenAt, resp.ChangedAt = moment(stated.FirstSeen), moment(stated.SeenAt), moment(stated.ChangedAt)
	return resp, nil
}

func detailToProto(st store.Standing) *verifierv1.GetOfferingResponse {
	state := st.State
	resp := &verifierv1.GetOfferingResponse{
		Offering: offeringToProto(st), MeasuredTokens: number(state.MeasuredTokens),
		Measuring: state.Measuring(), Unmeasured: state.Unmeasured(),
		MisrepresentationLane: state.MisrepLane.String(), BenchmarkLane: state.BenchLane.String(), Pairs: state.Pairs.M(),
		ExceedingHours: number(len(state.Hours)), Rank: number(st.Rank),
	}
	if state.Led != evidence.NoFamily {
		resp.Led = state.Led.String()
	}
	if state.Level == ladder.Confirm {
		resp.ConfirmationSpent, resp.ConfirmationEvidence = number(state.Confirmation.Probes()), state.Confirmation.E()
	}
	for _, f := range evidence.Families() {
		resp.Families = append(resp.Families, &verifierv1.FamilyEvidence{
			Family: f.String(), Evidence: state.Process.Of(f),
		})
	}
	for _, open := range state.Open {
		resp.OpenVerdictIds = append(resp.OpenVerdictIds, open.Verdict.String())
	}
	return resp
}

// ListObservations is one page of the observations of an offer. A page holds whole events,
// so it may be shorter than it was asked for.
func (s *Admin) ListObservations(
	ctx context.Context, req *verifierv1.ListObservationsRequest,
) (*verifierv1.ListObservationsResponse, error) {
	o, err := offerOf(req.GetProviderId(), req.GetModelId())
	if err != nil {
		return nil, err
	}
	size, err := length(req.GetPageSize())
	if err != nil {
		return nil, err
	}
	before, err := readCursor[int64](req.GetCursor())
	if err != nil {
		return nil, err
	}
	// An event has at most one observation of each family.
	size = max(size, len(evidence.Families())+1)
	list, err := s.Store.Observations(ctx, o, before, size)
	if err != nil {
		return nil, err
	}
	resp := &verifierv1.ListObservationsResponse{}
	if len(list) == size {
		last := list[len(list)-1].Number
		for len(list) > 0 && list[len(list)-1].Number == last {
			list = list[:len(list)-1]
		}
		resp.NextCursor = writeCursor(last + 1)
	}
	for _, b := range list {
		resp.List = append(resp.List, &verifierv1.Observation{
			ProbeId: b.Probe.String(), Kind: string(b.Kind), Flow: string(b.Flow), Family: b.Family, Exceeds: b.Exceeded,
			Calibration: b.Calibration, At: moment(b.At),
		})
	}
	return resp, nil
}
