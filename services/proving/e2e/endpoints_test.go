package e2e

import (
	"context"
	"crypto/rand"
	"io"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/bustest"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/config"
	"svc.internal/pkg/fakeengine"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/pgtest"
	"svc.internal/pkg/serve"
	"svc.internal/pkg/telemetry"
	hubv1 "svc.internal/proto/svc/hub/v1"
	moneyv1 "svc.internal/proto/svc/money/v1"
	provideragent "svc.internal/services/provider-agent"
	providerhub "svc.internal/services/provider-hub"
	"svc.internal/services/proving/internal/trial"
)

// endpointModel is the model that the provider serves, by another name of its engine's.
const endpointModel = "acme/everything"

// endpointHub is a hub with one provider, whose agent declares every endpoint.
type endpointHub struct {
	client   hubv1.DispatchServiceClient
	provider string
	node     string
	epoch    int64
}

// startEndpointHub runs a hub and an agent in front of an engine.
func startEndpointHub(t *testing.T, engine *fakeengine.Engine) *endpointHub {
	t.Helper()
	url := pgtest.URL(t)
	if err := providerhub.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	tel, err := telemetry.Start(telemetry.Config{LogLevel: "warn", LogFormat: "text", Service: "provider-hub"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	cfg := providerhub.DefaultConfig()
	cfg.HubID, cfg.DispatchAddress, cfg.JournalDir, cfg.Pepper, cfg.DrainTimeout = "hub-1", "inprocess", t.TempDir(),
		[32]byte{1}, time.Second
	hub, err := providerhub.New(t.Context(), cfg, providerhub.Deps{
		Log: tel.Log, Meters: tel.Meters, Clock: clock.System, Random: rand.Reader, Bus: bustest.New(t),
		DB: pgtest.Open(t, url, providerhub.Schema, providerhub.Role),
	})
	if err != nil {
		t.Fatal(err)
	}
	interceptors, err := serve.NewInterceptors(tel.Log, tel.Meters, tel.Traces)
	if err != nil {
		t.Fatal(err)
	}
	channel := serve.NewInProcess(interceptors)
	hub.Register(channel)
	server := httptest.NewServer(hub.Handler())
	var running sync.WaitGroup
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(func() {
		stop()
		running.Wait()
		server.Close()
		if err := tel.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	running.Go(func() {
		if err := hub.Run(ctx); err != nil {
			t.Errorf("the hub ended with %v", err)
		}
	})
	trial.Until(t, "the hub is ready", func() bool { return hub.Ready(ctx) == nil })

	h := &endpointHub{client: hubv1.NewDispatchServiceClient(channel.Client())}
	admin := hubv1.NewProviderAdminServiceClient(channel.Client())
	made, err := admin.CreateProvider(ctx, &hubv1.CreateProviderRequest{Name: "Farm", Region: "eu"})
	if err != nil {
		t.Fatal(err)
	}
	h.provider = made.GetProvider().GetProviderId()
	yes := true
	if _, err := admin.ConfirmQualification(ctx, &hubv1.ConfirmQualificationRequest{ProviderId: h.provider,
		Collateral: &yes, GpuWaived: &yes}); err != nil {
		t.Fatal(err)
	}
	verdicts := hubv1.NewVerdictServiceClient(channel.Client())
	if _, err := verdicts.ReportBenchmark(ctx, &hubv1.ReportBenchmarkRequest{ProviderId: h.provider, Passed: true,
		PassedAt: timestamppb.Now(), Revision: 1}); err != nil {
		t.Fatal(err)
	}
	key, err := admin.IssueProviderKey(ctx, &hubv1.IssueProviderKeyRequest{ProviderId: h.provider, Name: "k"})
	if err != nil {
		t.Fatal(err)
	}
	own := provideragent.DefaultConfig()
	own.WSURL, own.Key = "ws"+strings.TrimPrefix(server.URL, "http"), config.NewSecret(key.GetApiKey())
	own.Capabilities = []string{"chat", "stream", "cancel", "embeddings", "images", "transcriptions"}
	own.Models = []provideragent.Model{{ModelID: endpointModel, EngineURL: engine.URL + "/v1", LocalModel: "local"}}
	agent, err := provideragent.New(own, provideragent.Deps{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	running.Go(func() {
		if err := agent.Run(ctx); err != nil {
			t.Errorf("the agent ended with %v", err)
		}
	})
	<-agent.Registered()
	h.node, h.epoch = agent.NodeID(), 1 // the first of this database
	return h
}

// order is an order for endpointModel with a body that names it.
func (h *endpointHub) order(t *testing.T, endpoint hubv1.Endpoint, media, body string) *hubv1.DispatchOpen {
	t.Helper()
	id, err := ids.NewRequest(time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	name := endpointModel
	if media == "" {
		name = `"` + name + `"`
	}
	o := &hubv1.DispatchOpen{
		RequestId: id.String(), Attempt: 1, ProviderId: h.provider, NodeId: h.node, Epoch: h.epoch, ModelId: endpointModel,
		Endpoint: endpoint, ContentType: media, Body: []byte(body), ModelOffset: uint32(strings.Index(body, name)),
		ModelLength:    uint32(len(name)),
		PriceVersionId: "pv", Rates: &moneyv1.Rates{}, FirstContentTimeoutMs: 10_000, TotalTimeoutMs: 30_000,
		Stream: strings.Contains(body, `"stream":true`) || strings.Contains(body, "\r\n\r\ntrue\r\n"),
	}
	switch endpoint {
	case hubv1.Endpoint_ENDPOINT_IMAGES:
		o.Choices, o.MaxOutputTokens, o.Rates.Unit = 2, 1, moneyv1.Unit_UNIT_IMAGE
	case hubv1.Endpoint_ENDPOINT_TRANSCRIPTIONS:
		o.EstimatedPromptTokens, o.Rates.Unit = 61_500, moneyv1.Unit_UNIT_AUDIO_MINUTE
	default:
		o.EstimatedPromptTokens, o.Inputs = 9, 2
	}
	return o
}

// dispatch serves an order to its end.
func (h *endpointHub) dispatch(
	t *testing.T, o *hubv1.DispatchOpen,
) (events []*hubv1.DispatchEvent, finished *hubv1.DispatchFinished, failed *hubv1.DispatchFailed) {
	t.Helper()
	stream, err := h.client.Dispatch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	open := &hubv1.DispatchRequest_Open{Open: proto.CloneOf(o)}
	if err := stream.Send(&hubv1.DispatchRequest{Message: open}); err != nil {
		t.Fatal(err)
	}
	for finished == nil && failed == nil {
		m, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		finished, failed = m.GetFinished(), m.GetFailed()
		if m.GetEvent() == nil {
			continue
		}
		events = append(events, proto.CloneOf(m.GetEvent()))
		if m.GetEvent().GetFirstContent() {
			if err := stream.Send(&hubv1.DispatchRequest{Message: &hubv1.DispatchRequest_Commit{
				Commit: &hubv1.DispatchCommit{}}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	return events, finished, failed
}

// TestEveryEndpointGoesFromHubToEngineAndBack has a real hub, agent and engine speak to
// each other about every kind of request but chat.
func TestEveryEndpointGoesFromHubToEngineAndBack(t *testing.T) {
	engine := fakeengine.New(t)
	engine.Script("local", fakeengine.Behaviour{Tokens: []string{"good", " day"}, Partials: 1})
	h := startEndpointHub(t, engine)
	const media = "multipart/form-data; boundary=b"
	field := func(name, value string) string {
		return "--b\r\nContent-Disposition: form-data; name=" + name + "\r\n\r\n" + value + "\r\n"
	}
	form := field(`"model"`, endpointModel) + field(`"file"; filename="a.wav"`, "RIFF\x00\xff "+endpointModel)
	text := func(o *hubv1.DispatchOpen) { o.AnswerForm = hubv1.AnswerForm_ANSWER_FORM_TEXT }
	for name, c := range map[string]struct {
		endpoint           hubv1.Endpoint
		media, body        string
		change             func(*hubv1.DispatchOpen)
		events             int
		last               string
		prompt, completion int64
	}{
		"embeddings": {hubv1.Endpoint_ENDPOINT_EMBEDDINGS, "", `{"model":"acme/everything","input":["a","b"]}`,
			nil, 1, `"model":"acme/everything"`, fakeengine.PromptTokens, 0},
		"images": {hubv1.Endpoint_ENDPOINT_IMAGES, "", `{"model":"acme/everything","n":2}`, nil, 1, `1.png`,
			0, 2},
		"fewer images": {hubv1.Endpoint_ENDPOINT_IMAGES, "", `{"model":"acme/everything"}`, nil, 1, `0.png`, 0, 1},
		"images, streamed": {hubv1.Endpoint_ENDPOINT_IMAGES, "", `{"model":"acme/everything","n":2,"stream":true}`, nil,
			4, `"type":"image_generation.completed"`, 0, 2},
		"transcription": {hubv1.Endpoint_ENDPOINT_TRANSCRIPTIONS, media, form + "--b--\r\n", nil, 1,
			`{"text":"good day"}`, 61_500, 0},
		"captions": {hubv1.Endpoint_ENDPOINT_TRANSCRIPTIONS, media, form + field(`"response_format"`, "vtt") +
			"--b--\r\n", text, 1, "WEBVTT", 61_500, 0},
		"transcription streamed": {hubv1.Endpoint_ENDPOINT_TRANSCRIPTIONS, media, form + field(`"stream"`, "true") +
			"--b--\r\n", nil, 3, `"type":"transcript.text.done"`, 61_500, 0},
	} {
		o := h.order(t, c.endpoint, c.media, c.body)
		if c.change != nil {
			c.change(o)
		}
		events, finished, failed := h.dispatch(t, o)
		if failed != nil {
			t.Errorf("%s: failed: got %v, want nil", name, failed)
			continue
		}
		if len(events) != c.events {
			t.Errorf("%s: len(events): got %d, want %d", name, len(events), c.events)
			continue
		}
		if last := string(events[len(events)-1].GetJson()); !strings.Contains(last, c.last) {
			t.Errorf("%s: the last event: got %q, want %q in it", name, last, c.last)
		}
		if finished.GetBillablePromptTokens() != c.prompt {
			t.Errorf("%s: finished: finished.GetBillablePromptTokens(): got %d, want %d", name,
				finished.GetBillablePromptTokens(), c.prompt)
		} else if finished.GetBillableCompletionTokens() != c.completion {
			t.Errorf("%s: finished: finished.GetBillableCompletionTokens(): got %d, want %d", name,
				finished.GetBillableCompletionTokens(), c.completion)
		}
	}
	for _, seen := range engine.Requests() {
		if seen.Model != "local" {
			t.Errorf(`seen.Model: got %q, want "local"`, seen.Model)
		} else if strings.Count(string(seen.Body), endpointModel) > 1 {
			t.Errorf("strings.Count(…): got %d, want at most 1", strings.Count(string(seen.Body), endpointModel))
		}
	}
}
