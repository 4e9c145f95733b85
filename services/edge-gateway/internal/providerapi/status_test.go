package providerapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/fault"
	hubv1 "svc.internal/proto/svc/hub/v1"
	routerv1 "svc.internal/proto/svc/router/v1"
	settlementv1 "svc.internal/proto/svc/settlement/v1"

	"svc.internal/services/edge-gateway/internal/apierror"
)

func failing(err error) func(*hubv1.GetOwnStatusRequest) (*hubv1.GetOwnStatusResponse, error) {
	return func(*hubv1.GetOwnStatusRequest) (*hubv1.GetOwnStatusResponse, error) { return nil, err }
}

// The members that agents of v1 parse, in one flat object and with their types.
func TestStatusIsFlatAndHasWhatAgentsParse(t *testing.T) {
	b := setup(t)
	b.hub.status = func(req *hubv1.GetOwnStatusRequest) (*hubv1.GetOwnStatusResponse, error) {
		digest := apikey.Sum(b.key)
		if !bytes.Equal(req.GetKeyDigest(), digest[:]) {
			t.Errorf("another key was asked for: got %q, want %q", req.GetKeyDigest(), digest[:])
		}
		return &hubv1.GetOwnStatusResponse{
			Provider: &hubv1.Provider{
				ProviderId: "p1", Name: "One", Status: hubv1.ProviderStatus_PROVIDER_STATUS_ACTIVE, Uptime_24H: math.NaN(),
				Uptime_30D:      0.5,
				ProbationEndsAt: &timestamppb.Timestamp{Seconds: 60},
			},
			CanConnect: true, ShownStatus: "offline", Label: "Offline", Step: 5, StepLabel: "active",
			NextSteps: []string{"Connect."}, Warning: "w",
		}, nil
	}
	a, err := b.Status(t.Context(), with(b.key, ""))
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		ProviderID      string   `json:"provider_id"`
		Name            string   `json:"name"`
		Status          string   `json:"status"`
		CanConnect      bool     `json:"can_connect"`
		APIKeyValid     bool     `json:"api_key_valid"`
		Message         string   `json:"message"`
		Warning         string   `json:"warning"`
		NextSteps       []string `json:"next_steps"`
		Step            int      `json:"step"`
		TotalSteps      int      `json:"total_steps"`
		StepLabel       string   `json:"step_label"`
		EarningsEnabled bool     `json:"earnings_enabled"`
		Probation       string   `json:"probation_ends_at"`
		Uptime24h       *float64 `json:"uptime_24h"`
	}
	b.decode(t, a, &got)
	if got.ProviderID != "p1" || got.Name != "One" || got.Status != "offline" || !got.CanConnect || !got.APIKeyValid ||
		got.Message == "" ||
		got.Warning != "w" || len(got.NextSteps) != 1 || got.Step != 5 || got.TotalSteps != 5 || got.StepLabel != "active" ||
		!got.EarningsEnabled ||
		got.Probation != "1970-01-01T00:01:00Z" || got.Uptime24h == nil || *got.Uptime24h != 0 {
		t.Errorf("got %s", a.JSON)
	}
	if bytes.Contains(a.JSON, []byte(`"traffic"`)) {
		t.Errorf("without a router: got %q, want it without %q", a.JSON, []byte(`"traffic"`))
	}
}

