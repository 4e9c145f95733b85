package rpc

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/billing-ledger/internal/card/sandbox"
)

// CardSandbox answers gateways with the sandbox's pages.
type CardSandbox struct {
	billingv1.UnimplementedCardSandboxServiceServer
	// Sandbox is nil where another card processor is set.
	Sandbox *sandbox.Sandbox
	// Wake is called after a button was pressed, because an event may follow.
	Wake func()
}

// GetSandboxSession reads what a page shows.
func (s *CardSandbox) GetSandboxSession(
	ctx context.Context, req *billingv1.GetSandboxSessionRequest,
) (*billingv1.GetSandboxSessionResponse, error) {
	if s.Sandbox == nil {
		return nil, noSandbox()
	}
	found, err := s.Sandbox.Page(ctx, req.GetSessionId())
	if err != nil {
		return nil, err
	}
	return &billingv1.GetSandboxSessionResponse{Session: sandboxToProto(found)}, nil
}

var sandboxActions = map[billingv1.SandboxAction]sandbox.Action{
	billingv1.SandboxAction_SANDBOX_ACTION_PAY:          sandbox.PressPay,
	billingv1.SandboxAction_SANDBOX_ACTION_DECLINE:      sandbox.PressDecline,
	billingv1.SandboxAction_SANDBOX_ACTION_CHARGE_BACK:  sandbox.PressChargeBack,
	billingv1.SandboxAction_SANDBOX_ACTION_WIN_DISPUTE:  sandbox.PressWin,
	billingv1.SandboxAction_SANDBOX_ACTION_FAIL_REFUND:  sandbox.PressFailRefund,
	billingv1.SandboxAction_SANDBOX_ACTION_LOSE_DISPUTE: sandbox.PressLose,
	billingv1.SandboxAction_SANDBOX_ACTION_MONTH:        sandbox.PressMonth,
	billingv1.SandboxAction_SANDBOX_ACTION_DECLINES:     sandbox.PressDeclines,
	billingv1.SandboxAction_SANDBOX_ACTION_ACCEPTS:      sandbox.PressAccepts,
	billingv1.SandboxAction_SANDBOX_ACTION_QUIT:         sandbox.PressQuit,
}

// ActOnSandboxSession presses a button.
func (s *CardSandbox) ActOnSandboxSession(
	ctx context.Context, req *billingv1.ActOnSandboxSessionRequest,
) (*billingv1.ActOnSandboxSessionResponse, error) {
	if s.Sandbox == nil {
		return nil, noSandbox()
	}
	found, err := s.Sandbox.Act(ctx, req.GetSessionId(), sandboxActions[req.GetAction()])
	if err != nil {
		return nil, err
	}
	s.Wake()
	return &billingv1.ActOnSandboxSessionResponse{Session: sandboxToProto(found)}, nil
}

func sandboxToProto(f sandbox.Session) *billingv1.SandboxSession {
	states := map[sandbox.SessionState]billingv1.SandboxSessionState{
		sandbox.Open:    billingv1.SandboxSessionState_SANDBOX_SESSION_STATE_OPEN,
		sandbox.Paid:    billingv1.SandboxSessionState_SANDBOX_SESSION_STATE_PAID,
		sandbox.Expired: billingv1.SandboxSessionState_SANDBOX_SESSION_STATE_EXPIRED,
	}
	state := states[f.State]
	if f.Disputed > 0 {
		state = billingv1.SandboxSessionState_SANDBOX_SESSION_STATE_CHARGED_BACK
	}
	return &billingv1.SandboxSession{
		SessionId: f.ID, State: state, Description: f.Description, TotalCents: int64(f.Total), ReturnUrl: f.ReturnURL,
		ExpiresAt: timestamppb.New(f.Expires), Declined: f.Declined, RefundedCents: int64(f.Refunded),
		Subscribed: f.Subscription != "", DisputeLost: f.Lost,
	}
}

func noSandbox() error {
	return fault.New(fault.NotFound, fault.RouteNotFound, "There is no such route.")
}
