package providerapi

import (
	"context"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/fault"
	hubv1 "svc.internal/proto/svc/hub/v1"
	settlementv1 "svc.internal/proto/svc/settlement/v1"
)

const (
	// maxAppeal bounds the text of an appeal in characters, as settlement does.
	maxAppeal = 4000
	// maxPenaltyID is in bytes, far above the length of a penalty's id.
	maxPenaltyID = 64
	// basisPoints are the parts that a share is counted in.
	basisPoints = 10_000
)

// AppealSuffix ends the path of an appeal behind the penalty's id.
const AppealSuffix = "/appeal"

// penalty is a penalty as its provider sees it. It names no threshold and no evidence.
type penalty struct {
	PenaltyID string `json:"penalty_id"`
	ModelID   string `json:"model_id"`
	Kind      string `json:"kind"`
	// Family is the family of evidence that led; empty for a penalty of before the field.
	Family string `json:"family"`
	State  string `json:"state"`
	// Share is the part of the collateral, from 0 to 1.
	Share float64 `json:"share"`
	// Removes reports whether the provider was removed from the network with it.
	Removes     bool       `json:"removes"`
	Summary     string     `json:"summary"`
	OpenedAt    *time.Time `json:"opened_at"`
	AppealUntil *time.Time `json:"appeal_until"`
	AppealText  string     `json:"appeal_text"`
	AppealedAt  *time.Time `json:"appealed_at"`
	Resolution  string     `json:"resolution"`
	ResolvedAt  *time.Time `json:"resolved_at"`
	ExecutedAt  *time.Time `json:"executed_at"`
	// Parts are empty for a penalty that found no collateral.
	Parts []penaltyPart `json:"parts"`
}

// penaltyPart is what a penalty takes of one position, or, on chain 0, of what was paid by card.
type penaltyPart struct {
	ChainID     int64  `json:"chain_id"`
	Depositor   string `json:"depositor"`
	TokenSymbol string `json:"token_symbol"`
	// Amount is in whole tokens.
	Amount string `json:"amount"`
	State  string `json:"state"`
	// ChainPenaltyID is the penalty's id on the chain, by which its depositor may appeal there.
	ChainPenaltyID string `json:"chain_penalty_id"`
}

func penaltyParts(parts []*settlementv1.PenaltyPart) []penaltyPart {
	out := make([]penaltyPart, 0, len(parts))
	for _, p := range parts {
		one := penaltyPart{ChainID: int64(p.GetChainId()), Depositor: p.GetDepositor(), TokenSymbol: p.GetTokenSymbol(),
			Amount: wholeTokens(p.GetAmount(), p.GetTokenDecimals()), State: p.GetState()}
		if len(p.GetChainPenaltyId()) > 0 {
			one.ChainPenaltyID = hexText(p.GetChainPenaltyId())
		}
		out = append(out, one)
	}
	return out
}

func penaltyOf(p *settlementv1.Penalty) penalty {
	return penalty{
		PenaltyID: p.GetPenaltyId(), ModelID: p.GetModelId(), Kind: p.GetKind(), Family: p.GetFamily(),
		State: strings.ToLower(strings.TrimPrefix(p.GetState().String(), "PENALTY_STATE_")),
		Share: float64(p.GetShareBasisPoints()) / basisPoints, Removes: p.GetRemoves(), Summary: p.GetSummary(),
		OpenedAt: moment(p.GetOpenedAt()), AppealUntil: moment(p.GetAppealUntil()), AppealText: p.GetAppealText(),
		AppealedAt: moment(p.GetAppealedAt()), Resolution: p.GetResolution(), ResolvedAt: moment(p.GetResolvedAt()),
		ExecutedAt: moment(p.GetExecutedAt()), Parts: penaltyParts(p.GetParts()),
	}
}

