package providerapi

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"svc.internal/pkg/fault"
	hubv1 "svc.internal/proto/svc/hub/v1"

	"svc.internal/services/edge-gateway/internal/apierror"
)

const (
	// maxBaseURL bounds the address of an endpoint, and maxEndpointKey its key, in characters.
	// Hubs have the same bounds.
	maxBaseURL     = 512
	maxEndpointKey = 512
	// maxEndpointID is in bytes, far above the length of an endpoint's id.
	maxEndpointID = 64
	// maxEndpointModels bounds the models of an endpoint.
	maxEndpointModels = 64
)

// CheckSuffix follows the endpoint's id in the path of a check.
const CheckSuffix = "/check"

// endpointModel is a model of an endpoint, as its owner writes and reads it.
type endpointModel struct {
	ModelID       string   `json:"model_id"`
	LocalModel    string   `json:"local_model"`
	ContextLength int32    `json:"context_length"`
	Quantization  string   `json:"quantization"`
	Capabilities  []string `json:"capabilities"`
	Capacity      int32    `json:"capacity"`
	Listed        bool     `json:"listed"`
}

// endpoint is a server of a provider as its owner reads it. Nobody is shown its key.
type endpoint struct {
	EndpointID     string          `json:"endpoint_id"`
	Name           string          `json:"name"`
	BaseURL        string          `json:"base_url"`
	HasKey         bool            `json:"has_key"`
	Models         []endpointModel `json:"models"`
	State          string          `json:"state"`
	LastError      string          `json:"last_error"`
	CheckedAt      *time.Time      `json:"checked_at"`
	Served         bool            `json:"served"`
	CreatedAt      *time.Time      `json:"created_at"`
	UpdatedAt      *time.Time      `json:"updated_at"`
	DisabledAt     *time.Time      `json:"disabled_at"`
	DisabledReason string          `json:"disabled_reason"`
}

func endpointOf(e *hubv1.ExternalEndpoint) endpoint {
	out := endpoint{
		EndpointID: e.GetEndpointId(), Name: e.GetName(), BaseURL: e.GetBaseUrl(), HasKey: e.GetHasKey(),
		Models: make([]endpointModel, 0, len(e.GetModels())), State: e.GetState(), LastError: e.GetLastError(),
		CheckedAt: moment(e.GetCheckedAt()), Served: e.GetHubId() != "", CreatedAt: moment(e.GetCreatedAt()),
		UpdatedAt: moment(e.GetUpdatedAt()), DisabledAt: moment(e.GetDisabledAt()), DisabledReason: e.GetDisabledReason(),
	}
	for _, m := range e.GetModels() {
		out.Models = append(out.Models, endpointModel{m.GetModelId(), m.GetLocalModel(), m.GetContextLength(),
			m.GetQuantization(), m.GetCapabilities(), m.GetCapacity(), m.GetListed()})
	}
	return out
}

// Endpoints answers /api/v1/provider/external-endpoints: GET lists the endpoints of the
// provider, POST registers one in its owner's name.
func (a *API) Endpoints(ctx context.Context, c Call) (Answer, error) {
	if c.Method == http.MethodPost {
		return a.createEndpoint(ctx, c)
	}
	provider, err := a.keyOrSession(ctx, c)
	if err != nil {
		return Answer{}, err
	}
	req := &hubv1.ListExternalEndpointsRequest{ProviderId: provider}
	if req.Page, err = number(c.Query, "page"); err != nil {
		return Answer{}, err
	}
	if req.PageSize, err = number(c.Query, "page_size"); err != nil {
		return Answer{}, err
	}
	called, cancel := context.WithTimeout(ctx, a.cfg.CallTimeout)
	defer cancel()
	resp, err := a.peers.Endpoints.ListExternalEndpoints(called, req)
	if err != nil {
		return Answer{}, ofPeer(ctx, err)
	}
	list := make([]endpoint, 0, len(resp.GetList()))
	for _, e := range resp.GetList() {
		list = append(list, endpointOf(e))
	}
	return answer(http.StatusOK, struct {
		List     []endpoint `json:"list"`
		Total    int32      `json:"total"`
		Page     int32      `json:"page"`
		PageSize int32      `json:"page_size"`
	}{list, resp.GetTotal(), resp.GetPage(), resp.GetPageSize()})
}

