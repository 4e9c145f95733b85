package providerapi

import (
	"context"
	"encoding/hex"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"svc.internal/pkg/fault"
	verifierv1 "svc.internal/proto/svc/verifier/v1"
)

const (
	// maxCursor is in characters, as long as the verifier takes. A cursor holds the name of a
	// model.
	maxCursor = 512
	// maxFlow is in characters, above the length of each flow's name.
	maxFlow = 16
	// maxModelID is in characters, as long as the catalog's are.
	maxModelID = 256
)

// EvidenceSuffix ends the path of a penalty's evidence behind the penalty's id.
const EvidenceSuffix = "/evidence"

// challenge is a challenge as its provider sees it: hidden ones by day and kind alone.
type challenge struct {
	ModelID string     `json:"model_id"`
	Flow    string     `json:"flow"`
	Kind    string     `json:"kind"`
	At      *time.Time `json:"at"`
	Result  string     `json:"result"`
	// EvidenceLeaf is hexadecimal; empty for hidden ones.
	EvidenceLeaf string `json:"evidence_leaf"`
}

// benchmark is a benchmark as its provider sees it.
type benchmark struct {
	RunID     string     `json:"run_id"`
	ModelID   string     `json:"model_id"`
	Basis     string     `json:"basis"`
	Result    string     `json:"result"`
	StartedAt *time.Time `json:"started_at"`
	EndedAt   *time.Time `json:"ended_at"`
	TakenMs   int32      `json:"taken_ms"`
	Findings  []string   `json:"findings"`
	ExpiresAt *time.Time `json:"expires_at"`
}

func benchmarkOf(b *verifierv1.Benchmark) benchmark {
	return benchmark{
		RunID: b.GetRunId(), ModelID: b.GetModelId(), Basis: b.GetBasis(), Result: b.GetResult(),
		StartedAt: moment(b.GetStartedAt()), EndedAt: moment(b.GetEndedAt()), TakenMs: b.GetTakenMs(),
		Findings: append([]string{}, b.GetFindings()...), ExpiresAt: moment(b.GetExpiresAt()),
	}
}

// standing is where a provider is with one of its models.
type standing struct {
	ModelID            string     `json:"model_id"`
	Lane               string     `json:"lane"`
	CapTokens          int32      `json:"cap_tokens"`
	Standing           string     `json:"standing"`
	Kind               string     `json:"kind"`
	Since              *time.Time `json:"since"`
	Benchmark          string     `json:"benchmark"`
	BenchmarkExpiresAt *time.Time `json:"benchmark_expires_at"`
	NextStep           string     `json:"next_step"`
	PenaltyID          string     `json:"penalty_id"`
	LaneReason         string     `json:"lane_reason"`
}

// ownAnswer is a body of a penalty's evidence, or a part of it.
type ownAnswer struct {
	RequestID string     `json:"request_id"`
	Kind      string     `json:"kind"`
	At        *time.Time `json:"at"`
	Side      string     `json:"side"`
	// Body is in base64.
	Body   []byte `json:"body"`
	Offset int32  `json:"offset"`
	Total  int32  `json:"total"`
}

// page is one page of a list.
type page[T any] struct {
	List []T `json:"list"`
	// NextCursor is empty on the last page.
	NextCursor string `json:"next_cursor"`
}

// pageOf reads which page a call asks for.
func pageOf(c Call) (cursor string, size int32, err error) {
	if cursor, err = text(c.Query, "cursor", maxCursor); err != nil {
		return "", 0, err
	}
	size, err = number(c.Query, "page_size")
	return cursor, size, err
}

// Challenges answers GET /api/v1/provider/challenges: one page of what the provider was
// asked by the verifier, newest first.
func (a *API) Challenges(ctx context.Context, c Call) (Answer, error) {
	provider, err := a.keyOrSession(ctx, c)
	if err != nil {
		return Answer{}, err
	}
	req := &verifierv1.ListChallengesRequest{ProviderId: provider}
	if req.Cursor, req.PageSize, err = pageOf(c); err != nil {
		return Answer{}, err
	}
	flow, err := text(c.Query, "flow", maxFlow)
	if err != nil {
		return Answer{}, err
	}
	if req.Hidden = flow == "hidden"; !req.Hidden && flow != "" && flow != "visible" {
		return Answer{}, fault.New(fault.Invalid, fault.InvalidValue, "flow must be visible or hidden").On("flow")
	}
	called, cancel := context.WithTimeout(ctx, a.cfg.CallTimeout)
	defer cancel()
	resp, err := a.peers.Verification.ListChallenges(called, req)
	if err != nil {
		return Answer{}, ofPeer(ctx, err)
	}
	list := make([]challenge, 0, len(resp.GetList()))
	for _, one := range resp.GetList() {
		list = append(list, challenge{
			ModelID: one.GetModelId(), Flow: one.GetFlow(), Kind: one.GetKind(), At: moment(one.GetAt()),
			Result: one.GetResult(), EvidenceLeaf: hex.EncodeToString(one.GetEvidenceLeaf()),
		})
	}
	return answer(http.StatusOK, page[challenge]{list, resp.GetNextCursor()})
}