// Penalties answers GET /api/v1/provider/penalties: one page of the provider's penalties,
// newest first.
func (a *API) Penalties(ctx context.Context, c Call) (Answer, error) {
	provider, err := a.keyOrSession(ctx, c)
	if err != nil {
		return Answer{}, err
	}
	req := &settlementv1.ListPenaltiesRequest{ProviderId: provider}
	if req.Page, err = number(c.Query, "page"); err != nil {
		return Answer{}, err
	}
	if req.PageSize, err = number(c.Query, "page_size"); err != nil {
		return Answer{}, err
	}
	called, cancel := context.WithTimeout(ctx, a.cfg.CallTimeout)
	defer cancel()
	resp, err := a.peers.Penalties.ListPenalties(called, req)
	if err != nil {
		return Answer{}, ofPeer(ctx, err)
	}
	list := make([]penalty, 0, len(resp.GetList()))
	for _, p := range resp.GetList() {
		list = append(list, penaltyOf(p))
	}
	return answer(http.StatusOK, struct {
		List     []penalty `json:"list"`
		Total    int32     `json:"total"`
		Page     int32     `json:"page"`
		PageSize int32     `json:"page_size"`
	}{list, resp.GetTotal(), resp.GetPage(), resp.GetPageSize()})
}

// AppealPenalty answers POST /api/v1/provider/penalties/{penalty_id}/appeal: it records an
// appeal, which stops the penalty's clock. It is idempotent, and the first text stays.
func (a *API) AppealPenalty(ctx context.Context, c Call) (Answer, error) {
	req := &settlementv1.AppealRequest{}
	provider, err := a.keyOrSession(ctx, c, member{name: "text", text: &req.Text, limit: maxAppeal, required: true})
	if err != nil {
		return Answer{}, err
	}
	id, err := url.PathUnescape(strings.TrimSuffix(c.Rest, AppealSuffix))
	if err != nil || len(id) > maxPenaltyID || !utf8.ValidString(id) {
		id = "" // no penalty has it
	}
	req.PenaltyId, req.ProviderId = id, provider
	called, cancel := context.WithTimeout(ctx, a.cfg.CallTimeout)
	defer cancel()
	resp, err := a.peers.Penalties.Appeal(called, req)
	if err != nil {
		return Answer{}, ofPeer(ctx, err)
	}
	return answer(http.StatusOK, penaltyOf(resp.GetPenalty()))
}

// keyOrSession reads the members of a call's body and returns the provider that calls: by
// its key, or by the session of the account's user. The user can call when the provider
// was removed from the network, because its keys are revoked then.
func (a *API) keyOrSession(ctx context.Context, c Call, members ...member) (string, error) {
	if BySession(c.Header) {
		u, err := whose(a.provider).orKey(ctx, c)
		if err != nil {
			return "", err
		}
		return u.GetProviderId(), c.read(members...)
	}
	var provider string
	err := a.withKey(ctx, c, func(ctx context.Context, d apikey.Digest) error {
		resp, err := a.peers.Self.GetOwnStatus(ctx, &hubv1.GetOwnStatusRequest{KeyDigest: d[:]})
		provider = resp.GetProvider().GetProviderId()
		return err
	}, members...)
	if fault.Is(err, fault.KeyRevoked) {
		return "", fault.New(fault.Unauthenticated, fault.KeyRevoked,
			"This API key has been revoked. The account's user can sign in (POST /api/v1/user/login) and send the "+
				"session's token instead.")
	}
	return provider, err
}

// number reads a parameter of the query; 0 where it is absent.
func number(q url.Values, name string) (int32, error) {
	values := q[name]
	if len(values) == 0 {
		return 0, nil
	}
	n, err := strconv.ParseInt(values[0], 10, 32)
	if err != nil || n < 1 || len(values) > 1 {
		return 0, fault.New(fault.Invalid, fault.InvalidValue, "%s must be given once, as a whole number from 1 to %d", name,
			math.MaxInt32).On(name)
	}
	return int32(n), nil
}