// endpointOwner reads the members of a call's body, and returns the provider whose endpoints the call
// adds, changes, checks or deletes. Such a call needs the session of the user who owns the provider; a
// provider key is refused with owner_required. A provider key lies on every machine and may leak, and
// an endpoint outlives the key: a thief who added or moved an endpoint would be sent prompts after the
// key is revoked. A check needs the owner, too, because checks count in the same bound as changes, and
// a thief could use that bound up.
func (a *API) endpointOwner(ctx context.Context, c Call, members ...member) (string, error) {
	if byKey(c.Header) {
		if err := a.withKey(ctx, c, a.checkKey); err != nil {
			return "", err
		}
		return "", fault.New(fault.Denied, apierror.OwnerRequired,
			"A provider key only reads external endpoints. To register, change, check or delete one, sign in as the account's "+
				"user (POST /api/v1/user/login) and send the session's token.")
	}
	u, err := a.provider(ctx, c)
	if err != nil {
		return "", err
	}
	return u.GetProviderId(), c.read(members...)
}

func (a *API) createEndpoint(ctx context.Context, c Call) (Answer, error) {
	req := &hubv1.CreateExternalEndpointRequest{IdempotencyKey: c.Header.Get("Idempotency-Key")}
	var models []byte
	provider, err := a.endpointOwner(ctx, c,
		member{name: "name", text: &req.Name, limit: maxName, required: true},
		member{name: "base_url", text: &req.BaseUrl, limit: maxBaseURL, required: true},
		member{name: "api_key", text: &req.ApiKey, limit: maxEndpointKey},
		member{name: "models", raw: &models})
	if err != nil {
		return Answer{}, err
	}
	if req.Models, err = endpointModels(models); err != nil {
		return Answer{}, err
	}
	if len(req.GetModels()) == 0 {
		return Answer{}, missing("models")
	}
	req.ProviderId = provider
	called, cancel := context.WithTimeout(ctx, a.cfg.CallTimeout)
	defer cancel()
	resp, err := a.peers.Endpoints.CreateExternalEndpoint(called, req)
	if err != nil {
		return Answer{}, ofPeer(ctx, err)
	}
	return answer(http.StatusCreated, endpointOf(resp.GetEndpoint()))
}

// Endpoint answers /api/v1/provider/external-endpoints/{endpoint_id}: GET reads it. In its owner's
// name, PATCH changes what is given and DELETE removes it.
func (a *API) Endpoint(ctx context.Context, c Call) (Answer, error) {
	switch c.Method {
	case http.MethodPatch:
		return a.changeEndpoint(ctx, c)
	case http.MethodDelete:
		return a.deleteEndpoint(ctx, c)
	}
	provider, err := a.keyOrSession(ctx, c)
	if err != nil {
		return Answer{}, err
	}
	called, cancel := context.WithTimeout(ctx, a.cfg.CallTimeout)
	defer cancel()
	resp, err := a.peers.Endpoints.GetExternalEndpoint(called, &hubv1.GetExternalEndpointRequest{ProviderId: provider,
		EndpointId: endpointID(c, "")})
	if err != nil {
		return Answer{}, ofPeer(ctx, err)
	}
	return answer(http.StatusOK, endpointOf(resp.GetEndpoint()))
}

