package edgegateway

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/serve"
	hubv1 "svc.internal/proto/svc/hub/v1"
	settlementv1 "svc.internal/proto/svc/settlement/v1"
)

const (
	penaltyID    = "0192f0c0-0000-7000-8000-00000000000e"
	penaltiesURL = "/api/v1/provider/penalties"
)

// penalties is a settlement with one penalty, which is providerA's.
type penalties struct {
	settlementv1.UnimplementedPenaltyServiceServer
	settlementv1.UnimplementedPenaltyAdminServiceServer
	mu       sync.Mutex
	listed   *settlementv1.ListPenaltiesRequest
	appealed *settlementv1.AppealRequest
	resolved *settlementv1.ResolvePenaltyRequest
	operator string
	late     bool
}

func (p *penalties) penalty() *settlementv1.Penalty {
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	return &settlementv1.Penalty{PenaltyId: penaltyID, ProviderId: providerA, ModelId: "acme/tiny-1b", Kind: "benchmark",
		Family: "benchmark", ShareBasisPoints: 1_000,
		State: settlementv1.PenaltyState_PENALTY_STATE_PROPOSED, OpenedAt: timestamppb.New(at),
		AppealUntil: timestamppb.New(at.Add(48 * time.Hour)), Summary: "slow", EvidenceHash: make([]byte, 32), Revision: 1}
}

func (p *penalties) ListPenalties(
	_ context.Context, req *settlementv1.ListPenaltiesRequest,
) (*settlementv1.ListPenaltiesResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listed = req
	if req.GetPageSize() > 200 {
		return nil, fault.New(fault.Invalid, fault.InvalidValue, "page_size is at most 200").On("page_size")
	}
	return &settlementv1.ListPenaltiesResponse{List: []*settlementv1.Penalty{p.penalty()}, Total: 1, Page: 1,
		PageSize: 50}, nil
}

func (p *penalties) Appeal(
	_ context.Context, req *settlementv1.AppealRequest,
) (*settlementv1.AppealResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if req.GetPenaltyId() != penaltyID || req.GetProviderId() != providerA {
		return nil, fault.New(fault.NotFound, "penalty_not_found", "no such penalty").On("penalty_id")
	}
	if p.late {
		return nil, fault.New(fault.Precondition, fault.TransitionNotAllowed, "the time to appeal was over")
	}
	p.appealed = req
	made := p.penalty()
	made.State, made.AppealText = settlementv1.PenaltyState_PENALTY_STATE_APPEALED, req.GetText()
	return &settlementv1.AppealResponse{Penalty: made}, nil
}

func (p *penalties) ResolvePenalty(
	ctx context.Context, req *settlementv1.ResolvePenaltyRequest,
) (*settlementv1.ResolvePenaltyResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.resolved, p.operator = req, serve.Operator(ctx)
	return &settlementv1.ResolvePenaltyResponse{Penalty: p.penalty()}, nil
}

func (p *penalties) ListAllPenalties(
	_ context.Context, req *settlementv1.ListAllPenaltiesRequest,
) (*settlementv1.ListAllPenaltiesResponse, error) {
	return &settlementv1.ListAllPenaltiesResponse{List: []*settlementv1.Penalty{p.penalty()}, Total: 1,
		Page: req.GetPage(), PageSize: int32(req.GetState())}, nil
}

const shownPenalty = `{"penalty_id":"` + penaltyID + `","model_id":"acme/tiny-1b","kind":"benchmark",` +
	`"family":"benchmark",` +
	`"state":"proposed","share":0.1,"removes":false,"summary":"slow","opened_at":"2026-11-21T12:00:00Z",` +
	`"appeal_until":"2026-11-23T12:00:00Z","appeal_text":"","appealed_at":null,"resolution":"","resolved_at":null,` +
	`"executed_at":null,"parts":[]}`

func TestAProviderReadsItsPenalties(t *testing.T) {
	f := start(t)
	const want = `{"list":[` + shownPenalty + `],"total":1,"page":1,"page_size":50}`
	if got := wantJSON(t, f.do(http.MethodGet, penaltiesURL+"?page=2&page_size=10", "", f.asProvider()...), 200,
		nil); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	switch got := f.penalties.listed; {
	case got.GetProviderId() != providerA:
		t.Errorf("asked: got %v, want page 2 of 10 of %s", got, providerA)
	case got.GetPage() != 2:
		t.Errorf("asked: got %v, want page 2 of 10 of %s", got, providerA)
	case got.GetPageSize() != 10:
		t.Errorf("asked: got %v, want page 2 of 10 of %s", got, providerA)
	}
	for query, code := range map[string]string{
		"?page=0": "invalid_value", "?page=x": "invalid_value", "?page=1&page=2": "invalid_value",
		"?page_size=99999999999": "invalid_value", "?page_size=201": "invalid_value",
	} {
		wantError(t, f.do(http.MethodGet, penaltiesURL+query, "", f.asProvider()...), 400, code)
	}
}

