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

	"svc.internal/services/edge-gateway/internal/apierror"
)

// endpoints notes what a hub is asked about endpoints.
type endpoints struct {
	hubv1.ExternalEndpointServiceClient
	created *hubv1.CreateExternalEndpointRequest
	updated *hubv1.UpdateExternalEndpointRequest
	checked *hubv1.CheckExternalEndpointRequest
	listed  *hubv1.ListExternalEndpointsRequest
	asked   int // for more than reading
}

func (e *endpoints) ListExternalEndpoints(
	_ context.Context, req *hubv1.ListExternalEndpointsRequest, _ ...grpc.CallOption,
) (*hubv1.ListExternalEndpointsResponse, error) {
	e.listed = req
	return &hubv1.ListExternalEndpointsResponse{}, nil
}

func (e *endpoints) DeleteExternalEndpoint(
	context.Context, *hubv1.DeleteExternalEndpointRequest, ...grpc.CallOption,
) (*hubv1.DeleteExternalEndpointResponse, error) {
	e.asked++
	return &hubv1.DeleteExternalEndpointResponse{}, nil
}

func (e *endpoints) CreateExternalEndpoint(
	_ context.Context, req *hubv1.CreateExternalEndpointRequest, _ ...grpc.CallOption,
) (*hubv1.CreateExternalEndpointResponse, error) {
	e.created, e.asked = req, e.asked+1
	return &hubv1.CreateExternalEndpointResponse{Endpoint: &hubv1.ExternalEndpoint{EndpointId: "e1", HasKey: true,
		BaseUrl: req.GetBaseUrl(), Models: req.GetModels(), State: "new"}}, nil
}

func (e *endpoints) UpdateExternalEndpoint(
	_ context.Context, req *hubv1.UpdateExternalEndpointRequest, _ ...grpc.CallOption,
) (*hubv1.UpdateExternalEndpointResponse, error) {
	e.updated, e.asked = req, e.asked+1
	return &hubv1.UpdateExternalEndpointResponse{Endpoint: &hubv1.ExternalEndpoint{EndpointId: req.GetEndpointId()}}, nil
}

func (e *endpoints) CheckExternalEndpoint(
	_ context.Context, req *hubv1.CheckExternalEndpointRequest, _ ...grpc.CallOption,
) (*hubv1.CheckExternalEndpointResponse, error) {
	e.checked, e.asked = req, e.asked+1
	return &hubv1.CheckExternalEndpointResponse{Endpoint: &hubv1.ExternalEndpoint{LastError: "unreachable"}}, nil
}

func TestAnOwnerRegistersAServerAndIsNeverShownItsKey(t *testing.T) {
	t.Parallel()
	b, peer := setup(t), &endpoints{}
	b.peers.Endpoints = peer
	signedIn(b)
	c := with("session", `{"name":"Rack","base_url":"https://a.example.org/v1","api_key":"sk-secret-1","models":[`+
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
		t.Errorf("provider: got %q, want the session's", peer.created.GetProviderId())
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
		c := with("session", `{"name":"Rack","base_url":"https://a.example.org/v1","models":`+bad+`}`)
		c.Method = http.MethodPost
		if _, err := b.Endpoints(t.Context(), c); err == nil {
			t.Errorf("models %.40s: got no error, want one", bad)
		}
	}
}

// A provider key lies on every machine. A thief who could add an endpoint by a stolen key would go on
// receiving prompts after the key is revoked.
func TestAStolenProviderKeyOnlyReadsEndpoints(t *testing.T) {
	t.Parallel()
	b, peer := setup(t), &endpoints{}
	b.peers.Endpoints = peer
	signedIn(b)
	const server = `"base_url":"https://thief.example.org/v1","models":[{"model_id":"acme/one"}]`
	for what, try := range map[string]struct {
		method, rest, body string
		ask                func(context.Context, Call) (Answer, error)
	}{
		"add":    {http.MethodPost, "", `{"name":"Rack",` + server + `}`, b.Endpoints},
		"move":   {http.MethodPatch, "e1", `{` + server + `}`, b.Endpoint},
		"delete": {http.MethodDelete, "e1", "", b.Endpoint},
		"check":  {http.MethodPost, "e1" + CheckSuffix, "", b.CheckEndpoint},
	} {
		for name, inHeader := range map[string]bool{"bearer": false, "x-api-key": true} {
			c := with(b.key, try.body)
			if inHeader {
				c.Header.Del("Authorization")
				c.Header.Set("X-Api-Key", b.key)
			}
			c.Method, c.Rest = try.method, try.rest
			if _, err := try.ask(t.Context(), c); !fault.Is(err, apierror.OwnerRequired) {
				t.Errorf("%s, %s: got the error %v, want the reason %v", what, name, err, apierror.OwnerRequired)
			}
		}
	}
	if peer.asked != 0 {
		t.Errorf("calls that reached a hub: got %d, want 0", peer.asked)
	}
	c := with(b.key, "")
	if _, err := b.Endpoints(t.Context(), c); err != nil {
		t.Errorf("a list: got the error %v, want none", err)
	}
	if peer.listed.GetProviderId() != "p1" {
		t.Errorf("a list: provider: got %q, want the key's", peer.listed.GetProviderId())
	}
}

// What a change leaves out stays, and an empty key is another word than none.
func TestAChangeOfAServerSaysWhatIsLeftOut(t *testing.T) {
	t.Parallel()
	b, peer := setup(t), &endpoints{}
	b.peers.Endpoints = peer
	signedIn(b)
	change := func(body string) *hubv1.UpdateExternalEndpointRequest {
		t.Helper()
		c := with("session", body)
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
	signedIn(b)
	c := with("session", "")
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