// Nobody is sent to deposit where nothing is taken.
func TestAProviderIsToldWhereCollateralIsTaken(t *testing.T) {
	chain := &settlementv1.CollateralContract{ChainId: 254, ChainName: "Swan", TokenSymbol: "ETH"}
	for name, c := range map[string]struct {
		where         *settlementv1.GetContractsResponse
		qualification *hubv1.Qualification
		status        hubv1.ProviderStatus
		want          string
	}{
		"on a chain": {where: &settlementv1.GetContractsResponse{Contracts: []*settlementv1.CollateralContract{chain}},
			want: "Connect. Collateral is taken by ETH on Swan: " +
				"GET /api/v1/provider/collateral/contract says where and how much."},
		"on a chain and by card": {where: &settlementv1.GetContractsResponse{
			Contracts: []*settlementv1.CollateralContract{chain}, Card: &settlementv1.CardTerms{Available: true}},
			want: "Connect. Collateral is taken by ETH on Swan, by a card: " +
				"GET /api/v1/provider/collateral/contract says where and how much."},
		"nowhere": {where: &settlementv1.GetContractsResponse{},
			want: "Connect. No chain and no card takes collateral here now: ask the operators, who can confirm it."},
		"settlement is away": {want: "Connect."},
		"it is confirmed": {where: &settlementv1.GetContractsResponse{},
			qualification: &hubv1.Qualification{CollateralConfirmed: true}, want: "Connect."},
		"the provider is suspended": {where: &settlementv1.GetContractsResponse{},
			status: hubv1.ProviderStatus_PROVIDER_STATUS_SUSPENDED, want: "Connect."},
	} {
		b := knowing(t, nil, nil, nil, nil, nil)
		b.places.answer = c.where
		b.hub.status = func(*hubv1.GetOwnStatusRequest) (*hubv1.GetOwnStatusResponse, error) {
			return &hubv1.GetOwnStatusResponse{NextSteps: []string{"Connect."}, Provider: &hubv1.Provider{
				ProviderId: "p1", Status: c.status, Qualification: c.qualification}}, nil
		}
		for route, ask := range map[string]func(context.Context, Call) (Answer, error){"status": b.Status, "me": b.Me} {
			a, err := ask(t.Context(), with(b.key, ""))
			if err != nil {
				t.Fatal(err)
			}
			var got struct {
				NextSteps []string `json:"next_steps"`
			}
			b.decode(t, a, &got)
			if text := strings.Join(got.NextSteps, " "); text != c.want {
				t.Errorf("%s, %s: got %q, want %q", name, route, text, c.want)
			}
		}
	}
}

// The hub's word is not needed for it, because an agent that gets a no never comes back.
func TestOnlySuspendedAndRejectedCannotConnect(t *testing.T) {
	b := setup(t)
	for number := range hubv1.ProviderStatus_name {
		status := hubv1.ProviderStatus(number)
		b.hub.status = func(*hubv1.GetOwnStatusRequest) (*hubv1.GetOwnStatusResponse, error) {
			return &hubv1.GetOwnStatusResponse{Provider: &hubv1.Provider{Status: status}}, nil
		}
		a, err := b.Status(t.Context(), with(b.key, ""))
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			CanConnect bool `json:"can_connect"`
			Valid      bool `json:"api_key_valid"`
			Earns      bool `json:"earnings_enabled"`
		}
		b.decode(t, a, &got)
		refused := status == hubv1.ProviderStatus_PROVIDER_STATUS_SUSPENDED ||
			status == hubv1.ProviderStatus_PROVIDER_STATUS_REJECTED
		switch {
		case got.CanConnect == refused:
			t.Errorf("CanConnect: got %t, want any but %t, with %s", got.CanConnect, refused, a.JSON)
		case !got.Valid:
			t.Errorf("Valid: got false, want true, with %s", a.JSON)
		case got.Earns != (status == hubv1.ProviderStatus_PROVIDER_STATUS_ACTIVE):
			t.Errorf("Earns: got %t, want %t, with %s", got.Earns, status == hubv1.ProviderStatus_PROVIDER_STATUS_ACTIVE, a.JSON)
		}
	}
}

// Whatever the hub fails with, only its finding about the key is a verdict.
func TestOnlyAVerdictOnTheKeyIsAVerdict(t *testing.T) {
	for _, kind := range fault.Kinds() {
		b := setup(t)
		b.hub.status = failing(fault.New(kind, "something_of_the_fleet", "x"))
		_, err := b.Status(t.Context(), with(b.key, ""))
		if a := apierror.Of(err); a.Status < 500 && a.Status != 429 && a.Status != apierror.StatusClientClosed {
			t.Errorf("kind %d: got %d %s", kind, a.Status, a.Code)
		}
	}
	for _, reason := range []fault.Reason{fault.InvalidAPIKey, fault.KeyRevoked, fault.KeyExpired} {
		b := setup(t)
		b.hub.status = failing(fault.New(fault.Unauthenticated, reason, "key %s of the hub", "sk-prov-x"))
		_, err := b.Status(t.Context(), with(b.key, ""))
		switch a := apierror.Of(err); {
		case a.Status != 401:
			t.Errorf("%s: a.Status: got %d, want 401", reason, a.Status)
		case a.Code != string(reason):
			t.Errorf("%s: a.Code: got %q, want %q", reason, a.Code, string(reason))
		case bytes.Contains([]byte(a.Message), []byte("sk-")):
			t.Errorf("%s: a.Message: got %q, want it without %q", reason, []byte(a.Message), []byte("sk-"))
		}
	}
	b := setup(t)
	b.hub.status = failing(errors.New("plain"))
	if _, err := b.Status(t.Context(), with(b.key, "")); apierror.Of(err).Status != 503 {
		t.Errorf("an unknown error is %v", err)
	}
}

