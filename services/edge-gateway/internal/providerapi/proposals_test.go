package providerapi

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"

	"svc.internal/services/edge-gateway/internal/apierror"
)

// waiting is user u1's account, for which q1 waits.
func waiting() *hubv1.Provider {
	return &hubv1.Provider{ProviderId: "p1", Proposals: []*hubv1.BindingProposal{
		{ProposalId: "q1", Kind: "beneficiary", Address: "0x1", KeyId: "k1", ProposedAt: &timestamppb.Timestamp{Seconds: 1}},
	}}
}

func (h *hub) ListProposals(
	_ context.Context, req *hubv1.ListProposalsRequest, _ ...grpc.CallOption,
) (*hubv1.ListProposalsResponse, error) {
	h.asked++
	if req.GetUserId() != "u1" {
		return &hubv1.ListProposalsResponse{Provider: &hubv1.Provider{ProviderId: "p2"}}, nil
	}
	return &hubv1.ListProposalsResponse{Provider: waiting()}, nil
}

func (h *hub) ConfirmProposal(
	_ context.Context, req *hubv1.ConfirmProposalRequest, _ ...grpc.CallOption,
) (*hubv1.ConfirmProposalResponse, error) {
	h.asked++
	if req.GetUserId() != "u1" || req.GetProposalId() != "q1" {
		return nil, fault.New(fault.NotFound, fault.ProposalNotFound, "no such proposal")
	}
	return &hubv1.ConfirmProposalResponse{Provider: &hubv1.Provider{ProviderId: "p1", BeneficiaryAddress: "0x1"}}, nil
}

func (h *hub) RefuseProposal(
	_ context.Context, req *hubv1.RefuseProposalRequest, _ ...grpc.CallOption,
) (*hubv1.RefuseProposalResponse, error) {
	h.asked++
	if req.GetUserId() != "u1" || req.GetProposalId() != "q1" {
		return nil, fault.New(fault.NotFound, fault.ProposalNotFound, "no such proposal")
	}
	return &hubv1.RefuseProposalResponse{Provider: &hubv1.Provider{ProviderId: "p1"}}, nil
}

// The account is the account of the session's user, whatever else a call says.
func TestProposalsAreThoseOfTheSessionsUser(t *testing.T) {
	b := setup(t)
	b.ledger.user = &billingv1.User{UserId: "u1", ProviderId: "p1"}
	c := with("token", `{"user_id":"u2","proposal_id":"q2"}`)
	c.Query.Set("user_id", "u2")
	const want = `{"provider_id":"p1","owner_address":"","owner_proven":false,"beneficiary_address":"",` +
		`"proposals":[{"proposal_id":"q1","kind":"beneficiary","address":"0x1","key_id":"k1",` +
		`"proposed_at":"1970-01-01T00:00:01Z","takes_effect_at":null}]}`
	if a, err := b.Proposals(t.Context(), c); err != nil || string(a.JSON) != want {
		t.Errorf("got %s, %v, want %s", a.JSON, err, want)
	}
	c.Rest, c.Method = "q1", http.MethodPost
	if a, err := b.Proposal(t.Context(), c); err != nil ||
		!strings.Contains(string(a.JSON), `"beneficiary_address":"0x1"`) {
		t.Errorf("confirmed: got %s, %v, want the address", a.JSON, err)
	}
	c.Method = http.MethodDelete
	if a, err := b.Proposal(t.Context(), c); err != nil || strings.Contains(string(a.JSON), "0x1") {
		t.Errorf("refused: got %s, %v, want no address", a.JSON, err)
	}
	b.ledger.user = &billingv1.User{UserId: "u2", ProviderId: "p2"}
	for _, method := range []string{http.MethodPost, http.MethodDelete} {
		for _, rest := range []string{"q1", "%zz", "", strings.Repeat("x", 10_000), "..%2f"} {
			c.Method, c.Rest = method, rest
			if _, err := b.Proposal(t.Context(), c); !fault.Is(err, fault.ProposalNotFound) || apierror.Of(err).Status != 404 {
				t.Errorf("%s of another's proposal as %.20q: got %v, want proposal_not_found", method, rest, err)
			}
		}
	}
}

func TestAProviderKeyDecidesOnNoProposal(t *testing.T) {
	b := setup(t)
	b.ledger.user = &billingv1.User{UserId: "u1"}
	for credential, reason := range map[string]fault.Reason{"token": fault.ProviderNotFound, b.key: apierror.WrongKeyType,
		"": apierror.MissingAPIKey} {
		for _, ask := range []func(context.Context, Call) (Answer, error){b.Proposals, b.Proposal} {
			if a, err := ask(t.Context(), with(credential, "")); !fault.Is(err, reason) || a.JSON != nil {
				t.Errorf("%.8q: got %s, %v, want %s", credential, a.JSON, err, reason)
			}
		}
	}
	if b.hub.asked != 0 {
		t.Errorf("got %d calls of a hub, want none", b.hub.asked)
	}
}
