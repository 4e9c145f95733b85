package rpc

import (
	"context"
	"slices"
	"strconv"
	"time"

	"google.golang.org/grpc/metadata"

	"svc.internal/pkg/actor"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/serve"
	verifierv1 "svc.internal/proto/svc/verifier/v1"
	"svc.internal/services/verifier/internal/keep"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/store"
)

// operatorOf is the operator of a call, as evidence names them.
func operatorOf(ctx context.Context) string { return actor.OfOperator(byOperator(ctx)) }

// byOperator returns a context in which what is done is kept under the operator's name.
func byOperator(ctx context.Context) context.Context {
	return actor.WithOperator(ctx, serve.Operator(ctx))
}

// idempotencyHeader carries an idempotency key beside a message.
const idempotencyHeader = "idempotency-key"

// headerKey is the idempotency key of a call's header; empty for none.
func headerKey(ctx context.Context) string {
	md, _ := metadata.FromIncomingContext(ctx)
	if values := md.Get(idempotencyHeader); len(values) == 1 {
		return values[0]
	}
	return ""
}

// ListVerdicts is one page of verdicts, newest first.
func (s *Admin) ListVerdicts(
	ctx context.Context, req *verifierv1.ListVerdictsRequest,
) (*verifierv1.ListVerdictsResponse, error) {
	if err := checkText("model_id", req.GetModelId(), 0, maxModel); err != nil {
		return nil, err
	}
	f := store.VerdictFilter{Model: req.GetModelId(), Waiting: req.GetWaiting()}
	var err error
	if req.GetProviderId() != "" {
		if f.Provider, err = providerOf(req.GetProviderId()); err != nil {
			return nil, err
		}
	}
	size, err := length(req.GetPageSize())
	if err != nil {
		return nil, err
	}
	before, err := readCursor[verdictPlace](req.GetCursor())
	if err != nil {
		return nil, err
	}
	list, err := s.Store.Verdicts(ctx, f, before.ID, more(size))
	if err != nil {
		return nil, err
	}
	list, next := paged(list, size, func(v store.Verdict) verdictPlace { return verdictPlace{v.ID} })
	resp := &verifierv1.ListVerdictsResponse{NextCursor: next}
	for _, v := range list {
		resp.List = append(resp.List, verdictToProto(v))
	}
	return resp, nil
}

// ApproveVerdict is an operator's word on a penalty that waits for it.
func (s *Admin) ApproveVerdict(
	ctx context.Context, req *verifierv1.ApproveVerdictRequest,
) (*verifierv1.ApproveVerdictResponse, error) {
	id, err := verdictOf(req.GetVerdictId(), VerdictNotFound, "verdict_id")
	if err != nil {
		return nil, err
	}
	v, err := s.Store.Verdict(ctx, id)
	if err != nil {
		return nil, shown(err)
	}
	if !v.NeedsOperator {
		return nil, fault.New(fault.Precondition, fault.TransitionNotAllowed, "the verdict waits for nobody").On("verdict_id")
	}
	waits, err := s.waits(ctx, v)
	if err != nil {
		return nil, err
	}
	if !waits { // the first word stays
		return &verifierv1.ApproveVerdictResponse{Verdict: verdictToProto(v)}, nil
	}
	out, err := s.Actions.Approve(ctx, v, operatorOf(ctx), req.GetRefuse())
	if err != nil {
		return nil, shown(err)
	}
	if v, err = s.Store.Verdict(ctx, id); err != nil {
		return nil, shown(err)
	}
	return &verifierv1.ApproveVerdictResponse{Verdict: verdictToProto(v), Held: string(out.Held)}, nil
}

// waits reports whether an operator has not said a word on a verdict.
func (s *Admin) waits(ctx context.Context, v store.Verdict) (bool, error) {
	list, err := s.Store.Verdicts(ctx, store.VerdictFilter{Provider: v.Offer.Provider, Model: v.Offer.Model,
		Waiting: true}, probe.VerdictID{}, store.MaxPage)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(list, func(w store.Verdict) bool { return w.ID == v.ID }), nil
}

// maxVoid is how far back observations may be voided: as far as their evidence is kept.
const maxVoid = keep.Retention