func TestALastGoodAnswerStandsInForTheHub(t *testing.T) {
	b := setup(t)
	good, err := b.Status(t.Context(), with(b.key, ""))
	if err != nil {
		t.Fatal(err)
	}
	b.hub.status = failing(fault.New(fault.Unavailable, fault.ServiceUnavailable, "away"))
	b.clock.Advance(9 * time.Minute)
	last, err := b.Status(t.Context(), with(b.key, ""))
	switch {
	case err != nil:
		t.Errorf("after 9 minutes: got the error %v, want none", err)
	case !bytes.Equal(last.JSON, good.JSON):
		t.Errorf("after 9 minutes: last.JSON: got %q, want %q", last.JSON, good.JSON)
	case last.Header.Get("Age") != "540":
		t.Errorf(`after 9 minutes: last.Header.Get("Age"): got %q, want "540"`, last.Header.Get("Age"))
	}
	if _, err := b.Status(t.Context(), with(newKey(t, apikey.Provider), "")); apierror.Of(err).Status != 503 {
		t.Errorf("another key has %v", err)
	}
	b.clock.Advance(time.Minute)
	if _, err := b.Status(t.Context(), with(b.key, "")); apierror.Of(err).Status != 503 {
		t.Errorf("after 10 minutes: %v", err)
	}
}

func TestARevokedKeyHasNoLastAnswer(t *testing.T) {
	b := setup(t)
	if _, err := b.Status(t.Context(), with(b.key, "")); err != nil {
		t.Fatal(err)
	}
	b.hub.status = failing(fault.New(fault.Unauthenticated, fault.KeyRevoked, "revoked"))
	if _, err := b.Status(t.Context(), with(b.key, "")); !fault.Is(err, fault.KeyRevoked) {
		t.Errorf("got the error %v, want the reason %v", err, fault.KeyRevoked)
	}
	b.hub.status = failing(fault.New(fault.Unavailable, fault.ServiceUnavailable, "away"))
	if a, err := b.Status(t.Context(), with(b.key, "")); err == nil {
		t.Errorf("the hub is away, and a revoked key gets %s", a.JSON)
	}
}

func TestKeptAnswersAreBounded(t *testing.T) {
	k := newAnswerCache(3, 1<<20, time.Hour)
	now := time.Now()
	for n := range byte(100) {
		k.keep(apikey.Digest{n}, []byte("x"), now)
		k.know(apikey.Digest{0})
	}
	if got, want := [2]int{k.known.Len(), k.answers.Len()}, [2]int{3, 3}; got != want {
		t.Errorf("got %d credentials and answers, want %d", got, want)
	}
	if _, _, found := k.answer(apikey.Digest{0}, now); !found {
		t.Error("the one that was used last is gone")
	}
}

