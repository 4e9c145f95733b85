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
	verifierv1 "svc.internal/proto/svc/verifier/v1"
)

const (
	challengesURL = "/api/v1/provider/challenges"
	benchmarksURL = "/api/v1/provider/benchmarks"
	standingURL   = "/api/v1/provider/standing"
	evidenceURL   = penaltiesURL + "/" + penaltyID + "/evidence"
)

// verification is a verifier that knows providerA's model and penalty.
type verification struct {
	verifierv1.UnimplementedVerifierSelfServiceServer
	verifierv1.UnimplementedVerifierAdminServiceServer
	mu         sync.Mutex
	challenges *verifierv1.ListChallengesRequest
	benchmarks *verifierv1.ListBenchmarksRequest
	set        *verifierv1.SetPenaltiesRequest
	offering   *verifierv1.GetOfferingRequest
	operator   string
	tooSoon    bool
}

var verifiedAt = timestamppb.New(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC))

func (v *verification) ListChallenges(
	_ context.Context, req *verifierv1.ListChallengesRequest,
) (*verifierv1.ListChallengesResponse, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.challenges = req
	return &verifierv1.ListChallengesResponse{List: []*verifierv1.OwnChallenge{{ModelId: modelID, Flow: "visible",
		Kind: "greedy", At: verifiedAt, Result: "counted", EvidenceLeaf: []byte{0xab, 1}}}, NextCursor: "9"}, nil
}

func (v *verification) ListBenchmarks(
	_ context.Context, req *verifierv1.ListBenchmarksRequest,
) (*verifierv1.ListBenchmarksResponse, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.benchmarks = req
	return &verifierv1.ListBenchmarksResponse{List: []*verifierv1.Benchmark{{RunId: penaltyID, ModelId: modelID,
		Basis: "challenges", Result: "running", StartedAt: verifiedAt}}}, nil
}

func (v *verification) AskBenchmark(
	_ context.Context, req *verifierv1.AskBenchmarkRequest,
) (*verifierv1.AskBenchmarkResponse, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.tooSoon {
		return nil, fault.New(fault.Exhausted, "benchmark_too_soon", "too soon").After(40 * time.Minute)
	}
	if req.GetProviderId() != providerA || req.GetModelId() != modelID {
		return nil, fault.New(fault.NotFound, "offering_not_found", "no such offer").On("model_id")
	}
	return &verifierv1.AskBenchmarkResponse{Benchmark: &verifierv1.Benchmark{RunId: penaltyID, ModelId: modelID,
		Basis: "challenges", Result: "running", StartedAt: verifiedAt}}, nil
}

func (v *verification) GetStanding(
	_ context.Context, req *verifierv1.GetStandingRequest,
) (*verifierv1.GetStandingResponse, error) {
	return &verifierv1.GetStandingResponse{List: []*verifierv1.OwnStanding{{ModelId: req.GetProviderId(), Lane: "probe",
		LaneReason: "unjudged",
		Standing:   "none", Benchmark: "proven"}}}, nil
}

func (v *verification) GetPenaltyEvidence(
	_ context.Context, req *verifierv1.GetPenaltyEvidenceRequest,
) (*verifierv1.GetPenaltyEvidenceResponse, error) {
	if req.GetPenaltyId() != penaltyID || req.GetProviderId() != providerA {
		return nil, fault.New(fault.NotFound, "penalty_not_found", "no such penalty").On("penalty_id")
	}
	return &verifierv1.GetPenaltyEvidenceResponse{List: []*verifierv1.OwnAnswer{{Kind: "greedy", At: verifiedAt,
		Side: "answer", Body: []byte("{}"), Total: 2}}, NextCursor: req.GetCursor()}, nil
}

func (v *verification) SetPenalties(
	ctx context.Context, req *verifierv1.SetPenaltiesRequest,
) (*verifierv1.SetPenaltiesResponse, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.set, v.operator = req, serve.Operator(ctx)
	return &verifierv1.SetPenaltiesResponse{Penalties: &verifierv1.Penalties{On: req.GetOn()}}, nil
}

func (v *verification) GetOffering(
	_ context.Context, req *verifierv1.GetOfferingRequest,
) (*verifierv1.GetOfferingResponse, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.offering = req
	return &verifierv1.GetOfferingResponse{}, nil
}

func TestAProviderReadsItsVerification(t *testing.T) {
	f := start(t)
	for url, want := range map[string]string{
		challengesURL + "?cursor=5&page_size=10&flow=hidden": `{"list":[{"model_id":"acme/tiny-1b","flow":"visible",` +
			`"kind":"greedy","at":"2026-11-21T12:00:00Z","result":"counted","evidence_leaf":"ab01"}],"next_cursor":"9"}`,
		benchmarksURL + "?model_id=acme/tiny-1b": `{"list":[{"run_id":"` + penaltyID + `","model_id":"acme/tiny-1b",` +
			`"basis":"challenges","result":"running","started_at":"2026-11-21T12:00:00Z","ended_at":null,"taken_ms":0,` +
			`"findings":[],"expires_at":null}],"next_cursor":""}`,
		standingURL: `{"list":[{"model_id":"` + providerA + `","lane":"probe","cap_tokens":0,"standing":"none","kind":"",` +
			`"since":null,"benchmark":"proven","benchmark_expires_at":null,"next_step":"","penalty_id":"",` +
			`"lane_reason":"unjudged"}]}`,
		evidenceURL + "?cursor=7": `{"list":[{"request_id":"","kind":"greedy","at":"2026-11-21T12:00:00Z","side":"answer",` +
			`"body":"e30=","offset":0,"total":2}],"next_cursor":"7"}`,
	} {
		if got := wantJSON(t, f.do(http.MethodGet, url, "", f.asProvider()...), 200, nil); got != want {
			t.Errorf("%s: got %s, want %s", url, got, want)
		}
	}
	if got := f.verification.challenges; got.GetProviderId() != providerA {
		t.Errorf("the provider that was asked for: got %q, want %q", got.GetProviderId(), providerA)
	}
	if !f.verification.challenges.GetHidden() {
		t.Error("hidden: got false, want true")
	}
	if got := f.verification.challenges.GetCursor(); got != "5" {
		t.Errorf("cursor: got %q, want %q", got, "5")
	}
	if got := f.verification.challenges.GetPageSize(); got != 10 {
		t.Errorf("page size: got %d, want 10", got)
	}
	if got := f.verification.benchmarks.GetModelId(); got != modelID {
		t.Errorf("model: got %q, want %q", got, modelID)
	}
}

