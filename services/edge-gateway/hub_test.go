package edgegateway

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"

	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
)

func unknownKey() error { return fault.New(fault.Unauthenticated, fault.InvalidAPIKey, "no such key") }

func noReceipt() error {
	return fault.New(fault.NotFound, fault.RequestNotFound, "there is no such request")
}

// hub plays a script for each dispatch.
type hub struct {
	hubv1.UnimplementedDispatchServiceServer
	opens chan *hubv1.DispatchOpen
	ended chan error // of each dispatch, how the gateway gave it up; nil if it did not

	mu     sync.Mutex
	script func(*played) error
}

func (h *hub) set(script func(*played) error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.script = script
}

// byAttempt plays one script for each attempt.
func (h *hub) byAttempt(scripts ...func(*played) error) {
	h.set(func(p *played) error { return scripts[p.open.GetAttempt()-1](p) })
}

func (h *hub) Dispatch(stream hubv1.DispatchService_DispatchServer) error {
	message, err := stream.Recv()
	if err != nil {
		return err
	}
	h.mu.Lock()
	script := h.script
	h.mu.Unlock()
	h.opens <- message.GetOpen()
	err = script(&played{stream: stream, open: message.GetOpen()})
	gone := stream.Context().Err()
	if errors.Is(err, errHungUp) {
		gone = err
	}
	select {
	case h.ended <- gone:
	default: // nobody looks at so many
	}
	return err
}

// errHungUp is a gateway that closed its side, as one does when its client has
// left.
var errHungUp = errors.New("the gateway hung up")

// played is one dispatch as the hub sees it.
type played struct {
	stream hubv1.DispatchService_DispatchServer
	open   *hubv1.DispatchOpen
}

func (p *played) event(json string, first bool, tokens int64) error {
	return p.send(&hubv1.DispatchEvent{Json: []byte(json), FirstContent: first, CompletionTokens: tokens})
}

func (p *played) send(e *hubv1.DispatchEvent) error {
	return p.stream.Send(&hubv1.DispatchResponse{Message: &hubv1.DispatchResponse_Event{Event: e}})
}

// committed waits for the commit.
func (p *played) committed() error {
	message, err := p.stream.Recv()
	switch {
	case err != nil:
		return err
	case message.GetCommit() == nil:
		return errors.New("the gateway sent something else than a commit")
	}
	return nil
}

func (p *played) finish(prompt, completion int64) error {
	return p.stream.Send(&hubv1.DispatchResponse{Message: &hubv1.DispatchResponse_Finished{
		Finished: &hubv1.DispatchFinished{
			BillablePromptTokens: prompt, BillableCompletionTokens: completion,
		}}})
}

func (p *played) fail(f *hubv1.DispatchFailed) error {
	return p.stream.Send(&hubv1.DispatchResponse{Message: &hubv1.DispatchResponse_Failed{Failed: f}})
}

// steps plays one thing after the other.
func (p *played) steps(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

const wholeJSON = `{"id":"x","object":"chat.completion","created":1,"model":"acme/tiny-1b","choices":[{"index":0,` +
	`"message":{"role":"assistant","content":"Hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,` +
	`"completion_tokens":3,"total_tokens":12}}`

// wholeAnswer serves an answer that is not streamed.
func wholeAnswer(p *played) error {
	return p.steps(
		func() error { return p.event(wholeJSON, true, 3) },
		p.committed,
		func() error { return p.finish(9, 3) },
	)
}

const (
	roleChunk = `{"id":"x","object":"chat.completion.chunk","created":1,"model":"acme/tiny-1b","choices":[{"index":0,` +
		`"delta":{"role":"assistant"},"finish_reason":null}]}`
	helloChunk = `{"id":"x","object":"chat.completion.chunk","created":1,"model":"acme/tiny-1b","choices":[{"index":0,` +
		`"delta":{"role":"assistant","content":"Hel"},"finish_reason":null}]}`
	moreChunk = `{"id":"x","object":"chat.completion.chunk","created":1,"model":"acme/tiny-1b","choices":[{"index":0,` +
		`"delta":{"content":"lo"},"finish_reason":"stop"}]}`
	usageChunk = `{"id":"x","object":"chat.completion.chunk","created":1,"model":"acme/tiny-1b","choices":[],` +
		`"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}}`
)

// streamAnswer serves a stream.
func streamAnswer(p *played) error {
	return p.steps(
		func() error { return p.event(roleChunk, false, 0) },
		func() error { return p.event(helloChunk, true, 1) },
		p.committed,
		func() error { return p.event(moreChunk, false, 3) },
		func() error {
			if !p.open.GetIncludeUsage() {
				return nil
			}
			return p.event(usageChunk, false, 3)
		},
		func() error { return p.finish(9, 3) },
	)
}

// failing is a script that fails before any content.
func failing(f *hubv1.DispatchFailed) func(*played) error {
	return func(p *played) error { return p.fail(f) }
}

func upstreamFailed() *hubv1.DispatchFailed {
	return &hubv1.DispatchFailed{Retryable: true, Code: "upstream_error", EngineStatus: 500}
}

// refusing is a script that refuses the dispatch itself.
func refusing(err error) func(*played) error { return func(*played) error { return err } }

// untilCanceled serves nothing until the gateway goes away.
func untilCanceled(p *played) error {
	for {
		if _, err := p.stream.Recv(); err != nil {
			return errHungUp
		}
	}
}

// hungUp is closed once the gateway goes away. Nothing else may receive then.
func (p *played) hungUp() <-chan struct{} {
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_ = untilCanceled(p)
	}()
	return gone
}

