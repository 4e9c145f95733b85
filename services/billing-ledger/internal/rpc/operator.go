package rpc

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/serve"
	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/billing-ledger/internal/operator"
)

// Operators tells gateways for whom they act.
type Operators struct {
	billingv1.UnimplementedOperatorServiceServer
	Operators *operator.Operators
}

// AuthenticateOperator finds the operator of a token.
func (s *Operators) AuthenticateOperator(
	ctx context.Context, req *billingv1.AuthenticateOperatorRequest,
) (*billingv1.AuthenticateOperatorResponse, error) {
	if len(req.GetTokenSha256()) != len(operator.Digest{}) {
		return nil, malformed("token_sha256")
	}
	in, err := s.Operators.Whose(ctx, operator.Digest(req.GetTokenSha256()))
	if err != nil {
		return nil, err
	}
	return &billingv1.AuthenticateOperatorResponse{Operator: operatorToProto(in.Operator),
		SessionId: in.Session.String(), MayApprove: in.MayApprove(), ExpiresAt: timestamppb.New(in.ExpiresAt)}, nil
}

// OperatorAdmin answers operators about operators, and people who become operators or sign
// in.
type OperatorAdmin struct {
	billingv1.UnimplementedOperatorAdminServiceServer
	Operators *operator.Operators
}

// InviteFirstOperator invites an admin while no admin is active.
func (s *OperatorAdmin) InviteFirstOperator(
	ctx context.Context, req *billingv1.InviteFirstOperatorRequest,
) (*billingv1.InviteFirstOperatorResponse, error) {
	in, err := s.Operators.InviteFirst(byOperator(ctx), req.GetName())
	if err != nil {
		return nil, err
	}
	return &billingv1.InviteFirstOperatorResponse{Operator: operatorToProto(in.Operator),
		Invitation: in.Token.Reveal(), ExpiresAt: timestamppb.New(in.ExpiresAt)}, nil
}

// InviteOperator invites an operator.
func (s *OperatorAdmin) InviteOperator(
	ctx context.Context, req *billingv1.InviteOperatorRequest,
) (*billingv1.InviteOperatorResponse, error) {
	in, err := s.Operators.Invite(byOperator(ctx), req.GetName(), req.GetRole())
	if err != nil {
		return nil, err
	}
	return &billingv1.InviteOperatorResponse{Operator: operatorToProto(in.Operator),
		Invitation: in.Token.Reveal(), ExpiresAt: timestamppb.New(in.ExpiresAt)}, nil
}

// AcceptInvitation sets a password and shows the secret of the codes this once.
func (s *OperatorAdmin) AcceptInvitation(
	ctx context.Context, req *billingv1.AcceptInvitationRequest,
) (*billingv1.AcceptInvitationResponse, error) {
	out, err := s.Operators.Accept(ctx, req.GetInvitation(), req.GetPassword(), serve.OperatorCaller(ctx).Network)
	if err != nil {
		return nil, err
	}
	return &billingv1.AcceptInvitationResponse{
		Operator: operatorToProto(out.Operator), TotpSecret: out.Secret.Reveal(),
		TotpUri: out.Secret.URI(out.Operator.Name), Confirmation: out.Confirmation.Reveal(),
		ExpiresAt: timestamppb.New(out.ExpiresAt),
	}, nil
}

// ConfirmOperator activates an operator.
func (s *OperatorAdmin) ConfirmOperator(
	ctx context.Context, req *billingv1.ConfirmOperatorRequest,
) (*billingv1.ConfirmOperatorResponse, error) {
	o, err := s.Operators.Confirm(ctx, req.GetConfirmation(), req.GetCode())
	if err != nil {
		return nil, err
	}
	return &billingv1.ConfirmOperatorResponse{Operator: operatorToProto(o)}, nil
}

