package providerapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"svc.internal/pkg/fault"
	hubv1 "svc.internal/proto/svc/hub/v1"
)

// act is an act on a provider's money. A signature for one act is good for no other.
type act hubv1.ChallengePurpose

// The acts.
const (
	actPayout       = act(hubv1.ChallengePurpose_CHALLENGE_PURPOSE_PAYOUT)
	actPayoutCancel = act(hubv1.ChallengePurpose_CHALLENGE_PURPOSE_PAYOUT_CANCEL)
	actConvert      = act(hubv1.ChallengePurpose_CHALLENGE_PURPOSE_CONVERT)
	actCollateral   = act(hubv1.ChallengePurpose_CHALLENGE_PURPOSE_COLLATERAL)
)

// acts are the acts by their names in the API.
var acts = map[string]act{
	"payout": actPayout, "payout_cancel": actPayoutCancel, "convert": actConvert, "collateral": actCollateral,
}

// Challenge answers POST /api/v1/provider/ws-challenge: the text that a wallet signs to
// connect without a key, or, with a purpose, for one act on a provider's money.
func (a *API) Challenge(ctx context.Context, c Call) (Answer, error) {
	req := &hubv1.CreateChallengeRequest{}
	said := &hubv1.MoneyAct{}
	var purpose, digest string
	if err := c.read(
		member{name: "address", text: &req.Address, limit: maxAddress, required: true},
		member{name: "purpose", text: &purpose, limit: maxName},
		member{name: "provider_id", text: &said.ProviderId, limit: maxName},
		member{name: "amount_usd", amount: &said.AmountUsd},
		member{name: "request_sha256", text: &digest, limit: maxName}); err != nil {
		return Answer{}, err
	}
	if err := challengeOf(req, purpose, said, digest); err != nil {
		return Answer{}, err
	}
	var resp *hubv1.CreateChallengeResponse
	err := a.counted(ctx, a.challenges, c, func(ctx context.Context) (err error) {
		resp, err = a.peers.Self.CreateChallenge(ctx, req)
		return err
	})
	if err != nil {
		return Answer{}, err
	}
	return answer(http.StatusOK, struct {
		Nonce     string     `json:"nonce"`
		Message   string     `json:"message"`
		ExpiresAt *time.Time `json:"expires_at"`
	}{resp.GetNonce(), resp.GetMessage(), moment(resp.GetExpiresAt())})
}

// connect is the purpose of a challenge that names none.
const connect = "connect"

// challengeOf asks for what a challenge is good for.
func challengeOf(req *hubv1.CreateChallengeRequest, purpose string, said *hubv1.MoneyAct, digest string) error {
	if purpose == "" || purpose == connect {
		req.Purpose = hubv1.ChallengePurpose_CHALLENGE_PURPOSE_CONNECT
		return nil
	}
	what, known := acts[purpose]
	if !known {
		return fault.New(fault.Invalid, fault.InvalidValue, "purpose must be %s, or one of %s", connect,
			strings.Join(slices.Sorted(maps.Keys(acts)), ", ")).On("purpose")
	}
	raw, err := hex.DecodeString(digest)
	switch {
	case said.GetProviderId() == "":
		return missing("provider_id")
	case err != nil || len(raw) != sha256.Size:
		return fault.New(fault.Invalid, fault.InvalidValue,
			"request_sha256 must be the 64 hexadecimal digits of the request's SHA-256: of its method, a space, its path, a "+
				"line feed, and its body").On("request_sha256")
	}
	said.RequestSha256 = raw
	req.Purpose, req.Act = hubv1.ChallengePurpose(what), said
	return nil
}
