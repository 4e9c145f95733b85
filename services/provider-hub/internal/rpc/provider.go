package rpc

import (
	"context"
	"math"

	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/ids"
	hubv1 "svc.internal/proto/svc/hub/v1"
	"svc.internal/services/provider-hub/internal/gpu"
	"svc.internal/services/provider-hub/internal/provider"
)

// Presence reports whether a provider is connected to this hub. The hub knows that before
// the store does.
type Presence interface {
	Online(id ids.ProviderID) bool
}

// Directory answers hub.v1.ProviderDirectoryService.
type Directory struct {
	hubv1.UnimplementedProviderDirectoryServiceServer
	accounts *provider.Directory
	presence Presence
}

// NewDirectory serves accounts.
func NewDirectory(accounts *provider.Directory, here Presence) *Directory {
	return &Directory{accounts: accounts, presence: here}
}

// GetProvider reads one provider.
func (d *Directory) GetProvider(ctx context.Context, m *hubv1.GetProviderRequest) (*hubv1.GetProviderResponse, error) {
	id, err := providerID(m.GetProviderId())
	if err != nil {
		return nil, err
	}
	a, err := d.accounts.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	p, err := described(ctx, d.accounts, d.presence, a)
	if err != nil {
		return nil, err
	}
	return &hubv1.GetProviderResponse{Provider: p}, nil
}

// described describes an account, with whether its provider is online.
func described(
	ctx context.Context, accounts *provider.Directory, here Presence, a provider.Account,
) (*hubv1.Provider, error) {
	list, err := describedAll(ctx, accounts, here, []provider.Account{a})
	if err != nil {
		return nil, err
	}
	return list[0], nil
}

// describedAll describes all accounts with one query to the store.
func describedAll(
	ctx context.Context, accounts *provider.Directory, here Presence, all []provider.Account,
) ([]*hubv1.Provider, error) {
	asked := make([]ids.ProviderID, len(all))
	for i, a := range all {
		asked[i] = a.ID
	}
	online, err := accounts.Online(ctx, asked)
	if err != nil {
		return nil, err
	}
	list := make([]*hubv1.Provider, len(all))
	for i, a := range all {
		list[i] = accountToProto(a, online[a.ID] || here.Online(a.ID), accounts)
	}
	return list, nil
}

func accountToProto(a provider.Account, online bool, accounts *provider.Directory) *hubv1.Provider {
	p := &hubv1.Provider{
		ProviderId: a.ID.String(), Name: a.Name, Status: statusToProto(a.Status), Region: a.Region,
		CreatedAt: timestamppb.New(a.CreatedAt), Online: online,
		OwnerAddress: a.Owner, OwnerProven: !a.OwnerProvenAt.IsZero(), BeneficiaryAddress: a.Beneficiary,
		Uptime_24H: fraction(a.Uptime24h), Uptime_30D: fraction(a.Uptime30d),
		Reference: a.Reference, Vendor: a.Vendor, Suspensions: suspensionsToProto(&a),
		Qualification: &hubv1.Qualification{
			CollateralConfirmed: !a.Facts.CollateralAt.IsZero(),
			GpuEligible:         a.Facts.GPU(),
			GpuWaived:           !a.Facts.GPUWaivedAt.IsZero(),
			BenchmarkPassed:     a.Facts.BenchmarkPassed(accounts.Now()),
			GpuShortfall:        a.Facts.GPUShortfall,
		},
	}
	for _, q := range a.Proposed.All() {
		p.Proposals = append(p.Proposals, &hubv1.BindingProposal{
			ProposalId: q.ID.String(), Kind: string(q.Kind), Address: q.Address, KeyId: q.Key.String(),
			ProposedAt: timestamppb.New(q.At), TakesEffectAt: optionalTime(q.TakesEffectAt),
		})
	}
	if a.InProbation() {
		p.ProbationEndsAt = timestamppb.New(a.ProbationEndsAt)
	}
	if expires := a.Facts.BenchmarkExpires(); !expires.IsZero() {
		p.Qualification.BenchmarkExpiresAt = timestamppb.New(expires)
	}
	return p
}

// fraction is 0 where it is not known.
func fraction(f *float64) float64 {
	if f == nil {
		return 0
	}
	return *f
}

func nodesToProto(all []provider.Node) []*hubv1.ProviderNode {
	list := make([]*hubv1.ProviderNode, 0, len(all))
	for _, n := range all {
		node := &hubv1.ProviderNode{
			NodeId: n.ID, NodeName: n.Name, AgentVersion: n.AgentVersion, Dialect: n.Dialect, Online: n.Online,
			LastSeenAt: timestamppb.New(n.LastSeen), GpuModel: n.GPU.Model, GpuCount: int32(n.GPU.Count),
			VramGb: int32(n.GPU.GB()), Engine: n.GPU.Engine, GpuEligible: n.Eligible,
		}
		if lowest, ok := gpu.LowestCapability(n.GPU.ComputeCapability); ok {
			node.ComputeCapability = lowest.String()
		}
		list = append(list, node)
	}
	return list
}

func answeredToProto(all []provider.AnsweredAs) []*hubv1.AnsweredAs {
	list := make([]*hubv1.AnsweredAs, 0, len(all))
	for _, n := range all {
		list = append(list, &hubv1.AnsweredAs{
			ModelId: n.Model, AnsweredAs: n.Name, FirstAt: timestamppb.New(n.First), LastAt: timestamppb.New(n.Last),
			Answers: int32(min(n.Answers, math.MaxInt32)), Meaning: n.Meaning(),
		})
	}
	return list
}