func TestKeptAnswersAreBoundedInBytesAndTime(t *testing.T) {
	k := newAnswerCache(1000, 100, time.Minute)
	now := time.Now()
	kept := func(at time.Time) (n int, sum int) {
		for d := range byte(50) {
			if answer, _, found := k.answer(apikey.Digest{d}, at); found {
				n, sum = n+1, sum+len(answer)
			}
		}
		return n, sum
	}
	for n := range byte(50) {
		k.keep(apikey.Digest{n}, make([]byte, 7), now.Add(time.Duration(n)*time.Second/2))
	}
	now = now.Add(25 * time.Second)
	switch n, sum := kept(now); {
	case n != 14:
		t.Errorf("%d answers of %d bytes are kept, counted as %d of %d: kept(now): got %d, want 14", n, sum, k.answers.Len(),
			k.bytes, n)
	case sum != 98:
		t.Errorf("%d answers of %d bytes are kept, counted as %d of %d: sum: got %d, want 98", n, sum, k.answers.Len(),
			k.bytes, sum)
	case k.bytes != 98:
		t.Errorf("%d answers of %d bytes are kept, counted as %d of %d: k.bytes: got %d, want 98", n, sum, k.answers.Len(),
			k.bytes, k.bytes)
	case k.answers.Len() != 14:
		t.Errorf("%d answers of %d bytes are kept, counted as %d of %d: k.answers.Len(): got %d, want 14", n, sum,
			k.answers.Len(), k.bytes, k.answers.Len())
	case !k.knows(apikey.Digest{0}):
		t.Errorf("%d answers of %d bytes are kept, counted as %d of %d: k.knows(apikey.Digest{0}): got false, want true", n,
			sum, k.answers.Len(), k.bytes)
	}
	if _, _, found := k.answer(apikey.Digest{49}, now); !found {
		t.Error("the last answer is gone")
	}
	k.keep(apikey.Digest{49}, make([]byte, 101), now)
	if _, _, found := k.answer(apikey.Digest{49}, now); found {
		t.Error("found of k.answer(apikey.Digest{49}, now): got true, want false")
	} else if k.bytes != 91 {
		t.Errorf("an answer above the bound is kept, or the one before: got %d, want 91", k.bytes)
	}
	k.forget(apikey.Digest{48})
	k.keep(apikey.Digest{47}, make([]byte, 7), now) // in place of its own
	if k.bytes != 84 {
		t.Errorf("bytes counted: got %d, want 84", k.bytes)
	}
	k.keep(apikey.Digest{200}, []byte("x"), now.Add(time.Minute-1))
	if k.answers.Len() != 2 {
		t.Errorf("answers kept past their time: k.answers.Len(): got %d, want 2", k.answers.Len())
	} else if k.bytes != 8 {
		t.Errorf("answers kept past their time: k.bytes: got %d, want 8", k.bytes)
	}
}