// OpenOperatorSession signs an operator in.
func (s *OperatorAdmin) OpenOperatorSession(
	ctx context.Context, req *billingv1.OpenOperatorSessionRequest,
) (*billingv1.OpenOperatorSessionResponse, error) {
	in, err := s.Operators.SignIn(ctx, req.GetName(), req.GetPassword(), req.GetCode(),
		serve.OperatorCaller(ctx).Network)
	if err != nil {
		return nil, err
	}
	return &billingv1.OpenOperatorSessionResponse{Operator: operatorToProto(in.Operator), Token: in.Token.Reveal(),
		ExpiresAt: timestamppb.New(in.ExpiresAt)}, nil
}

// EndOperatorSession signs the operator out.
func (s *OperatorAdmin) EndOperatorSession(
	ctx context.Context, _ *billingv1.EndOperatorSessionRequest,
) (*billingv1.EndOperatorSessionResponse, error) {
	if err := s.Operators.SignOut(ctx, serve.OperatorCaller(ctx).Session); err != nil {
		return nil, err
	}
	return &billingv1.EndOperatorSessionResponse{}, nil
}

// ListOperators lists all operators.
func (s *OperatorAdmin) ListOperators(
	ctx context.Context, _ *billingv1.ListOperatorsRequest,
) (*billingv1.ListOperatorsResponse, error) {
	all, err := s.Operators.List(ctx)
	if err != nil {
		return nil, err
	}
	resp := &billingv1.ListOperatorsResponse{}
	for _, o := range all {
		resp.Operators = append(resp.Operators, operatorToProto(o))
	}
	return resp, nil
}

// SetOperatorRole gives an operator another role. A malformed id is not found either.
func (s *OperatorAdmin) SetOperatorRole(
	ctx context.Context, req *billingv1.SetOperatorRoleRequest,
) (*billingv1.SetOperatorRoleResponse, error) {
	id, err := operatorID(req.GetOperatorId())
	if err != nil {
		return nil, err
	}
	o, err := s.Operators.SetRole(byOperator(ctx), id, req.GetRole())
	if err != nil {
		return nil, err
	}
	return &billingv1.SetOperatorRoleResponse{Operator: operatorToProto(o)}, nil
}

// ResetOperator takes an operator's password, codes and sessions away.
func (s *OperatorAdmin) ResetOperator(
	ctx context.Context, req *billingv1.ResetOperatorRequest,
) (*billingv1.ResetOperatorResponse, error) {
	id, err := operatorID(req.GetOperatorId())
	if err != nil {
		return nil, err
	}
	in, err := s.Operators.Reset(byOperator(ctx), id, serve.Operator(ctx))
	if err != nil {
		return nil, err
	}
	return &billingv1.ResetOperatorResponse{Operator: operatorToProto(in.Operator), Invitation: in.Token.Reveal(),
		ExpiresAt: timestamppb.New(in.ExpiresAt)}, nil
}

// EndOperator ends an operator for good.
func (s *OperatorAdmin) EndOperator(
	ctx context.Context, req *billingv1.EndOperatorRequest,
) (*billingv1.EndOperatorResponse, error) {
	id, err := operatorID(req.GetOperatorId())
	if err != nil {
		return nil, err
	}
	o, err := s.Operators.End(byOperator(ctx), id)
	if err != nil {
		return nil, err
	}
	return &billingv1.EndOperatorResponse{Operator: operatorToProto(o)}, nil
}

func operatorID(text string) (operator.ID, error) {
	id, err := ids.ParseAccount(text) // an id of any kind reads the same
	if err != nil {
		return operator.ID{}, operator.NotFound()
	}
	return operator.ID(id), nil
}

func operatorToProto(o operator.Operator) *billingv1.Operator {
	return &billingv1.Operator{
		OperatorId: o.ID.String(), Name: string(o.Name), Role: string(o.Role), State: string(o.State),
		CreatedAt: timestamppb.New(o.CreatedAt), LastSeenAt: timestamp(o.SeenAt),
	}
}
