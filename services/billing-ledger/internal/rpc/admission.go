// Package rpc answers billing-ledger's gRPC services. Each handler decodes and checks the
// message, asks the domain, and encodes the answer.
package rpc

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/pkg/money/moneypb"
	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/billing-ledger/internal/events"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/limit"
	"svc.internal/services/billing-ledger/internal/peers"
	"svc.internal/services/billing-ledger/internal/usage"
)

// Admission answers gateways.
type Admission struct {
	billingv1.UnimplementedAdmissionServiceServer
	Admitter  *hold.Admitter
	Renewer   *hold.Renewer
	Concluder *hold.Concluder
	Rates     *limit.Rates
	// Tickets prove to which hub a request was given, and carry what holds say that are not written
	// yet; nil gives neither.
	Tickets *usage.Tickets
	// Pins writes the holds of callers that carry no tickets; nil where no request is admitted from memory.
	Pins hold.PinWriter
	// Owners asks the replica that owns the account's slice; nil decides here alone.
	Owners *peers.Owners
	// Address is where gateways reach this very replica; empty where they cannot choose it.
	Address string
}

// Admit decides whether a request may run and holds its money.
func (s *Admission) Admit(ctx context.Context, req *billingv1.AdmitRequest) (*billingv1.AdmitResponse, error) {
	request, err := requestFromProto(req)
	if err != nil {
		return nil, err
	}
	if s.Owners == nil {
		return s.decide(ctx, request, req.GetCarriesTicket())
	}
	return s.Owners.Admit(ctx, request.Key, req, func(ctx context.Context) (*billingv1.AdmitResponse, error) {
		return s.decide(ctx, request, req.GetCarriesTicket())
	})
}

// decide decides here for a caller that carries tickets, or does not. Its error wraps hold.SliceOpen where
// another replica decides.
func (s *Admission) decide(
	ctx context.Context, request hold.AdmitRequest, carries bool,
) (*billingv1.AdmitResponse, error) {
	a, err := s.Admitter.Admit(ctx, request)
	if err != nil {
		return nil, err
	}
	ticket, err := s.ticket(ctx, a.Pin, carries)
	if err != nil {
		return nil, err
	}
	var proof []byte
	if s.Tickets != nil {
		mac := s.Tickets.For(request.Request, a.Account)
		proof = mac[:]
	}
	return &billingv1.AdmitResponse{
		OwnerAddress:   s.owner(a.Pin),
		LedgerMac:      proof,
		Ticket:         ticket,
		AccountId:      a.Account.String(),
		BillingType:    billingTypeToProto(a.Billing),
		PriceVersionId: a.Price.String(),
		Rates:          moneypb.FromRates(a.Rates),
		HeldNanoUsd:    int64(a.Held),
		Requests:       rateToProto(a.Rate),
		ExpiresAt:      timestamppb.New(a.ExpiresAt),
		LeaseMs:        a.Lease.Milliseconds(),
		Priority:       a.Priority,

		DiscountBasisPoints: int32(a.Discount),
	}, nil
}

// owner returns the address of this replica where it admitted the request from memory. Only such a request has a
// pin, and only the owner of its account's slice can admit it so. Otherwise owner returns "".
func (s *Admission) owner(pin *hold.Pin) string {
	if pin == nil {
		return ""
	}
	return s.Address
}

// ticket returns the ticket of a hold that is not written yet. Where no ticket can carry the pin, or the caller
// would drop it, the hold is written now, and there is no ticket.
func (s *Admission) ticket(ctx context.Context, pin *hold.Pin, carries bool) ([]byte, error) {
	if pin == nil {
		return nil, nil
	}
	if carries {
		if ticket := s.Tickets.Seal(*pin); len(ticket) > 0 {
			return ticket, nil
		}
	}
	if err := s.Pins.Write(ctx, []hold.Pin{*pin}); err != nil {
		return nil, fmt.Errorf("write a hold for a caller without tickets: %w", err)
	}
	return nil, nil
}

func requestFromProto(req *billingv1.AdmitRequest) (hold.AdmitRequest, error) {
	request, err := ids.ParseRequest(req.GetRequestId())
	if err != nil {
		return hold.AdmitRequest{}, malformed("request_id")
	}
	key, err := ids.ParseKey(req.GetKeyId())
	if err != nil {
		return hold.AdmitRequest{}, malformed("key_id")
	}
	return hold.AdmitRequest{
		Request: request, Key: key, Model: req.GetModelId(),
		PromptTokens: req.GetPromptTokens(), MaxCompletionTokens: req.GetMaxCompletionTokens(), Pinned: req.GetPinned(),
		Images: req.GetImages(),
	}, nil
}

func malformed(field string) error {
	return fault.New(fault.Invalid, fault.InvalidValue, "%s is malformed", field).On(field)
}

func billingTypeToProto(b hold.BillingType) billingv1.BillingType {
	switch b {
	case hold.Free:
		return billingv1.BillingType_BILLING_TYPE_FREE
	case hold.Plan:
		return billingv1.BillingType_BILLING_TYPE_PLAN
	case hold.PayAsYouGo:
	}
	return billingv1.BillingType_BILLING_TYPE_PAYG
}

func rateToProto(r limit.Rate) *billingv1.RateLimit {
	return &billingv1.RateLimit{Limit: r.Limit, Remaining: r.Remaining, ResetMs: r.Reset.Milliseconds()}
}