// Benchmarks answers /api/v1/provider/benchmarks: GET lists the benchmarks of the
// provider's models, POST asks for one.
func (a *API) Benchmarks(ctx context.Context, c Call) (Answer, error) {
	if c.Method == http.MethodPost {
		return a.askBenchmark(ctx, c)
	}
	provider, err := a.keyOrSession(ctx, c)
	if err != nil {
		return Answer{}, err
	}
	req := &verifierv1.ListBenchmarksRequest{ProviderId: provider}
	if req.ModelId, err = text(c.Query, "model_id", maxModelID); err != nil {
		return Answer{}, err
	}
	if req.Cursor, req.PageSize, err = pageOf(c); err != nil {
		return Answer{}, err
	}
	called, cancel := context.WithTimeout(ctx, a.cfg.CallTimeout)
	defer cancel()
	resp, err := a.peers.Verification.ListBenchmarks(called, req)
	if err != nil {
		return Answer{}, ofPeer(ctx, err)
	}
	list := make([]benchmark, 0, len(resp.GetList()))
	for _, b := range resp.GetList() {
		list = append(list, benchmarkOf(b))
	}
	return answer(http.StatusOK, page[benchmark]{list, resp.GetNextCursor()})
}

// askBenchmark asks for a benchmark. A benchmark that is under way is returned.
func (a *API) askBenchmark(ctx context.Context, c Call) (Answer, error) {
	req := &verifierv1.AskBenchmarkRequest{}
	provider, err := a.keyOrSession(ctx, c, member{name: "model_id", text: &req.ModelId, limit: maxModelID,
		required: true})
	if err != nil {
		return Answer{}, err
	}
	req.ProviderId = provider
	called, cancel := context.WithTimeout(ctx, a.cfg.CallTimeout)
	defer cancel()
	resp, err := a.peers.Verification.AskBenchmark(called, req)
	if err != nil {
		return Answer{}, ofPeer(ctx, err)
	}
	return answer(http.StatusOK, benchmarkOf(resp.GetBenchmark()))
}

// Standing answers GET /api/v1/provider/standing: where the provider is with each of its
// models, and why.
func (a *API) Standing(ctx context.Context, c Call) (Answer, error) {
	provider, err := a.keyOrSession(ctx, c)
	if err != nil {
		return Answer{}, err
	}
	called, cancel := context.WithTimeout(ctx, a.cfg.CallTimeout)
	defer cancel()
	resp, err := a.peers.Verification.GetStanding(called, &verifierv1.GetStandingRequest{ProviderId: provider})
	if err != nil {
		return Answer{}, ofPeer(ctx, err)
	}
	list := make([]standing, 0, len(resp.GetList()))
	for _, s := range resp.GetList() {
		list = append(list, standing{
			ModelID: s.GetModelId(), Lane: s.GetLane(), CapTokens: s.GetCapTokens(), Standing: s.GetStanding(),
			Kind: s.GetKind(), Since: moment(s.GetSince()), Benchmark: s.GetBenchmark(),
			BenchmarkExpiresAt: moment(s.GetBenchmarkExpiresAt()), NextStep: s.GetNextStep(), PenaltyID: s.GetPenaltyId(),
			LaneReason: s.GetLaneReason(),
		})
	}
	return answer(http.StatusOK, struct {
		List []standing `json:"list"`
	}{list})
}

// PenaltyEvidence answers GET /api/v1/provider/penalties/{penalty_id}/evidence: one page of
// what the provider was asked and answered in the observations that a penalty rests on.
func (a *API) PenaltyEvidence(ctx context.Context, c Call) (Answer, error) {
	provider, err := a.keyOrSession(ctx, c)
	if err != nil {
		return Answer{}, err
	}
	id, err := url.PathUnescape(strings.TrimSuffix(c.Rest, EvidenceSuffix))
	if err != nil || len(id) > maxPenaltyID || !utf8.ValidString(id) {
		id = "" // no penalty has it
	}
	req := &verifierv1.GetPenaltyEvidenceRequest{PenaltyId: id, ProviderId: provider}
	if req.Cursor, err = text(c.Query, "cursor", maxCursor); err != nil {
		return Answer{}, err
	}
	called, cancel := context.WithTimeout(ctx, a.cfg.CallTimeout)
	defer cancel()
	resp, err := a.peers.Verification.GetPenaltyEvidence(called, req)
	if err != nil {
		return Answer{}, ofPeer(ctx, err)
	}
	list := make([]ownAnswer, 0, len(resp.GetList()))
	for _, o := range resp.GetList() {
		list = append(list, ownAnswer{
			RequestID: o.GetRequestId(), Kind: o.GetKind(), At: moment(o.GetAt()), Side: o.GetSide(), Body: o.GetBody(),
			Offset: o.GetOffset(), Total: o.GetTotal(),
		})
	}
	return answer(http.StatusOK, page[ownAnswer]{list, resp.GetNextCursor()})
}

// text reads a parameter of the query; empty where it is absent.
func text(q url.Values, name string, limit int) (string, error) {
	values := q[name]
	if len(values) == 0 {
		return "", nil
	}
	if len(values) > 1 || !utf8.ValidString(values[0]) || utf8.RuneCountInString(values[0]) > limit {
		return "", fault.New(fault.Invalid, fault.InvalidValue, "%s must be given once, with at most %d characters", name,
			limit).On(name)
	}
	return values[0], nil
}
