package providerapi

import (
	"context"
	"fmt"
	"strings"
	"time"

	routerv1 "svc.internal/proto/svc/router/v1"
)

// traffic says why a provider gets requests or does not, as one router has seen it since
// it started.
type traffic struct {
	Since   *time.Time    `json:"since"`
	Rejects []reject      `json:"rejects"`
	Models  []modelHealth `json:"models"`
	Nodes   []nodeHealth  `json:"nodes"`
}

// nodeHealth is a connected machine with its models.
type nodeHealth struct {
	NodeID string      `json:"node_id"`
	Models []nodeModel `json:"models"`
}

// nodeModel is a model that a machine offers.
type nodeModel struct {
	ModelID string `json:"model_id"`
	// Serving reports whether the machine is not draining and says that the model is healthy.
	Serving  bool  `json:"serving"`
	InFlight int32 `json:"in_flight"`
	Capacity int32 `json:"capacity"`
}

// quality is what the attempts of the last 24 hours say of a model. Each figure is null where nothing is known of it.
type quality struct {
	// Attempts are those that say something about the provider: served or failed.
	Attempts           int32    `json:"attempts_24h"`
	SuccessRate        *float64 `json:"success_rate_24h"`
	TTFTMsP50          *float64 `json:"ttft_ms_p50"`
	TTFTMsP95          *float64 `json:"ttft_ms_p95"`
	TokensPerSecondP50 *float64 `json:"tokens_per_second_p50"`
}

func qualityOf(m *routerv1.ModelHealth) quality {
	q := quality{Attempts: m.GetSamples(), TTFTMsP50: figureOf(m.GetTtftMsP50()), TTFTMsP95: figureOf(m.GetTtftMsP95()),
		TokensPerSecondP50: figureOf(m.GetTokensPerSecondP50())}
	if q.Attempts > 0 {
		rate := finite(m.GetSuccessRate()) // 0 is known, too
		q.SuccessRate = &rate
	}
	return q
}

// figureOf is nil for a figure of 0, which is not known.
func figureOf(figure float64) *float64 {
	if figure = finite(figure); figure == 0 {
		return nil
	}
	return &figure
}

// reject counts how often the provider was passed over for one reason.
type reject struct {
	Reason  string `json:"reason"`
	Count   int64  `json:"count"`
	Meaning string `json:"meaning"`
}

// modelHealth is one model of the provider.
type modelHealth struct {
	ModelID        string `json:"model_id"`
	Nodes          int32  `json:"nodes"`
	AvailableNodes int32  `json:"available_nodes"`
	InFlight       int32  `json:"in_flight"`
	Capacity       int32  `json:"capacity"`
	Breaker        string `json:"breaker"`
	Chosen         int64  `json:"chosen"`
	// Lane is main, probe or shut. The windows are in tokens; 0 is not known.
	Lane                  string `json:"lane"`
	ContextLength         int64  `json:"context_length"`
	MeasuredContextLength int64  `json:"measured_context_length"`
	// Verification says in plain words what the verifier makes of the model; empty where it
	// changes nothing.
	Verification string `json:"verification"`
	quality

	// declared and trust are shown with the account alone.
	declared int64
	trust    string
}

// explain asks a router. It returns nil when the router does not answer within
// ExplainTimeout; the status is then given without traffic.
func (a *API) explain(ctx context.Context, providerID string) *traffic {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.ExplainTimeout)
	defer cancel()
	resp, err := a.peers.Router.ExplainProvider(ctx, &routerv1.ExplainProviderRequest{ProviderId: providerID})
	if err != nil {
		return nil
	}
	out := &traffic{Since: moment(resp.GetSince()), Rejects: []reject{}, Models: []modelHealth{},
		Nodes: nodesOf(resp.GetNodes())}
	for _, r := range resp.GetRejects() {
		out.Rejects = append(out.Rejects, reject{r.GetReason(), r.GetCount(), reasonMeaning(r.GetReason())})
	}
	for _, m := range resp.GetModels() {
		out.Models = append(out.Models, modelHealth{
			ModelID: m.GetModelId(), Nodes: m.GetNodes(), AvailableNodes: m.GetAvailableNodes(),
			InFlight: m.GetInFlight(), Capacity: m.GetCapacity(), Breaker: m.GetBreaker(), Chosen: m.GetChosen(),
			Lane: laneName(m.GetLane()), ContextLength: m.GetContextLength(),
			MeasuredContextLength: m.GetMeasuredContextLength(), Verification: verification(m), quality: qualityOf(m),
			declared: m.GetReportedContextLength(), trust: m.GetTrust(),
		})
	}
	return out
}

func nodesOf(nodes []*routerv1.NodeHealth) []nodeHealth {
	out := make([]nodeHealth, 0, len(nodes))
	for _, n := range nodes {
		one := nodeHealth{NodeID: n.GetNodeId(), Models: make([]nodeModel, 0, len(n.GetModels()))}
		for _, m := range n.GetModels() {
			one.Models = append(one.Models, nodeModel{m.GetModelId(), m.GetServing(), m.GetInFlight(), m.GetCapacity()})
		}
		out = append(out, one)
	}
	return out
}

// reasons say what a router's reasons mean for a provider.
var reasons = map[string]string{
	"not_active":         "The account is not active, and only active providers get requests.",
	"draining":           "The machine said that it is about to leave.",
	"not_offered":        "The machine does not offer the model that was asked for.",
	"unhealthy":          "The machine reports that the model is not healthy.",
	"window_too_small":   "The request did not fit into the model's context window on the machine.",
	"body_too_large":     "The request was larger than the agent accepts.",
	"capability_missing": "The request needed something that the agent does not declare.",
	"full":               "The machine was serving as many requests as it can.",
	"not_verified": "The model has not passed its benchmark or verification and gets no requests until it does, " +
		"pinned ones included.",
	"degraded": "The machine answered worse than others of late, or the last verification found something, so it gets " +
		"few requests until it does better.",
	"second_tier":    "Providers whose agents are connected are asked first, and an endpoint gets what they cannot take.",
	"not_wanted":     "The request named other providers, or wanted what the machine does not say that it has.",
	"already_failed": "The request had failed at the machine before.",
	"breaker_open":   "Requests failed one after the other, so that the machine is left out for a while.",
}

// Lanes as routers name them. A router that names none knows of no verifier.
const (
	laneMain  = "main"
	laneProbe = "probe"
	laneShut  = "shut"
)

func laneName(lane string) string {
	if lane == "" {
		return laneMain
	}
	return lane
}

// verification says what the verifier makes of a model.
func verification(m *routerv1.ModelHealth) string {
	var said []string
	switch m.GetLane() {
	case laneShut:
		said = append(said, "not_verified: "+reasons["not_verified"])
	case laneProbe:
		said = append(said, "The last verification found something, so the model gets few requests until it passes again.")
	}
	if n := m.GetMeasuredContextLength(); n > 0 {
		said = append(said, fmt.Sprintf("The context window was measured: requests of up to %d tokens are sent to it.",
			m.GetContextLength()))
	}
	return strings.Join(said, " ")
}

func reasonMeaning(reason string) string {
	if meaning, ok := reasons[reason]; ok {
		return meaning
	}
	return "The router passed the machine over."
}
