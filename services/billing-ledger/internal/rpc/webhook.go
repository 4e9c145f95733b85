package rpc

import (
	"context"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/accountevent"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/pkg/serve"
	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/billing-ledger/internal/webhook"
)

// Webhooks answers gateways about the endpoints of accounts.
type Webhooks struct {
	billingv1.UnimplementedWebhookServiceServer
	Endpoints *webhook.Endpoints
}

// CreateWebhook adds an endpoint and shows its secret this once.
func (s *Webhooks) CreateWebhook(
	ctx context.Context, req *billingv1.CreateWebhookRequest,
) (*billingv1.CreateWebhookResponse, error) {
	account, err := accountOf(ctx)
	if err != nil {
		return nil, err
	}
	e, secret, err := s.Endpoints.Create(ctx, webhook.Endpoint{Account: account, URL: req.GetUrl(),
		Description: req.GetDescription(), Kinds: kindsFromProto(req.GetKinds())})
	if err != nil {
		return nil, err
	}
	return &billingv1.CreateWebhookResponse{Webhook: webhookToProto(e), Secret: secret.Reveal()}, nil
}

// ListWebhooks lists an account's endpoints.
func (s *Webhooks) ListWebhooks(
	ctx context.Context, req *billingv1.ListWebhooksRequest,
) (*billingv1.ListWebhooksResponse, error) {
	account, err := accountOf(ctx)
	if err != nil {
		return nil, err
	}
	list, low, err := s.Endpoints.List(ctx, account)
	if err != nil {
		return nil, err
	}
	resp := &billingv1.ListWebhooksResponse{BalanceLowUsdStr: lowToProto(low)}
	for _, e := range list {
		resp.List = append(resp.List, webhookToProto(e))
	}
	return resp, nil
}

// ChangeWebhook changes what is given of an endpoint.
func (s *Webhooks) ChangeWebhook(
	ctx context.Context, req *billingv1.ChangeWebhookRequest,
) (*billingv1.ChangeWebhookResponse, error) {
	account, id, err := webhookOf(ctx, req)
	if err != nil {
		return nil, err
	}
	e, err := s.Endpoints.Change(ctx, account, id, webhook.Change{URL: req.Url, Description: req.Description,
		Kinds: kindsFromProto(req.GetKinds()), Enabled: req.Enabled})
	if err != nil {
		return nil, err
	}
	return &billingv1.ChangeWebhookResponse{Webhook: webhookToProto(e)}, nil
}

// DeleteWebhook removes an endpoint.
func (s *Webhooks) DeleteWebhook(
	ctx context.Context, req *billingv1.DeleteWebhookRequest,
) (*billingv1.DeleteWebhookResponse, error) {
	account, id, err := webhookOf(ctx, req)
	if err != nil {
		return nil, err
	}
	if err := s.Endpoints.Delete(ctx, account, id); err != nil {
		return nil, err
	}
	return &billingv1.DeleteWebhookResponse{}, nil
}

// RotateWebhookSecret makes another secret and shows it this once.
func (s *Webhooks) RotateWebhookSecret(
	ctx context.Context, req *billingv1.RotateWebhookSecretRequest,
) (*billingv1.RotateWebhookSecretResponse, error) {
	account, id, err := webhookOf(ctx, req)
	if err != nil {
		return nil, err
	}
	e, secret, err := s.Endpoints.Rotate(ctx, account, id)
	if err != nil {
		return nil, err
	}
	return &billingv1.RotateWebhookSecretResponse{Webhook: webhookToProto(e), Secret: secret.Reveal()}, nil
}

// ListWebhookDeliveries lists what was sent to an endpoint.
func (s *Webhooks) ListWebhookDeliveries(
	ctx context.Context, req *billingv1.ListWebhookDeliveriesRequest,
) (*billingv1.ListWebhookDeliveriesResponse, error) {
	account, id, err := webhookOf(ctx, req)
	if err != nil {
		return nil, err
	}
	limit := int(req.GetLimit())
	if limit == 0 {
		limit = webhook.DefaultPage
	}
	if limit < 1 || limit > webhook.MaxPage {
		return nil, fault.New(fault.Invalid, fault.InvalidValue, "limit must be 1 to %d", webhook.MaxPage).On("limit")
	}
	behind, err := parsePlace(req.GetCursor())
	if err != nil {
		return nil, err
	}
	list, more, err := s.Endpoints.Deliveries(ctx, account, id, behind, limit)
	if err != nil {
		return nil, err
	}
	resp := &billingv1.ListWebhookDeliveriesResponse{}
	for _, d := range list {
		resp.List = append(resp.List, deliveryToProto(d))
	}
	if more {
		last := list[len(list)-1]
		resp.NextCursor = strconv.FormatInt(last.Made.UnixMicro(), 10) + "." + last.Event.String()
	}
	return resp, nil
}