func TestAProviderAppealsAgainstItsPenalty(t *testing.T) {
	f := start(t)
	const body = `{"text":"It was the engine.\nHonestly."}`
	got := wantJSON(t, f.do(http.MethodPost, penaltiesURL+"/"+penaltyID+"/appeal", body, f.asProvider()...), 200, nil)
	if !strings.Contains(got, `"state":"appealed"`) {
		t.Errorf("got %s, want an appealed penalty", got)
	}
	if got := f.penalties.appealed.GetText(); got != "It was the engine.\nHonestly." {
		t.Errorf("the text: got %q, want it as it was sent", got)
	}
	for _, id := range []string{"0192f0c0-0000-7000-8000-00000000000f", "x", "%ff", strings.Repeat("x", 65)} {
		wantError(t, f.do(http.MethodPost, penaltiesURL+"/"+id+"/appeal", body, f.asProvider()...), 404, "penalty_not_found")
	}
	for _, path := range []string{"/", "/" + penaltyID, "//appeal", "/appeal", "/a/b/appeal",
		"/" + penaltyID + "/appeal/x"} {
		wantError(t, f.do(http.MethodPost, penaltiesURL+path, body, f.asProvider()...), 404, "unknown_route")
	}
	wantError(t, f.do(http.MethodGet, penaltiesURL+"/"+penaltyID+"/appeal", "", f.asProvider()...), 405,
		"method_not_allowed")
	wantError(t, f.do(http.MethodPost, penaltiesURL+"/"+penaltyID+"/appeal", `{"text":""}`, f.asProvider()...), 400,
		"missing_required_parameter")
	wantError(t, f.do(http.MethodPost, penaltiesURL+"/"+penaltyID+"/appeal", `{"text":"`+strings.Repeat("x", 4001)+`"}`,
		f.asProvider()...), 400, "invalid_value")
	f.penalties.late = true
	wantError(t, f.do(http.MethodPost, penaltiesURL+"/"+penaltyID+"/appeal", body, f.asProvider()...), 409,
		"transition_not_allowed")
}

// The keys of a provider that was removed from the network are revoked. Its user signs in
// all the same.
func TestTheUserOfAnExpelledProviderAppealsWithASession(t *testing.T) {
	f := start(t)
	f.selves.set(fault.New(fault.Unauthenticated, fault.KeyRevoked, "revoked"),
		hubv1.ProviderStatus_PROVIDER_STATUS_REJECTED)
	const path, body = penaltiesURL + "/" + penaltyID + "/appeal", `{"text":"no"}`
	e := wantError(t, f.do(http.MethodPost, path, body, f.asProvider()...), 401, "key_revoked")
	if !strings.Contains(e.Error.Message, "/api/v1/user/login") {
		t.Errorf("got %q, want the way to appeal in it", e.Error.Message)
	}
	session := []string{"Authorization", "Bearer " + sessionToken}
	wantError(t, f.do(http.MethodPost, path, body, session...), 404, "provider_not_found")
	f.people.set(providerA, nil)
	wantJSON(t, f.do(http.MethodPost, path, body, session...), 200, nil)
	wantJSON(t, f.do(http.MethodGet, penaltiesURL, "", session...), 200, nil)
	if got := f.penalties.appealed.GetProviderId(); got != providerA {
		t.Errorf("appealed as: got %q, want %q", got, providerA)
	}
	wantError(t, f.do(http.MethodPost, path, body, "Authorization", "Bearer stranger"), 401, "invalid_api_key")
	wantError(t, f.do(http.MethodPost, path, body), 401, "missing_api_key")
	wantError(t, f.do(http.MethodPost, path, body, "Authorization", "Bearer "+f.key), 401, "wrong_key_type")
	wantError(t, f.do(http.MethodPost, path, body, "Authorization", "Bearer sk-prov-malformed"), 401, "invalid_api_key")
}

func TestOperatorsListAndResolvePenalties(t *testing.T) {
	f := start(t)
	admin := []string{"Authorization", "Bearer " + adminToken}
	const appealed = "/api/v1/admin/penalties?state=PENALTY_STATE_APPEALED&page=3"
	body := wantJSON(t, f.do(http.MethodGet, appealed, "", admin...), 200, nil)
	for _, want := range []string{`"evidence_hash":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="`, `"appealed_at":null`,
		`"state":"PENALTY_STATE_PROPOSED"`, `"page":3,"page_size":2}`} {
		if !strings.Contains(body, want) {
			t.Errorf("got %s, want %s in it", body, want)
		}
	}
	wantJSON(t, f.do(http.MethodPost, "/api/v1/admin/penalties/"+penaltyID+"/resolve",
		`{"uphold":true,"reason":"replayed"}`, admin...), 200, nil)
	switch got := f.penalties.resolved; {
	case got.GetPenaltyId() != penaltyID:
		t.Errorf("resolved: got %v, want %s upheld", got, penaltyID)
	case !got.GetUphold():
		t.Errorf("resolved: got %v, want %s upheld", got, penaltyID)
	case got.GetReason() != "replayed":
		t.Errorf("resolved: got %v, want %s upheld", got, penaltyID)
	}
	if got := f.penalties.operator; got != operatorName {
		t.Errorf("the operator: got %q, want %q", got, operatorName)
	}
}
