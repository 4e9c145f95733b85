package peers

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/ids"
	hubv1 "svc.internal/proto/svc/hub/v1"
	settlementv1 "svc.internal/proto/svc/settlement/v1"
	"svc.internal/services/verifier/internal/probe"
)

// Verdicts tells hubs what the verifier decided. Every call may be repeated.
type Verdicts struct {
	Client hubv1.VerdictServiceClient
}

// Benchmark says whether a benchmark of the provider counts. passedAt is read where it
// does.
func (v Verdicts) Benchmark(
	ctx context.Context, provider ids.ProviderID, passed bool, passedAt time.Time, revision int64, reason string,
) error {
	req := &hubv1.ReportBenchmarkRequest{
		ProviderId: provider.String(), Passed: passed, Revision: revision, Reason: reason,
	}
	if passed {
		req.PassedAt = timestamppb.New(passedAt)
	}
	if _, err := v.Client.ReportBenchmark(ctx, req); err != nil {
		return fmt.Errorf("report a benchmark: %w", err)
	}
	return nil
}

// Expel removes a provider from the network.
func (v Verdicts) Expel(ctx context.Context, provider ids.ProviderID, verdict probe.VerdictID, reason string) error {
	req := &hubv1.ExpelRequest{ProviderId: provider.String(), VerdictId: verdict.String(), Reason: reason}
	if _, err := v.Client.Expel(ctx, req); err != nil {
		return fmt.Errorf("expel a provider: %w", err)
	}
	return nil
}

// Reinstate undoes an expulsion.
func (v Verdicts) Reinstate(
	ctx context.Context, provider ids.ProviderID, verdict probe.VerdictID, reason string,
) error {
	req := &hubv1.ReinstateRequest{ProviderId: provider.String(), VerdictId: verdict.String(), Reason: reason}
	if _, err := v.Client.Reinstate(ctx, req); err != nil {
		return fmt.Errorf("reinstate a provider: %w", err)
	}
	return nil
}

// Penalty is a share of a provider's collateral that a verdict proposes to take.
type Penalty struct {
	Verdict probe.VerdictID
	Offer   probe.Offer
	// Kind is misrepresentation or benchmark.
	Kind string
	// Family is the family of evidence that led, or benchmark.
	Family string
	// BasisPoints are parts of 10,000.
	BasisPoints  int
	Removes      bool
	Summary      string
	EvidenceHash [32]byte
}

// Penalties opens penalties at settlement.
type Penalties struct {
	Client settlementv1.PenaltyServiceClient
}

// Open opens a penalty, and returns until when the provider may appeal. A repeat returns
// the first.
func (p Penalties) Open(ctx context.Context, o Penalty) (appealUntil time.Time, err error) {
	resp, err := p.Client.OpenPenalty(ctx, &settlementv1.OpenPenaltyRequest{
		PenaltyId: o.Verdict.String(), ProviderId: o.Offer.Provider.String(), ModelId: o.Offer.Model, Kind: o.Kind,
		ShareBasisPoints: int32(o.BasisPoints), Removes: o.Removes, Summary: o.Summary,
		EvidenceHash: o.EvidenceHash[:], Family: o.Family,
	})
	if err != nil {
		return time.Time{}, fmt.Errorf("open a penalty: %w", err)
	}
	return resp.GetPenalty().GetAppealUntil().AsTime(), nil
}