func (a *API) changeEndpoint(ctx context.Context, c Call) (Answer, error) {
	req := &hubv1.UpdateExternalEndpointRequest{EndpointId: endpointID(c, "")}
	var name, base, key optionalText
	var models []byte
	provider, err := a.endpointOwner(ctx, c,
		member{name: "name", text: &name.text, given: &name.given, limit: maxName},
		member{name: "base_url", text: &base.text, given: &base.given, limit: maxBaseURL},
		member{name: "api_key", text: &key.text, given: &key.given, limit: maxEndpointKey},
		member{name: "models", raw: &models})
	if err != nil {
		return Answer{}, err
	}
	if req.Models, err = endpointModels(models); err != nil {
		return Answer{}, err
	}
	req.ProviderId, req.Name, req.BaseUrl, req.ApiKey = provider, name.value(), base.value(), key.value()
	called, cancel := context.WithTimeout(ctx, a.cfg.CallTimeout)
	defer cancel()
	resp, err := a.peers.Endpoints.UpdateExternalEndpoint(called, req)
	if err != nil {
		return Answer{}, ofPeer(ctx, err)
	}
	return answer(http.StatusOK, endpointOf(resp.GetEndpoint()))
}

func (a *API) deleteEndpoint(ctx context.Context, c Call) (Answer, error) {
	provider, err := a.endpointOwner(ctx, c)
	if err != nil {
		return Answer{}, err
	}
	id := endpointID(c, "")
	called, cancel := context.WithTimeout(ctx, a.cfg.CallTimeout)
	defer cancel()
	if _, err := a.peers.Endpoints.DeleteExternalEndpoint(called, &hubv1.DeleteExternalEndpointRequest{
		ProviderId: provider, EndpointId: id}); err != nil {
		return Answer{}, ofPeer(ctx, err)
	}
	return answer(http.StatusOK, struct {
		EndpointID string `json:"endpoint_id"`
		Message    string `json:"message"`
	}{id, "The endpoint and its key are deleted."})
}

// CheckEndpoint answers POST /api/v1/provider/external-endpoints/{endpoint_id}/check: it
// probes the endpoint now.
func (a *API) CheckEndpoint(ctx context.Context, c Call) (Answer, error) {
	provider, err := a.endpointOwner(ctx, c)
	if err != nil {
		return Answer{}, err
	}
	called, cancel := context.WithTimeout(ctx, a.cfg.CallTimeout)
	defer cancel()
	resp, err := a.peers.Endpoints.CheckExternalEndpoint(called, &hubv1.CheckExternalEndpointRequest{
		ProviderId: provider, EndpointId: endpointID(c, CheckSuffix)})
	if err != nil {
		return Answer{}, ofPeer(ctx, err)
	}
	return answer(http.StatusOK, endpointOf(resp.GetEndpoint()))
}

// endpointID is the id in the path of a call; empty for a text that cannot be an id.
func endpointID(c Call, suffix string) string {
	id, err := url.PathUnescape(strings.TrimSuffix(c.Rest, suffix))
	if err != nil || len(id) > maxEndpointID || !utf8.ValidString(id) {
		return ""
	}
	return id
}

// optionalText is a member that may be left out.
type optionalText struct {
	text  string
	given bool
}

func (o optionalText) value() *string {
	if !o.given {
		return nil
	}
	return &o.text
}

// endpointModels reads the models of an endpoint; none where the member is left out.
func endpointModels(raw []byte) ([]*hubv1.ExternalModel, error) {
	if raw == nil {
		return nil, nil
	}
	refuse := func() error {
		return fault.New(fault.Invalid, fault.InvalidValue, "models must be a list of 1 to %d objects with model_id, and "+
			"local_model, context_length, quantization, capabilities and capacity where they are known",
			maxEndpointModels).On("models")
	}
	var list []endpointModel
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&list); err != nil || len(list) == 0 || len(list) > maxEndpointModels {
		return nil, refuse()
	}
	models := make([]*hubv1.ExternalModel, 0, len(list))
	for _, m := range list {
		models = append(models, &hubv1.ExternalModel{ModelId: m.ModelID, LocalModel: m.LocalModel,
			ContextLength: m.ContextLength, Quantization: m.Quantization, Capabilities: m.Capabilities, Capacity: m.Capacity})
	}
	return models, nil
}