// VoidObservations makes the observations of an offer since a time count for nothing.
func (s *Admin) VoidObservations(
	ctx context.Context, req *verifierv1.VoidObservationsRequest,
) (*verifierv1.VoidObservationsResponse, error) {
	o, err := offerOf(req.GetProviderId(), req.GetModelId())
	if err != nil {
		return nil, err
	}
	key := req.GetIdempotencyKey()
	if key == "" {
		key = headerKey(ctx)
	}
	if err := checkText("idempotency_key", key, 1, maxKey); err != nil {
		return nil, err
	}
	now, err := s.Store.Now(ctx)
	if err != nil {
		return nil, err
	}
	since := req.GetSince().AsTime()
	if req.GetSince() == nil || req.GetSince().CheckValid() != nil || since.After(now) || now.Sub(since) > maxVoid {
		return nil, invalid("since", "within the last "+strconv.Itoa(int(maxVoid/(24*time.Hour)))+" days")
	}
	if err := s.Actions.Void(ctx, o, operatorOf(ctx), since, key); err != nil {
		return nil, shown(err)
	}
	st, err := s.Store.Standing(ctx, o)
	if err != nil {
		return nil, shown(err)
	}
	return &verifierv1.VoidObservationsResponse{Offering: offeringToProto(st)}, nil
}

// SetPenalties says whether proofs cost providers money.
func (s *Admin) SetPenalties(
	ctx context.Context, req *verifierv1.SetPenaltiesRequest,
) (*verifierv1.SetPenaltiesResponse, error) {
	if err := checkText("reason", req.GetReason(), 1, maxReason); err != nil {
		return nil, err
	}
	if _, err := s.Store.Set(ctx, store.Penalties, req.GetOn(), operatorOf(ctx), req.GetReason()); err != nil {
		return nil, shown(err)
	}
	p, err := s.penalties(ctx)
	if err != nil {
		return nil, err
	}
	return &verifierv1.SetPenaltiesResponse{Penalties: p}, nil
}

// GetPenalties reports whether penalties are on, and who said so.
func (s *Admin) GetPenalties(
	ctx context.Context, _ *verifierv1.GetPenaltiesRequest,
) (*verifierv1.GetPenaltiesResponse, error) {
	p, err := s.penalties(ctx)
	if err != nil {
		return nil, err
	}
	return &verifierv1.GetPenaltiesResponse{Penalties: p}, nil
}

func (s *Admin) penalties(ctx context.Context) (*verifierv1.Penalties, error) {
	w, err := s.Store.Setting(ctx, store.Penalties)
	if err != nil {
		return nil, err
	}
	strata, err := s.Store.PenalStrata(ctx)
	if err != nil {
		return nil, err
	}
	return &verifierv1.Penalties{On: w.Enabled, ChangedBy: w.Actor, ChangedAt: moment(w.ChangedAt), Reason: w.Reason,
		CalibratedStrata: number(strata)}, nil
}

// RunBenchmark has an offer benchmarked as if its provider had asked.
func (s *Admin) RunBenchmark(
	ctx context.Context, req *verifierv1.RunBenchmarkRequest,
) (*verifierv1.RunBenchmarkResponse, error) {
	o, err := offerOf(req.GetProviderId(), req.GetModelId())
	if err != nil {
		return nil, err
	}
	run, err := s.Actions.Benchmark(byOperator(ctx), o)
	if err != nil {
		return nil, shown(err)
	}
	return &verifierv1.RunBenchmarkResponse{Benchmark: benchmarkToProto(run)}, nil
}

// ListEffects is one page of the effects that were refused for good, the oldest first.
func (s *Admin) ListEffects(
	ctx context.Context, req *verifierv1.ListEffectsRequest,
) (*verifierv1.ListEffectsResponse, error) {
	size, err := length(req.GetPageSize())
	if err != nil {
		return nil, err
	}
	after, err := readCursor[int64](req.GetCursor())
	if err != nil {
		return nil, err
	}
	list, err := s.Store.RefusedEffects(ctx, after, more(size))
	if err != nil {
		return nil, err
	}
	list, next := paged(list, size, func(e store.Effect) int64 { return e.ID })
	resp := &verifierv1.ListEffectsResponse{NextCursor: next}
	for _, e := range list {
		resp.List = append(resp.List, &verifierv1.Effect{
			EffectId: strconv.FormatInt(e.ID, 10), VerdictId: e.Verdict.ID.String(),
			ProviderId: e.Verdict.Offer.Provider.String(), Kind: string(e.Kind), Tries: number(e.Tries), Problem: e.Problem,
			CreatedAt: moment(e.CreatedAt),
		})
	}
	return resp, nil
}

// RetryEffect has a refused effect tried again.
func (s *Admin) RetryEffect(
	ctx context.Context, req *verifierv1.RetryEffectRequest,
) (*verifierv1.RetryEffectResponse, error) {
	id, err := strconv.ParseInt(req.GetEffectId(), 10, 64)
	if err != nil {
		return nil, notFound(EffectNotFound, "effect_id")
	}
	found, err := s.Store.RetryEffect(byOperator(ctx), id)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, notFound(EffectNotFound, "effect_id")
	}
	return &verifierv1.RetryEffectResponse{}, nil
}