// ReadRate returns the rest of a key's rate.
func (s *Admission) ReadRate(ctx context.Context, req *billingv1.ReadRateRequest) (*billingv1.ReadRateResponse, error) {
	key, err := ids.ParseKey(req.GetKeyId())
	if err != nil {
		return nil, fault.New(fault.Unauthenticated, fault.InvalidAPIKey, "the API key is not valid")
	}
	left, err := s.Rates.Read(ctx, key, req.GetCategory())
	if err != nil {
		return nil, err
	}
	return &billingv1.ReadRateResponse{Requests: rateToProto(left)}, nil
}

// Renew extends the leases of running requests and returns the requests that have no hold
// any more.
func (s *Admission) Renew(ctx context.Context, req *billingv1.RenewRequest) (*billingv1.RenewResponse, error) {
	renewals := make([]hold.Renewal, 0, len(req.GetRequests()))
	for _, m := range req.GetRequests() {
		if r, ok := s.renewalFromProto(m); ok {
			renewals = append(renewals, r)
		}
	}
	lapsed, err := s.Renewer.Renew(ctx, renewals)
	if err != nil {
		return nil, err
	}
	resp := &billingv1.RenewResponse{}
	for _, request := range lapsed {
		resp.LapsedRequestIds = append(resp.LapsedRequestIds, request.String())
	}
	return resp, nil
}

// renewalFromProto returns false for a malformed request id. A malformed provider still
// leaves a lease to extend.
func (s *Admission) renewalFromProto(m *billingv1.RunningRequest) (hold.Renewal, bool) {
	request, err := ids.ParseRequest(m.GetRequestId())
	if err != nil {
		return hold.Renewal{}, false
	}
	r := hold.Renewal{
		Request: request, CommittedAttempt: int32(min(m.GetCommittedAttempt(), 1<<30)), Hub: m.GetHubId(),
		RelayedTokens: m.GetRelayedTokens(), RelayedBytes: m.GetRelayedBytes(), Pin: s.Tickets.PinOf(request, m.GetTicket()),
	}
	if r.Provider, err = ids.ParseProvider(m.GetProviderId()); err != nil {
		return hold.Renewal{Request: request, Pin: r.Pin}, true
	}
	return r, true
}

// Conclude records gateways' reports.
func (s *Admission) Conclude(ctx context.Context, req *billingv1.ConcludeRequest) (*billingv1.ConcludeResponse, error) {
	reports := make([]hold.RequestReport, 0, len(req.GetReports()))
	for _, m := range req.GetReports() {
		if w, ok := s.reportFromProto(m); ok {
			reports = append(reports, w)
		}
	}
	if err := s.Concluder.Conclude(ctx, reports); err != nil {
		return nil, err
	}
	return &billingv1.ConcludeResponse{}, nil
}

// reportFromProto returns false for a malformed request id, which is as unknown as any
// other.
func (s *Admission) reportFromProto(m *billingv1.RequestReport) (hold.RequestReport, bool) {
	request, err := ids.ParseRequest(m.GetRequestId())
	if err != nil {
		return hold.RequestReport{}, false
	}
	w := hold.RequestReport{
		Request: request, Outcome: outcomeFromProto(m.GetOutcome()),
		CommittedAttempt: int32(min(m.GetCommittedAttempt(), 1<<30)),
		RelayedTokens:    m.GetRelayedTokens(), RelayedBytes: m.GetRelayedBytes(),
		HTTPStatus: m.GetHttpStatus(), ErrorCode: m.GetErrorCode(),
		RouteMode:         events.RouteMode(m.GetRoute().GetMode()),
		RequestedProvider: m.GetRoute().GetRequestedProviderId(),
		FallbackReason:    events.FallbackReason(m.GetRoute().GetFallbackReason()),
		Stream:            m.GetStream(), FirstContentMS: m.GetFirstContentMs(), TotalMS: m.GetTotalMs(),
		Pin: s.Tickets.PinOf(request, m.GetTicket()),
	}
	if m.GetReceivedAt().IsValid() {
		w.ReceivedAt = m.GetReceivedAt().AsTime()
	}
	for _, a := range m.GetAttempts() {
		attempt := hold.Attempt{
			Attempt: int32(min(a.GetAttempt(), 1<<30)), ProviderID: a.GetProviderId(), ProviderName: a.GetProviderName(),
			Result: a.GetResult(), EngineStatus: a.GetEngineStatus(), LatencyMS: a.GetLatencyMs(),
			HubID: a.GetHubId(), FirstContentMS: a.GetFirstContentMs(), ContentMS: a.GetContentMs(),
			ClientMS: a.GetClientMs(),
		}
		for _, p := range a.GetPassedOver() {
			attempt.PassedOver = append(attempt.PassedOver, hold.PassedOver{Reason: p.GetReason(), Count: p.GetCount()})
		}
		w.Attempts = append(w.Attempts, attempt)
	}
	// A malformed id counts as none: a report is taken as far as it is valid.
	if next, err := ids.ParseRequest(m.GetContinuedAs()); err == nil {
		w.ContinuedAs = next
	}
	if m.GetMetered() != nil {
		w.Metered = &money.Tokens{Prompt: m.GetMetered().GetPromptTokens(), Completion: m.GetMetered().GetCompletionTokens()}
	}
	return w, true
}

// outcomeFromProto takes an outcome without a name for a failure.
func outcomeFromProto(o billingv1.Outcome) string {
	switch o {
	case billingv1.Outcome_OUTCOME_COMPLETED:
		return "completed"
	case billingv1.Outcome_OUTCOME_CLIENT_GONE:
		return "client_gone"
	case billingv1.Outcome_OUTCOME_TIMEOUT:
		return "timeout"
	case billingv1.Outcome_OUTCOME_REFUSED:
		return "refused"
	case billingv1.Outcome_OUTCOME_FAILED, billingv1.Outcome_OUTCOME_UNSPECIFIED:
	}
	return "failed"
}