// market answers the operators' routes on accounts.
type market struct {
	billingv1.UnimplementedAccountAdminServiceServer
	mu   sync.Mutex
	seen context.Context // of the last call
}

func (m *market) last() context.Context {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.seen
}

func (m *market) GrantCredit(
	ctx context.Context, req *billingv1.GrantCreditRequest,
) (*billingv1.GrantCreditResponse, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen = ctx
	switch req.GetAmountUsd() {
	case "reused":
		return nil, fault.New(fault.Precondition, fault.IdempotencyKeyReused, "The key was used for another amount.")
	case "boom":
		return nil, errors.New("pq: secret driver text")
	}
	return &billingv1.GrantCreditResponse{EntryId: "e1", Account: &billingv1.Account{AccountId: req.GetAccountId()}}, nil
}

type publicCatalog struct {
	catalogv1.UnimplementedPublicCatalogServiceServer
}

func (publicCatalog) ListModels(
	_ context.Context, req *catalogv1.ListModelsRequest,
) (*catalogv1.ListModelsResponse, error) {
	return &catalogv1.ListModelsResponse{Msg: "success", Data: &catalogv1.ListModelsData{
		Page: req.GetPage(), List: []*catalogv1.PublicModel{
			{Id: modelID, InputPrice: 0.15}, {Id: openModel, Slug: "open", Name: "Open", Category: "llm", Kind: "open",
				Active: true},
		},
	}}, nil
}

func (publicCatalog) GetModel(
	_ context.Context, req *catalogv1.GetModelRequest,
) (*catalogv1.GetModelResponse, error) {
	if req.GetModelId() != modelID {
		return nil, fault.New(fault.NotFound, fault.ModelNotFound, "The model does not exist.")
	}
	return &catalogv1.GetModelResponse{Msg: "success", Data: &catalogv1.PublicModel{Id: modelID, InputPrice: 0.15}}, nil
}

func (publicCatalog) ListModelProviders(
	_ context.Context, req *catalogv1.ListModelProvidersRequest,
) (*catalogv1.ListModelProvidersResponse, error) {
	if req.GetModelId() != modelID {
		return nil, fault.New(fault.NotFound, fault.ModelNotFound, "The model does not exist.")
	}
	return &catalogv1.ListModelProvidersResponse{Msg: "success", Data: &catalogv1.ListModelProvidersData{}}, nil
}

type catalogAdmin struct {
	catalogv1.UnimplementedCatalogAdminServiceServer
}

func (catalogAdmin) PutModel(_ context.Context, req *catalogv1.PutModelRequest) (*catalogv1.PutModelResponse, error) {
	return &catalogv1.PutModelResponse{Model: &catalogv1.PublicModel{Id: req.GetModelId()}}, nil
}

func (catalogAdmin) ScheduleModelChange(
	_ context.Context, req *catalogv1.ScheduleModelChangeRequest,
) (*catalogv1.ScheduleModelChangeResponse, error) {
	return &catalogv1.ScheduleModelChangeResponse{Change: &catalogv1.ModelChange{ModelId: req.GetModelId(),
		State: "scheduled", EffectiveFrom: req.GetEffectiveFrom(), Entry: req.GetEntry()}}, nil
}

func (catalogAdmin) ListModelChanges(
	_ context.Context, req *catalogv1.ListModelChangesRequest,
) (*catalogv1.ListModelChangesResponse, error) {
	return &catalogv1.ListModelChangesResponse{List: []*catalogv1.ModelChange{{ModelId: req.GetModelId()}}}, nil
}

func (catalogAdmin) CancelModelChange(
	_ context.Context, req *catalogv1.CancelModelChangeRequest,
) (*catalogv1.CancelModelChangeResponse, error) {
	if req.GetChangeId() != "c1" {
		return nil, fault.New(fault.NotFound, fault.ChangeNotFound, "The model has no such change.")
	}
	return &catalogv1.CancelModelChangeResponse{Change: &catalogv1.ModelChange{ModelId: req.GetModelId(),
		ChangeId: req.GetChangeId()}}, nil
}

// report waits for the account of one request.
func (f *fleet) report() *billingv1.RequestReport {
	f.t.Helper()
	return awaited(f.t, f.billing.reports)
}

func noReport(t testing.TB, f *fleet) {
	t.Helper()
	select {
	case w := <-f.billing.reports:
		t.Errorf("an account was given of a request that was never admitted: %v", w)
	default:
	}
}

// hubFailed is a refusal whose message quotes the prompt.
var hubFailed = hubv1.DispatchFailed{Code: "engine_refused", EngineStatus: 400, Message: "cannot read canary-7f3a"}

func itoa(n int) string { return strconv.Itoa(n) }