// SendTestWebhook sends a test.
func (s *Webhooks) SendTestWebhook(
	ctx context.Context, req *billingv1.SendTestWebhookRequest,
) (*billingv1.SendTestWebhookResponse, error) {
	account, id, err := webhookOf(ctx, req)
	if err != nil {
		return nil, err
	}
	event, err := s.Endpoints.Test(ctx, account, id)
	if err != nil {
		return nil, err
	}
	return &billingv1.SendTestWebhookResponse{EventId: event.String()}, nil
}

// SetBalanceLow says below which balance an account is told so.
func (s *Webhooks) SetBalanceLow(
	ctx context.Context, req *billingv1.SetBalanceLowRequest,
) (*billingv1.SetBalanceLowResponse, error) {
	account, err := accountOf(ctx)
	if err != nil {
		return nil, err
	}
	var low money.NanoUSD
	if req.GetBalanceLowUsd() != "" {
		if low, err = money.ParseUSD(req.GetBalanceLowUsd()); err != nil {
			return nil, fault.New(fault.Invalid, fault.InvalidValue, "balance_low_usd must be an amount in dollars").On(
				"balance_low_usd")
		}
	}
	if err := s.Endpoints.SetLow(ctx, account, low); err != nil {
		return nil, err
	}
	return &billingv1.SetBalanceLowResponse{BalanceLowUsdStr: lowToProto(low)}, nil
}

// accountOf returns the account of the user for whom a call is made.
func accountOf(ctx context.Context) (ids.AccountID, error) {
	who, ok := serve.User(ctx)
	if !ok {
		return ids.AccountID{}, notSignedIn()
	}
	account, err := ids.ParseAccount(who.Account)
	if err != nil {
		return ids.AccountID{}, notSignedIn()
	}
	return account, nil
}

// webhookOf reads whose endpoint a request names. A malformed id is nobody's.
func webhookOf(ctx context.Context, req interface{ GetWebhookId() string }) (
	account ids.AccountID, id webhook.ID, err error,
) {
	if account, err = accountOf(ctx); err != nil {
		return account, id, err
	}
	if err := id.UnmarshalText([]byte(req.GetWebhookId())); err != nil {
		return account, id, webhook.NotFound()
	}
	return account, id, nil
}

func parsePlace(cursor string) (webhook.Place, error) {
	if cursor == "" {
		return webhook.Place{}, nil
	}
	bad := fault.New(fault.Invalid, fault.InvalidValue, "cursor must be next_cursor of the page before").On("cursor")
	at, event, ok := strings.Cut(cursor, ".")
	micros, err := strconv.ParseInt(at, 10, 64)
	if !ok || err != nil || micros <= 0 || micros > 1<<52 {
		return webhook.Place{}, bad
	}
	id, err := accountevent.ParseID(event)
	if err != nil {
		return webhook.Place{}, bad
	}
	return webhook.Place{Made: time.UnixMicro(micros), Event: id}, nil
}

func kindsFromProto(list []string) []accountevent.Kind {
	var kinds []accountevent.Kind
	for _, k := range list {
		kinds = append(kinds, accountevent.Kind(k))
	}
	return kinds
}

// lowToProto shows below which balance an account is told so; nothing for never.
func lowToProto(low money.NanoUSD) string {
	if low == 0 {
		return ""
	}
	return low.String()
}

func webhookToProto(e webhook.Endpoint) *billingv1.Webhook {
	m := &billingv1.Webhook{
		WebhookId: e.ID.String(), Url: e.URL, Description: e.Description, Enabled: e.Note == webhook.Enabled,
		Note: string(e.Note), CreatedAt: timestamppb.New(e.Created), PreviousSecretUntil: timestamp(lastOverlap(e.Former)),
		FailingSince: timestamp(e.FailingSince), Dropped: int32(min(e.Dropped, 1<<31-1)),
	}
	for _, k := range e.Kinds {
		m.Kinds = append(m.Kinds, string(k))
	}
	return m
}

func deliveryToProto(d webhook.Delivery) *billingv1.WebhookDelivery {
	return &billingv1.WebhookDelivery{
		EventId: d.Event.String(), Type: string(d.Kind), State: string(d.State), Attempt: int32(d.Attempt),
		Status: int32(d.Status), Problem: string(d.Problem), CreatedAt: timestamppb.New(d.Made), TriedAt: timestamp(d.Tried),
		NextAt: timestamp(d.Next),
	}
}

// lastOverlap is when only the present secret of an endpoint signs again; zero when no other does.
func lastOverlap(former []webhook.Former) time.Time {
	if len(former) == 0 {
		return time.Time{}
	}
	return former[0].Until
}
