package providerapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/fault"
	hubv1 "svc.internal/proto/svc/hub/v1"

	"svc.internal/services/edge-gateway/internal/publicjson"
)

// totalSteps is how many steps lead to an active provider: account, connect, benchmark,
// collateral, active.
const totalSteps = 5

// status is the answer to a status call. Agents in the field know the members up to
// earnings_enabled.
type status struct {
	ProviderID      string   `json:"provider_id"`
	Name            string   `json:"name"`
	Status          string   `json:"status"`
	CanConnect      bool     `json:"can_connect"`
	APIKeyValid     bool     `json:"api_key_valid"`
	Message         string   `json:"message"`
	Warning         string   `json:"warning,omitempty"`
	NextSteps       []string `json:"next_steps"`
	Step            int32    `json:"step"`
	TotalSteps      int      `json:"total_steps"`
	StepLabel       string   `json:"step_label"`
	EarningsEnabled bool     `json:"earnings_enabled"`

	Label              string            `json:"label"`
	Online             bool              `json:"online"`
	Uptime24h          float64           `json:"uptime_24h"`
	Uptime30d          float64           `json:"uptime_30d"`
	ProbationEndsAt    *time.Time        `json:"probation_ends_at"`
	BenchmarkExpiresAt *time.Time        `json:"benchmark_expires_at"`
	Suspensions        []suspension      `json:"suspensions"`
	Nodes              []json.RawMessage `json:"nodes"`
	AnsweredAs         []json.RawMessage `json:"answered_as"`
	Traffic            *traffic          `json:"traffic,omitempty"`
}

// Status answers GET /api/v1/provider/status, to a key and to the session of the account's user. The
// faults of a key are the verdicts on it, rate_limit_exceeded, and service_unavailable for everything
// else, because no other error may be given in JSON. No agent sends a session, so its faults are those
// of other routes.
func (a *API) Status(ctx context.Context, c Call) (Answer, error) {
	if BySession(c.Header) {
		resp, err := a.ownStatus(ctx, c)
		if err != nil {
			return Answer{}, err
		}
		return answer(http.StatusOK, a.statusNow(ctx, resp))
	}
	var digest apikey.Digest
	var resp *hubv1.GetOwnStatusResponse
	err := a.withKey(ctx, c, func(ctx context.Context, d apikey.Digest) (err error) {
		digest = d
		resp, err = a.peers.Self.GetOwnStatus(ctx, &hubv1.GetOwnStatusRequest{KeyDigest: d[:]})
		return err
	})
	if isVerdict(err) {
		return Answer{}, err
	}
	if err != nil {
		return a.lastStatus(digest, err)
	}
	said := a.statusNow(ctx, resp)
	body, err := json.Marshal(said)
	if err != nil {
		return Answer{}, fmt.Errorf("encode a provider's status: %w", err)
	}
	// The members that agents act on are small. The others will be out of date when the
	// kept answer is given.
	said.Nodes, said.AnsweredAs, said.Traffic = []json.RawMessage{}, []json.RawMessage{}, nil
	last, err := json.Marshal(said)
	if err != nil {
		return Answer{}, fmt.Errorf("encode a provider's status to keep: %w", err)
	}
	a.kept.keep(digest, last, a.peers.Clock.Now())
	return ok(body), nil
}

// statusNow is a status with what routers and settlement say of it.
func (a *API) statusNow(ctx context.Context, resp *hubv1.GetOwnStatusResponse) status {
	said := statusOf(resp, a.explain(ctx, resp.GetProvider().GetProviderId()))
	said.NextSteps = append(said.NextSteps, a.deposits(ctx, resp.GetProvider())...)
	return said
}

// deposits says where collateral is taken, to a provider whose collateral is due. It is empty
// for any other provider, and where settlement does not answer.
func (a *API) deposits(ctx context.Context, p *hubv1.Provider) []string {
	if p.GetQualification().GetCollateralConfirmed() || !canConnect(p.GetStatus()) {
		return nil
	}
	where, _, err := a.contracts.get(ctx)
	if err != nil {
		return nil
	}
	var ways []string
	for _, c := range where.GetContracts() {
		ways = append(ways, c.GetTokenSymbol()+" on "+c.GetChainName())
	}
	if where.GetCard().GetAvailable() {
		ways = append(ways, "a card")
	}
	if len(ways) == 0 {
		return []string{"No chain and no card takes collateral here now: ask the operators, who can confirm it."}
	}
	return []string{"Collateral is taken by " + strings.Join(ways[:min(len(ways), maxWays)], ", by ") +
		": GET /api/v1/provider/collateral/contract says where and how much."}
}

