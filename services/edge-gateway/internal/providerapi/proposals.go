package providerapi

import (
	"context"
	"net/http"
	"net/url"
	"time"
	"unicode/utf8"

	hubv1 "svc.internal/proto/svc/hub/v1"
)

// proposal is an address that a provider key alone has asked for, and that does not count
// yet.
type proposal struct {
	ProposalID    string     `json:"proposal_id"`
	Kind          string     `json:"kind"`
	Address       string     `json:"address"`
	KeyID         string     `json:"key_id"`
	ProposedAt    *time.Time `json:"proposed_at"`
	TakesEffectAt *time.Time `json:"takes_effect_at"`
}

func proposalsOf(p *hubv1.Provider) []proposal {
	list := make([]proposal, 0, len(p.GetProposals()))
	for _, q := range p.GetProposals() {
		list = append(list, proposal{
			ProposalID: q.GetProposalId(), Kind: q.GetKind(), Address: q.GetAddress(), KeyID: q.GetKeyId(),
			ProposedAt: moment(q.GetProposedAt()), TakesEffectAt: moment(q.GetTakesEffectAt()),
		})
	}
	return list
}

// bindings are a provider's addresses: the addresses that count, and the proposed ones.
type bindings struct {
	ProviderID         string     `json:"provider_id"`
	OwnerAddress       string     `json:"owner_address"`
	OwnerProven        bool       `json:"owner_proven"`
	BeneficiaryAddress string     `json:"beneficiary_address"`
	Proposals          []proposal `json:"proposals"`
	Message            string     `json:"message,omitempty"`
}

func bindingsOf(p *hubv1.Provider, message string) bindings {
	return bindings{p.GetProviderId(), p.GetOwnerAddress(), p.GetOwnerProven(), p.GetBeneficiaryAddress(), proposalsOf(p),
		message}
}

// Proposals answers GET /api/v1/user/me/provider-proposals: the addresses that keys
// proposed for the user's provider account, beside the addresses that count.
func (a *API) Proposals(ctx context.Context, c Call) (Answer, error) {
	u, err := a.provider(ctx, c)
	if err != nil {
		return Answer{}, err
	}
	called, cancel := context.WithTimeout(ctx, a.cfg.CallTimeout)
	defer cancel()
	resp, err := a.peers.Self.ListProposals(called, &hubv1.ListProposalsRequest{UserId: u.GetUserId()})
	if err != nil {
		return Answer{}, ofPeer(ctx, err)
	}
	return answer(http.StatusOK, bindingsOf(resp.GetProvider(), ""))
}

// Proposal answers /api/v1/user/me/provider-proposals/{proposal_id}: POST makes the
// proposal count, which takes a fresh sign-in, and DELETE drops it. Both are idempotent. The account is the
// account of the session's user. An id names one address; a proposal that takes its place has another
// id.
func (a *API) Proposal(ctx context.Context, c Call) (Answer, error) {
	who := a.freshProvider
	if c.Method == http.MethodDelete {
		who = a.provider
	}
	u, err := who(ctx, c)
	if err != nil {
		return Answer{}, err
	}
	id, err := url.PathUnescape(c.Rest)
	if err != nil || len(id) > maxProposalID || !utf8.ValidString(id) {
		id = "" // no proposal has it
	}
	called, cancel := context.WithTimeout(ctx, a.cfg.CallTimeout)
	defer cancel()
	if c.Method == http.MethodDelete {
		resp, err := a.peers.Self.RefuseProposal(called, &hubv1.RefuseProposalRequest{UserId: u.GetUserId(), ProposalId: id})
		if err != nil {
			return Answer{}, ofPeer(ctx, err)
		}
		return answer(http.StatusOK, bindingsOf(resp.GetProvider(), "The proposal is dropped."))
	}
	resp, err := a.peers.Self.ConfirmProposal(called, &hubv1.ConfirmProposalRequest{UserId: u.GetUserId(), ProposalId: id})
	if err != nil {
		return Answer{}, ofPeer(ctx, err)
	}
	return answer(http.StatusOK, bindingsOf(resp.GetProvider(), "The proposal has taken effect."))
}

// maxProposalID is in bytes, far above the length of a proposal's id.
const maxProposalID = 64
