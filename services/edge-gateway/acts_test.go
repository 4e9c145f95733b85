package edgegateway

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/serve"
	actsv1 "svc.internal/proto/svc/acts/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
)

// hubActs has one act. The other services of the fleet do not answer.
type hubActs struct {
	hubv1.UnimplementedActAdminServiceServer
}

func (hubActs) ListOwnActs(ctx context.Context, _ *hubv1.ListOwnActsRequest) (*hubv1.ListOwnActsResponse, error) {
	return &hubv1.ListOwnActsResponse{List: []*actsv1.Act{{ActId: 7,
		At: timestamppb.New(time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)), Operator: "alice@0189", Action: "warm_up",
		Subject: "a/b", Detail: `{"asked_by":"` + serve.Operator(ctx) + `"}`}}}, nil
}

func TestTheListOfActsNamesTheServicesThatDoNotAnswer(t *testing.T) {
	f := start(t)
	f.staff.set(bobsToken, "viewer", nil)
	get := func(query string) *http.Response {
		return f.do(http.MethodGet, "/api/v1/admin/acts"+query, "", "Authorization", "Bearer "+bobsToken)
	}
	resp := get("?page_size=10&since=2026-10-01T00:00:00Z")
	text := read(t, resp)
	var page struct {
		List []struct {
			Service, Operator, Action, Subject, Detail string
			ActID                                      string `json:"act_id"`
		}
		Missing    []string
		NextCursor string `json:"next_cursor"`
	}
	if err := json.Unmarshal([]byte(text), &page); err != nil {
		t.Fatalf("%d %s: %v", resp.StatusCode, text, err)
	}
	want := []string{"billing-ledger", "catalog", "settlement", "verifier"}
	if !slices.Equal(page.Missing, want) {
		t.Errorf("missing: got %q, want %q", page.Missing, want)
	}
	if len(page.List) != 1 {
		t.Fatalf("the list: got %s, want one act", text)
	}
	a := page.List[0]
	got := []string{a.Service, a.ActID, a.Operator, a.Action, a.Subject, a.Detail}
	// The service is asked in bob's name.
	want = []string{"provider-hub", "7", "alice@0189", "warm_up", "a/b", `{"asked_by":"bob@0189"}`}
	if !slices.Equal(got, want) {
		t.Errorf("the act: got %q, want %q", got, want)
	}
	wantError(t, get("?page_size=101"), http.StatusBadRequest, "invalid_value")
	wantError(t, get("?service=router"), http.StatusBadRequest, "invalid_value")
	wantError(t, get("?service=catalog"), http.StatusServiceUnavailable, "service_unavailable")
	wantError(t, f.do(http.MethodGet, "/api/v1/admin/acts", ""), http.StatusUnauthorized, "missing_api_key")
}
