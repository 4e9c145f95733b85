package rpc

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	hubv1 "svc.internal/proto/svc/hub/v1"
	"svc.internal/services/provider-hub/internal/provider"
)

// providerID reads an id. A malformed id names no provider.
func providerID(text string) (ids.ProviderID, error) {
	id, err := ids.ParseProvider(text)
	if err != nil {
		return id, fault.New(fault.NotFound, fault.ProviderNotFound, "no such provider").On("provider_id")
	}
	return id, nil
}

// optionalTime is nil for the zero time.
func optionalTime(at time.Time) *timestamppb.Timestamp {
	if at.IsZero() {
		return nil
	}
	return timestamppb.New(at)
}

// statuses maps the domain's statuses to the protocol's statuses.
var statuses = map[provider.Status]hubv1.ProviderStatus{
	provider.Pending:     hubv1.ProviderStatus_PROVIDER_STATUS_PENDING,
	provider.UnderReview: hubv1.ProviderStatus_PROVIDER_STATUS_UNDER_REVIEW,
	provider.Approved:    hubv1.ProviderStatus_PROVIDER_STATUS_APPROVED,
	provider.Activating:  hubv1.ProviderStatus_PROVIDER_STATUS_ACTIVATING,
	provider.Active:      hubv1.ProviderStatus_PROVIDER_STATUS_ACTIVE,
	provider.Suspended:   hubv1.ProviderStatus_PROVIDER_STATUS_SUSPENDED,
	provider.Rejected:    hubv1.ProviderStatus_PROVIDER_STATUS_REJECTED,
}

func statusToProto(s provider.Status) hubv1.ProviderStatus { return statuses[s] }

// statusFromProto returns an empty status for a status that is not known. The domain
// refuses the empty status.
func statusFromProto(s hubv1.ProviderStatus) provider.Status {
	for status, p := range statuses {
		if p == s {
			return status
		}
	}
	return ""
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
