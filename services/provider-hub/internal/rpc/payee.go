package rpc

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/ids"
	hubv1 "svc.internal/proto/svc/hub/v1"
	"svc.internal/services/provider-hub/internal/provider"
)

// Payees answers hub.v1.PayeeService.
type Payees struct {
	hubv1.UnimplementedPayeeServiceServer
	accounts *provider.Directory
}

// NewPayees serves accounts.
func NewPayees(accounts *provider.Directory) *Payees { return &Payees{accounts: accounts} }

// GetPayee reads one payee.
func (p *Payees) GetPayee(ctx context.Context, m *hubv1.GetPayeeRequest) (*hubv1.GetPayeeResponse, error) {
	id, err := providerID(m.GetProviderId())
	if err != nil {
		return nil, err
	}
	a, err := p.accounts.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	return &hubv1.GetPayeeResponse{Payee: payeeToProto(&a)}, nil
}

// ListPayees reads many payees. A malformed id names no provider.
func (p *Payees) ListPayees(ctx context.Context, m *hubv1.ListPayeesRequest) (*hubv1.ListPayeesResponse, error) {
	texts := m.GetProviderIds()
	asked := make([]ids.ProviderID, 0, min(len(texts), provider.MaxPayees+1))
	for _, text := range texts[:min(len(texts), provider.MaxPayees+1)] {
		id, err := ids.ParseProvider(text)
		if err != nil && len(texts) <= provider.MaxPayees {
			continue
		}
		asked = append(asked, id)
	}
	found, err := p.accounts.Payees(ctx, asked)
	if err != nil {
		return nil, err
	}
	list := make([]*hubv1.Payee, 0, len(found))
	for i := range found {
		list = append(list, payeeToProto(&found[i]))
	}
	return &hubv1.ListPayeesResponse{Payees: list}, nil
}

func payeeToProto(a *provider.Account) *hubv1.Payee {
	p := &hubv1.Payee{
		ProviderId: a.ID.String(), AccountId: a.Payee.AccountID, BeneficiaryAddress: a.Beneficiary,
		BeneficiarySince: optionalTime(a.Payee.Since), BeneficiarySetAtSignup: a.Payee.AtSignUp,
		BeneficiaryCoolingUntil: optionalTime(a.CoolingUntil()), Status: statusToProto(a.Status),
		Suspensions: suspensionsToProto(a),
	}
	if !a.OwnerProvenAt.IsZero() {
		p.OwnerWallets = append(p.OwnerWallets,
			&hubv1.OwnerWallet{Address: a.Owner, BoundAt: timestamppb.New(a.Payee.BoundAt)})
	}
	return p
}

// causes maps the domain's causes to the protocol's.
var causes = map[provider.Cause]hubv1.SuspensionCause{
	provider.CauseAdmin:  hubv1.SuspensionCause_SUSPENSION_CAUSE_ADMIN,
	provider.CauseRefund: hubv1.SuspensionCause_SUSPENSION_CAUSE_REFUND,
	provider.CauseCard:   hubv1.SuspensionCause_SUSPENSION_CAUSE_CARD,
	provider.CauseExit:   hubv1.SuspensionCause_SUSPENSION_CAUSE_EXIT,
}

// causeFromProto returns an empty cause for one that is not known. The domain refuses it.
func causeFromProto(p hubv1.SuspensionCause) provider.Cause {
	for cause, known := range causes {
		if known == p {
			return cause
		}
	}
	return ""
}

// suspensionsToProto lists the causes that hold. An operator's reason is left out: it is no
// reading for the provider, and operators have the history.
func suspensionsToProto(a *provider.Account) []*hubv1.Suspension {
	var list []*hubv1.Suspension
	for _, cause := range a.Suspensions.Hold() {
		s := a.Suspensions.Of(cause)
		shown := &hubv1.Suspension{Cause: causes[cause], Since: timestamppb.New(s.Since), Meaning: cause.Meaning()}
		if cause.BySettlement() {
			shown.Reason = s.Reason
		}
		list = append(list, shown)
	}
	return list
}