// The cursor of hidden probes by day holds the name of a model.
func TestACursorOfTheVerifierComesBackWhole(t *testing.T) {
	f := start(t)
	cursor := strings.Repeat("c", 300)
	wantJSON(t, f.do(http.MethodGet, challengesURL+"?flow=hidden&cursor="+cursor, "", f.asProvider()...), 200, nil)
	if got := f.verification.challenges.GetCursor(); got != cursor {
		t.Errorf("cursor: got %q, want %q", got, cursor)
	}
}

func TestQuestionsAboutVerificationAreBounded(t *testing.T) {
	f := start(t)
	for _, url := range []string{challengesURL + "?page_size=0", challengesURL + "?flow=x", benchmarksURL + "?page_size=x",
		benchmarksURL + "?model_id=" + strings.Repeat("x", 257), benchmarksURL + "?model_id=a&model_id=b",
		evidenceURL + "?cursor=" + strings.Repeat("1", 513)} {
		wantError(t, f.do(http.MethodGet, url, "", f.asProvider()...), 400, "invalid_value")
	}
	for _, url := range []string{challengesURL, benchmarksURL, standingURL, evidenceURL} {
		wantError(t, f.do(http.MethodGet, url, ""), 401, "missing_api_key")
	}
}

func TestAnotherTenantsVerificationIsNotFound(t *testing.T) {
	f := start(t)
	for _, id := range []string{"0192f0c0-0000-7000-8000-00000000000f", "x", "%ff", strings.Repeat("x", 65)} {
		wantError(t, f.do(http.MethodGet, penaltiesURL+"/"+id+"/evidence", "", f.asProvider()...), 404, "penalty_not_found")
	}
	f.people.set(providerB, nil)
	session := []string{"Authorization", "Bearer " + sessionToken}
	wantError(t, f.do(http.MethodGet, evidenceURL, "", session...), 404, "penalty_not_found")
	wantError(t, f.do(http.MethodPost, benchmarksURL, `{"model_id":"acme/tiny-1b"}`, session...), 404,
		"offering_not_found")
}

func TestAProviderAsksForABenchmark(t *testing.T) {
	f := start(t)
	got := wantJSON(t, f.do(http.MethodPost, benchmarksURL, `{"model_id":"acme/tiny-1b"}`, f.asProvider()...), 200, nil)
	if want := `"run_id":"` + penaltyID + `"`; !strings.Contains(got, want) {
		t.Errorf("got %s, want %s in it", got, want)
	}
	wantError(t, f.do(http.MethodPost, benchmarksURL, `{}`, f.asProvider()...), 400, "missing_required_parameter")
	f.verification.tooSoon = true
	answer := f.do(http.MethodPost, benchmarksURL, `{"model_id":"acme/tiny-1b"}`, f.asProvider()...)
	if got, want := answer.Header.Get("Retry-After"), "2400"; got != want {
		t.Errorf("Retry-After: got %q, want %q", got, want)
	}
	wantError(t, answer, 429, "benchmark_too_soon")
}

// The user of a provider that was removed can read what it was removed for.
func TestTheUserOfAnExpelledProviderReadsTheEvidence(t *testing.T) {
	f := start(t)
	f.selves.set(fault.New(fault.Unauthenticated, fault.KeyRevoked, "revoked"),
		hubv1.ProviderStatus_PROVIDER_STATUS_REJECTED)
	f.people.set(providerA, nil)
	wantJSON(t, f.do(http.MethodGet, evidenceURL, "", "Authorization", "Bearer "+sessionToken), 200, nil)
}

func TestOperatorsSteerVerification(t *testing.T) {
	f := start(t)
	admin := []string{"Authorization", "Bearer " + adminToken}
	wantJSON(t, f.do(http.MethodPost, "/api/v1/admin/verification/penalties", `{"on":true,"reason":"calibrated"}`,
		admin...), 200, nil)
	if got := f.verification.set.GetReason(); got != "calibrated" {
		t.Errorf("reason: got %q, want %q", got, "calibrated")
	}
	if got := f.verification.operator; got != operatorName {
		t.Errorf("operator: got %q, want %q", got, operatorName)
	}
	wantJSON(t, f.do(http.MethodGet, "/api/v1/admin/verification/offerings/"+providerA+"/acme/tiny-1b", "", admin...), 200,
		nil)
	if got := f.verification.offering.GetModelId(); got != modelID {
		t.Errorf("model: got %q, want %q", got, modelID)
	}
}
