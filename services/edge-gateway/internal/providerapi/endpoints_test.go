package providerapi

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/fault"
	hubv1 "svc.internal/proto/svc/hub/v1"
)

// endpoints notes what a hub is asked about endpoints.
type endpoints struct {
	hubv1.ExternalEndpointServiceClient
	created *hubv1.CreateExternalEndpointRequest
	updated *hubv1.UpdateExternalEndpointRequest
	checked *hubv1.CheckExternalEndpointRequest
}

func (e *endpoints) CreateExternalEndpoint(
	_ context.Context, req *hubv1.CreateExternalEndpointRequest, _ ...grpc.CallOption,
) (*hubv1.CreateExternalEndpointResponse, error) {
	e.created = req
	return &hubv1.CreateExternalEndpointResponse{Endpoint: &hubv1.ExternalEndpoint{EndpointId: "e1", HasKey: true,
		BaseUrl: req.GetBaseUrl(), Models: req.GetModels(), State: "new"}}, nil
}

func (e *endpoints) UpdateExternalEndpoint(
	_ context.Context, req *hubv1.UpdateExternalEndpointRequest, _ ...grpc.CallOption,
) (*hubv1.UpdateExternalEndpointResponse, error) {
	e.updated = req
	return &hubv1.UpdateExternalEndpointResponse{Endpoint: &hubv1.ExternalEndpoint{EndpointId: req.GetEndpointId()}}, nil
}

func (e *endpoints) CheckExternalEndpoint(
	_ context.Context, req *hubv1.CheckExternalEndpointRequest, _ ...grpc.CallOption,
) (*hubv1.CheckExternalEndpointResponse, error) {
	e.checked = req
	return &hubv1.CheckExternalEndpointResponse{Endpoint: &hubv1.ExternalEndpoint{LastError: "unreachable"}}, nil
}

func TestAnOwnerRegistersAServerAndIsNeverShownItsKey(t *testing.T) {
	t.Parallel()
	b, peer := setup(t), &endpoints{}
	b.peers.Endpoints = peer
	c := with(b.key, `{"name":"Rack","base_url":"https://a.example.org/v1","api_key":"sk-secret-1","models":[`+
		`{"model_id":"acme/one","local_model":"one","capacity":4}]}`)
	c.Method = http.MethodPost
	c.Header.Set("Idempotency-Key", "k1")
	got, err := b.Endpoints(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if got.Status != http.StatusCreated {
		t.Errorf("status: got %d, want 201", got.Status)
	}
	if strings.Contains(string(got.JSON), "sk-secret-1") {
		t.Errorf("got %s, want it without the key", got.JSON)
	}
	if peer.created.GetProviderId() != "p1" {
		t.Errorf("provider: got %q, want the key's", peer.created.GetProviderId())
	}
	if peer.created.GetApiKey() != "sk-secret-1" {
		t.Errorf("key: got %q, want what was sent", peer.created.GetApiKey())
	}
	if peer.created.GetIdempotencyKey() != "k1" {
		t.Errorf("idempotency key: got %q, want k1", peer.created.GetIdempotencyKey())
	}
	if models := peer.created.GetModels(); len(models) != 1 {
		t.Errorf("models: got %v, want one", models)
	} else if models[0].GetCapacity() != 4 {
		t.Errorf("capacity: got %d, want 4", models[0].GetCapacity())
	}
	for _, bad := range []string{`[]`, `{}`, `[{"model_id":7}]`, `[{"name":"x"}]`, `7`, `null`,
		`[` + strings.Repeat(`{"model_id":"m"},`, 64) + `{"model_id":"m"}]`} {
		c := with(b.key, `{"name":"Rack","base_url":"https://a.example.org/v1","models":`+bad+`}`)
		c.Method = http.MethodPost
		if _, err := b.Endpoints(t.Context(), c); err == nil {
			t.Errorf("models %.40s: got no error, want one", bad)
		}
	}
}

// What a change leaves out stays, and an empty key is another word than none.
func TestAChangeOfAServerSaysWhatIsLeftOut(t *testing.T) {
	t.Parallel()
	b, peer := setup(t), &endpoints{}
	b.peers.Endpoints = peer
	change := func(body string) *hubv1.UpdateExternalEndpointRequest {
		t.Helper()
		c := with(b.key, body)
		c.Method, c.Rest = http.MethodPatch, "e1"
		if _, err := b.Endpoint(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		return peer.updated
	}
	name, none := "Other", ""
	want := &hubv1.UpdateExternalEndpointRequest{ProviderId: "p1", EndpointId: "e1", Name: &name}
	if got := change(`{"name":"Other"}`); !proto.Equal(got, want) {
		t.Errorf("a name alone: got %v, want %v", got, want)
	}
	want = &hubv1.UpdateExternalEndpointRequest{ProviderId: "p1", EndpointId: "e1", ApiKey: &none}
	if got := change(`{"api_key":"","name":null}`); !proto.Equal(got, want) {
		t.Errorf("an empty key: got %v, want %v", got, want)
	}
}

func TestACheckNamesItsServerAndNeedsACredential(t *testing.T) {
	t.Parallel()
	b, peer := setup(t), &endpoints{}
	b.peers.Endpoints = peer
	c := with(b.key, "")
	c.Method, c.Rest = http.MethodPost, "e1"+CheckSuffix
	got, err := b.CheckEndpoint(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if peer.checked.GetEndpointId() != "e1" {
		t.Errorf("endpoint: got %q, want e1", peer.checked.GetEndpointId())
	}
	if !strings.Contains(string(got.JSON), `"unreachable"`) {
		t.Errorf("got %s, want what was found", got.JSON)
	}
	c = with("", "")
	c.Rest = "e1"
	if _, err := b.Endpoint(t.Context(), c); err == nil {
		t.Error("without a credential: got no error, want one")
	} else if f, _ := fault.As(err); f.Kind != fault.Unauthenticated {
		t.Errorf("without a credential: got %v, want it unauthenticated", err)
	}
}