func TestAStatusHasTheFiguresOfEachModelAndMachine(t *testing.T) {
	b := setup(t)
	b.router.explain = func(context.Context) (*routerv1.ExplainProviderResponse, error) {
		return &routerv1.ExplainProviderResponse{
			Models: []*routerv1.ModelHealth{
				{ModelId: "fresh"}, {ModelId: "failing", Samples: 2},
				{ModelId: "served", Samples: 4, SuccessRate: 0.75, TtftMsP50: 200.5, TtftMsP95: 900, TokensPerSecondP50: 40},
			},
			Nodes: []*routerv1.NodeHealth{{NodeId: "n1", Models: []*routerv1.NodeModel{
				{ModelId: "served", Serving: true, InFlight: 1, Capacity: 4}}}, {NodeId: "n2"}},
		}, nil
	}
	a, err := b.Status(t.Context(), with(b.key, ""))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"verification":"","attempts_24h":0,"success_rate_24h":null,"ttft_ms_p50":null,"ttft_ms_p95":null,` +
			`"tokens_per_second_p50":null}`,
		`"attempts_24h":2,"success_rate_24h":0,"ttft_ms_p50":null`,
		`"attempts_24h":4,"success_rate_24h":0.75,"ttft_ms_p50":200.5,"ttft_ms_p95":900,"tokens_per_second_p50":40}`,
		`"nodes":[{"node_id":"n1","models":[{"model_id":"served","serving":true,"in_flight":1,"capacity":4}]},` +
			`{"node_id":"n2","models":[]}]`,
	} {
		if !bytes.Contains(a.JSON, []byte(want)) {
			t.Errorf("got %s, want %s in it", a.JSON, want)
		}
	}
}

// What is large and out of date soon is not kept.
func TestTheLastAnswerHasNoNodesAndNoTraffic(t *testing.T) {
	b := setup(t)
	good := b.hub.status
	b.hub.status = func(req *hubv1.GetOwnStatusRequest) (*hubv1.GetOwnStatusResponse, error) {
		resp, err := good(req)
		resp.Nodes = []*hubv1.ProviderNode{{NodeId: "n1"}}
		return resp, err
	}
	b.router.explain = func(context.Context) (*routerv1.ExplainProviderResponse, error) {
		return &routerv1.ExplainProviderResponse{}, nil
	}
	first, err := b.Status(t.Context(), with(b.key, ""))
	switch {
	case err != nil:
		t.Fatalf("got the error %v, want none", err)
	case !bytes.Contains(first.JSON, []byte(`"n1"`)):
		t.Fatalf("first.JSON: got %q, want %q in it", first.JSON, []byte(`"n1"`))
	case !bytes.Contains(first.JSON, []byte(`"traffic"`)):
		t.Fatalf("first.JSON: got %q, want %q in it", first.JSON, []byte(`"traffic"`))
	}
	b.hub.status = failing(fault.New(fault.Unavailable, fault.ServiceUnavailable, "away"))
	last, err := b.Status(t.Context(), with(b.key, ""))
	switch {
	case err != nil:
		t.Errorf("got the error %v, want none", err)
	case !bytes.Contains(last.JSON, []byte(`"api_key_valid":true`)):
		t.Errorf("last.JSON: got %q, want %q in it", last.JSON, []byte(`"api_key_valid":true`))
	case !bytes.Contains(last.JSON, []byte(`"nodes":[]`)):
		t.Errorf("last.JSON: got %q, want %q in it", last.JSON, []byte(`"nodes":[]`))
	case bytes.Contains(last.JSON, []byte(`"traffic"`)):
		t.Errorf("last.JSON: got %q, want it without %q", last.JSON, []byte(`"traffic"`))
	}
}

// A router that hangs costs the status its short time and no more.
func TestTrafficIsAbsentWhenTheRouterIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t)
		b.router.explain = func(ctx context.Context) (*routerv1.ExplainProviderResponse, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		began := time.Now()
		a, err := b.Status(t.Context(), with(b.key, ""))
		if err != nil {
			t.Errorf("got the error %v, want none", err)
		} else if bytes.Contains(a.JSON, []byte("traffic")) {
			t.Errorf("a.JSON: got %q, want it without %q", a.JSON, []byte("traffic"))
		}
		if took := time.Since(began); took != testConfig.ExplainTimeout {
			t.Errorf("it took: got %v, want %v", took, testConfig.ExplainTimeout)
		}
	})
}

func TestTrafficNamesReasonsAndWhatTheyMean(t *testing.T) {
	b := setup(t)
	b.router.explain = func(context.Context) (*routerv1.ExplainProviderResponse, error) {
		return &routerv1.ExplainProviderResponse{
			Since:   &timestamppb.Timestamp{Seconds: 1},
			Rejects: []*routerv1.RejectCount{{Reason: "full", Count: 1 << 40}, {Reason: "of_tomorrow", Count: 1}},
			Models: []*routerv1.ModelHealth{{ModelId: "m", Nodes: 2, AvailableNodes: 1, InFlight: 3, Capacity: 4,
				Breaker: "open", Chosen: 5, Lane: "main", ContextLength: 4096}},
		}, nil
	}
	a, err := b.Status(t.Context(), with(b.key, ""))
	if err != nil {
		t.Fatal(err)
	}
	var got struct{ Traffic json.RawMessage }
	b.decode(t, a, &got)
	want := `{"since":"1970-01-01T00:00:01Z","rejects":[{"reason":"full","count":1099511627776,"meaning":"` +
		reasons["full"] +
		`"},{"reason":"of_tomorrow","count":1,"meaning":"The router passed the machine over."}],` +
		`"models":[{"model_id":"m","nodes":2,"available_nodes":1,"in_flight":3,"capacity":4,"breaker":"open","chosen":5,` +
		`"lane":"main","context_length":4096,"measured_context_length":0,"verification":"",` +
		`"attempts_24h":0,"success_rate_24h":null,"ttft_ms_p50":null,"ttft_ms_p95":null,` +
		`"tokens_per_second_p50":null}],"nodes":[]}`
	if string(got.Traffic) != want {
		t.Errorf("got  %s\nwant %s", got.Traffic, want)
	}
}

func TestTrafficSaysInPlainWordsWhatTheVerifierMakesOfAModel(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.router.explain = func(context.Context) (*routerv1.ExplainProviderResponse, error) {
		return &routerv1.ExplainProviderResponse{
			Rejects: []*routerv1.RejectCount{{Reason: "not_verified"}},
			Models: []*routerv1.ModelHealth{
				{ModelId: "capped", Lane: "main", ContextLength: 2048, MeasuredContextLength: 2048},
				{ModelId: "shut", Lane: "shut", ContextLength: 4096},
				{ModelId: "both", Lane: "probe", ContextLength: 2048, MeasuredContextLength: 9000},
				{ModelId: "of an older router"},
			},
		}, nil
	}
	a, err := b.Status(t.Context(), with(b.key, ""))
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Traffic struct {
			Rejects []struct{ Reason, Meaning string }
			Models  []struct {
				ModelID      string `json:"model_id"`
				Lane         string `json:"lane"`
				Measured     int64  `json:"measured_context_length"`
				Verification string `json:"verification"`
			}
		}
	}
	b.decode(t, a, &got)
	if got, want := got.Traffic.Rejects[0].Meaning, reasons["not_verified"]; got != want {
		t.Errorf("the meaning of not_verified: got %q, want %q", got, want)
	}
	for i, want := range []struct {
		lane     string
		measured int64
		words    []string
	}{
		{"main", 2048, []string{"measured", "up to 2048 tokens"}},
		{"shut", 0, []string{"not_verified", "no requests"}},
		{"probe", 9000, []string{"few requests", "up to 2048 tokens"}},
		{"main", 0, nil},
	} {
		m := got.Traffic.Models[i]
		if m.Lane != want.lane {
			t.Errorf("%s: lane: got %q, want %q", m.ModelID, m.Lane, want.lane)
		}
		if m.Measured != want.measured {
			t.Errorf("%s: measured window: got %d, want %d", m.ModelID, m.Measured, want.measured)
		}
		for _, word := range want.words {
			if !strings.Contains(m.Verification, word) {
				t.Errorf("%s: verification: got %q, want %q in it", m.ModelID, m.Verification, word)
			}
		}
		if len(want.words) == 0 && m.Verification != "" {
			t.Errorf("%s: verification: got %q, want none", m.ModelID, m.Verification)
		}
	}
}

// Unknown provider keys are counted for their address; a known one is not held up.
func TestGuessesOfProviderKeysAreBounded(t *testing.T) {
	b := setup(t)
	if _, err := b.Status(t.Context(), with(b.key, "")); err != nil {
		t.Fatal(err)
	}
	known := b.hub.status
	b.hub.status = failing(fault.New(fault.Unauthenticated, fault.InvalidAPIKey, "none"))
	held := 0
	for range 20 {
		_, err := b.Status(t.Context(), with(newKey(t, apikey.Provider), ""))
		if fault.Is(err, fault.RateLimitExceeded) {
			held++
		}
	}
	if asked := b.hub.asked; held < 10 {
		t.Errorf("%d guesses were held, %d look-ups made: held: got %d, want at least 10", held, asked, held)
	} else if asked > 10 {
		t.Errorf("%d guesses were held, %d look-ups made: asked: got %d, want at most 10", held, asked, asked)
	}
	b.hub.status = known
	if _, err := b.Status(t.Context(), with(b.key, "")); err != nil {
		t.Errorf("the neighbour with a known key: %v", err)
	}
	away := with(newKey(t, apikey.Provider), "")
	away.From = netip.MustParseAddr("203.0.113.77")
	if _, err := b.Status(t.Context(), away); err != nil {
		t.Errorf("another address: %v", err)
	}
}

func TestKeysOfAnotherKindAreNotLookedUp(t *testing.T) {
	b := setup(t)
	for credential, reason := range map[string]fault.Reason{
		"": apierror.MissingAPIKey, newKey(t, apikey.Consumer): apierror.WrongKeyType,
		"sk-prov-nonsense":         fault.InvalidAPIKey,
		b.key[:len(b.key)-1] + "!": fault.InvalidAPIKey,
	} {
		if _, err := b.Status(t.Context(), with(credential, "")); !fault.Is(err, reason) {
			t.Errorf("%.8q: got the error %v, want the reason %v", credential, err, reason)
		}
	}
	if b.hub.asked != 0 {
		t.Errorf("the hub was asked: got %d, want 0", b.hub.asked)
	}
}
