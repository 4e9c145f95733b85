package rpc

import (
	"context"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/serve"
	verifierv1 "svc.internal/proto/svc/verifier/v1"
	"svc.internal/services/verifier/internal/archive"
	"svc.internal/services/verifier/internal/console"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/standing"
	"svc.internal/services/verifier/internal/store"
)

// maxOwn bounds the models of a standing.
const maxOwn = 256

// caller returns the provider that a gateway has authenticated.
func (s *Self) caller(ctx context.Context, text string) (ids.ProviderID, error) {
	if !serve.Proves(ctx, s.Gateway) {
		return ids.ProviderID{}, fault.New(fault.Denied, fault.CallerNotAllowed,
			"the caller's certificate does not name %s", s.Gateway)
	}
	return providerOf(text)
}

// ListChallenges is one page of the provider's visible challenges, or of its hidden probes
// by day.
func (s *Self) ListChallenges(
	ctx context.Context, req *verifierv1.ListChallengesRequest,
) (*verifierv1.ListChallengesResponse, error) {
	provider, err := s.caller(ctx, req.GetProviderId())
	if err != nil {
		return nil, err
	}
	size, err := length(req.GetPageSize())
	if err != nil {
		return nil, err
	}
	now, err := s.Store.Now(ctx)
	if err != nil {
		return nil, err
	}
	if req.GetHidden() {
		return s.hidden(ctx, provider, req.GetCursor(), size, now)
	}
	behind, err := readCursor[store.ChallengeCursor](req.GetCursor())
	if err != nil {
		return nil, err
	}
	// A bound before all time leaves the hidden ones out.
	list, err := s.Store.Challenges(ctx, provider, time.Unix(0, 0), behind, more(size))
	if err != nil {
		return nil, err
	}
	list, next := paged(list, size, store.Challenge.Cursor)
	resp := &verifierv1.ListChallengesResponse{NextCursor: next}
	for _, c := range list {
		one := console.OfVisible(console.Visible{Model: c.Model, Kind: c.Kind, At: c.EndedAt,
			Done: c.State == store.Done, Exceeded: c.Exceeded > 0})
		shown := challengeToProto(one)
		if c.Leaf != (archive.Leaf{}) {
			shown.EvidenceLeaf = c.Leaf[:]
		}
		resp.List = append(resp.List, shown)
	}
	return resp, nil
}

func (s *Self) hidden(
	ctx context.Context, provider ids.ProviderID, cursor string, size int, now time.Time,
) (*verifierv1.ListChallengesResponse, error) {
	behind, err := readCursor[store.HiddenDay](cursor)
	if err != nil {
		return nil, err
	}
	list, err := s.Store.HiddenByDay(ctx, provider, console.ShownBefore(now), behind, more(size))
	if err != nil {
		return nil, err
	}
	list, next := paged(list, size, func(d store.HiddenDay) store.HiddenDay {
		return store.HiddenDay{Day: d.Day, Model: d.Model, Kind: d.Kind} // a cursor must not tell the counts
	})
	resp := &verifierv1.ListChallengesResponse{NextCursor: next}
	for _, d := range list {
		c, ok := console.OfTally(console.Tally{Model: d.Model, Kind: d.Kind, Day: d.Day, Probes: d.Probes, Counted: d.Done},
			now)
		if ok {
			resp.List = append(resp.List, challengeToProto(c))
		}
	}
	return resp, nil
}

func challengeToProto(c console.Challenge) *verifierv1.OwnChallenge {
	return &verifierv1.OwnChallenge{ModelId: c.Model, Flow: string(c.Flow), Kind: string(c.Kind), At: moment(c.At),
		Result: string(c.Result)}
}

// runPlace is the place of a page of benchmarks.
type runPlace struct {
	ID probe.RunID `json:"id"`
}

// ListBenchmarks is one page of the provider's benchmarks, newest first.
func (s *Self) ListBenchmarks(
	ctx context.Context, req *verifierv1.ListBenchmarksRequest,
) (*verifierv1.ListBenchmarksResponse, error) {
	provider, err := s.caller(ctx, req.GetProviderId())
	if err != nil {
		return nil, err
	}
	if err := checkText("model_id", req.GetModelId(), 0, maxModel); err != nil {
		return nil, err
	}
	size, err := length(req.GetPageSize())
	if err != nil {
		return nil, err
	}
	before, err := readCursor[runPlace](req.GetCursor())
	if err != nil {
		return nil, err
	}
	list, err := s.Store.Runs(ctx, provider, req.GetModelId(), before.ID, more(size))
	if err != nil {
		return nil, err
	}
	list, next := paged(list, size, func(r store.Run) runPlace { return runPlace{r.ID} })
	resp := &verifierv1.ListBenchmarksResponse{NextCursor: next}
	for _, r := range list {
		resp.List = append(resp.List, benchmarkToProto(r))
	}
	return resp, nil
}

// GetStanding explains where the provider is with each of its models.
func (s *Self) GetStanding(
	ctx context.Context, req *verifierv1.GetStandingRequest,
) (*verifierv1.GetStandingResponse, error) {
	provider, err := s.caller(ctx, req.GetProviderId())
	if err != nil {
		return nil, err
	}
	resp := &verifierv1.GetStandingResponse{}
	for after := ""; len(resp.List) < maxOwn; {
		list, err := s.Store.StandingsOf(ctx, provider, after, min(maxOwn-len(resp.List), store.MaxPage))
		if err != nil {
			return nil, err
		}
		for _, st := range list {
			resp.List = append(resp.List, ownToProto(console.OwnOf(st.Offer.Model, st.State, publishedOf(st.Opinion))))
			after = st.Offer.Model
		}
		if len(list) < store.MaxPage {
			break
		}
	}
	return resp, nil
}

// publishedOf is what routers were told of an offer.
func publishedOf(o store.Opinion) standing.Published {
	return standing.Published{
		Trust: o.Trust, Lane: o.Lane, CapTokens: o.CapTokens, GraceUntil: o.GraceUntil, Proven: !o.PassedAt.IsZero(),
		PassedAt: o.PassedAt,
	}
}

func ownToProto(o console.Own) *verifierv1.OwnStanding {
	return &verifierv1.OwnStanding{
		ModelId: o.Model, Lane: o.Lane.String(), CapTokens: number(o.CapTokens), Standing: o.Standing, Kind: o.Kind,
		Since: moment(o.Since), Benchmark: string(o.Benchmark), BenchmarkExpiresAt: moment(o.ExpiresAt),
		NextStep: o.NextStep, PenaltyId: idText(o.Penalty), LaneReason: o.LaneReason,
	}
}

// AskBenchmark asks for a benchmark of a model.
func (s *Self) AskBenchmark(
	ctx context.Context, req *verifierv1.AskBenchmarkRequest,
) (*verifierv1.AskBenchmarkResponse, error) {
	if _, err := s.caller(ctx, req.GetProviderId()); err != nil {
		return nil, err
	}
	o, err := offerOf(req.GetProviderId(), req.GetModelId())
	if err != nil {
		return nil, err
	}
	run, err := s.Actions.Benchmark(ctx, o)
	if err != nil {
		return nil, shown(err)
	}
	return &verifierv1.AskBenchmarkResponse{Benchmark: benchmarkToProto(run)}, nil
}