// maxWays bounds the ways to deposit that a status names.
const maxWays = 8

// lastStatus returns the last good answer in place of an answer that cannot be made, unless it
// is too old. It has no nodes, names of models and traffic, and its age in the header
// Age.
func (a *API) lastStatus(digest apikey.Digest, err error) (Answer, error) {
	if body, age, found := a.kept.answer(digest, a.peers.Clock.Now()); found {
		last := ok(body)
		last.Header = http.Header{"Age": {strconv.FormatInt(int64(age/time.Second), 10)}}
		return last, nil
	}
	if f, ok := fault.As(err); ok && (f.Kind == fault.Unavailable || f.Kind == fault.Exhausted ||
		f.Kind == fault.Canceled) {
		return Answer{}, err
	}
	return Answer{}, fault.Wrap(err, fault.Unavailable, fault.ServiceUnavailable, "The status cannot be told now.")
}

func statusOf(resp *hubv1.GetOwnStatusResponse, t *traffic) status {
	p := resp.GetProvider()
	out := status{
		ProviderID: p.GetProviderId(), Name: p.GetName(), Status: resp.GetShownStatus(),
		CanConnect: canConnect(p.GetStatus()), APIKeyValid: true,
		Warning: resp.GetWarning(), NextSteps: resp.GetNextSteps(),
		Step: resp.GetStep(), TotalSteps: totalSteps, StepLabel: resp.GetStepLabel(),
		EarningsEnabled: p.GetStatus() == hubv1.ProviderStatus_PROVIDER_STATUS_ACTIVE,
		Label:           resp.GetLabel(), Online: p.GetOnline(), Uptime24h: finite(p.GetUptime_24H()),
		Uptime30d:          finite(p.GetUptime_30D()),
		ProbationEndsAt:    moment(p.GetProbationEndsAt()),
		BenchmarkExpiresAt: moment(p.GetQualification().GetBenchmarkExpiresAt()),
		Suspensions:        suspensionsOf(p),
		Nodes:              []json.RawMessage{}, AnsweredAs: []json.RawMessage{}, Traffic: t,
	}
	if out.Status == "" {
		out.Status = statusWord(p.GetStatus())
	}
	out.Message = meaningOf(out.Status)
	if out.NextSteps == nil {
		out.NextSteps = []string{}
	}
	for _, node := range resp.GetNodes() {
		out.Nodes = append(out.Nodes, publicjson.Append(nil, node))
	}
	for _, named := range resp.GetAnsweredAs() {
		out.AnsweredAs = append(out.AnsweredAs, publicjson.Append(nil, named))
	}
	return out
}

// canConnect is false only for suspended and rejected providers. It is decided here and
// not taken from the hub's answer, whose absence would stop agents for good.
func canConnect(s hubv1.ProviderStatus) bool {
	return s != hubv1.ProviderStatus_PROVIDER_STATUS_SUSPENDED && s != hubv1.ProviderStatus_PROVIDER_STATUS_REJECTED
}

// statusWord returns a status as the public API writes it.
func statusWord(s hubv1.ProviderStatus) string {
	return strings.ToLower(strings.TrimPrefix(s.String(), "PROVIDER_STATUS_"))
}

// meanings say what a status means for its provider.
var meanings = map[string]string{
	"pending":      "You may connect. Requests come once collateral, GPU and benchmark are confirmed.",
	"under_review": "You may connect. Your account is being reviewed.",
	"approved":     "You may connect. Your account was approved; collateral is due.",
	"activating":   "You may connect. Your collateral is confirmed; a benchmark is due.",
	"active":       "You serve requests and earn.",
	"offline":      "Your account is active, and none of your machines is connected.",
	"suspended":    "Your account is suspended: connections are refused.",
	"rejected":     "Your application was rejected: connections are refused.",
}

func meaningOf(status string) string {
	if meaning, ok := meanings[status]; ok {
		return meaning
	}
	return "Your account is " + status + "."
}

// moment returns a time as JSON shows it; nil for none.
func moment(t *timestamppb.Timestamp) *time.Time {
	if t == nil {
		return nil
	}
	at := t.AsTime()
	return &at
}
