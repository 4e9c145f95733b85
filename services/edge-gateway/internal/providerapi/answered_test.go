package providerapi

import (
	"bytes"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/fault"
	hubv1 "svc.internal/proto/svc/hub/v1"
)

// A provider's status has the names that its engines call their models. The last good
// answer, which is kept while a hub is away, has none of them.
func TestHostile35_TheStatusTellsWhatEnginesCallModels(t *testing.T) {
	b := setup(t)
	if a, err := b.Status(t.Context(), with(b.key, "")); err != nil {
		t.Fatalf("got the error %v, want none", err)
	} else if !bytes.Contains(a.JSON, []byte(`"answered_as":[]`)) {
		t.Fatalf("a.JSON: got %q, want %q in it", a.JSON, []byte(`"answered_as":[]`))
	}
	good := b.hub.status
	b.hub.status = func(req *hubv1.GetOwnStatusRequest) (*hubv1.GetOwnStatusResponse, error) {
		resp, err := good(req)
		resp.AnsweredAs = []*hubv1.AnsweredAs{{
			ModelId: "acme/m", AnsweredAs: `che"ap/other`, FirstAt: &timestamppb.Timestamp{Seconds: 1},
			LastAt: &timestamppb.Timestamp{Seconds: 2}, Answers: 3, Meaning: "Look.",
		}}
		return resp, err
	}
	const want = `"answered_as":[{"model_id":"acme/m","answered_as":"che\"ap/other","first_at":"1970-01-01T00:00:01Z",` +
		`"last_at":"1970-01-01T00:00:02Z","answers":3,"meaning":"Look."}]`
	a, err := b.Status(t.Context(), with(b.key, ""))
	if err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if !strings.Contains(string(a.JSON), want) {
		t.Errorf("a.JSON: got %q, want %q in it", string(a.JSON), want)
	}
	b.hub.status = failing(fault.New(fault.Unavailable, fault.ServiceUnavailable, "away"))
	if last, err := b.Status(t.Context(), with(b.key, "")); err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if !bytes.Contains(last.JSON, []byte(`"answered_as":[]`)) {
		t.Errorf("last.JSON: got %q, want %q in it", last.JSON, []byte(`"answered_as":[]`))
	}
}
