package operator

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"svc.internal/pkg/fault"

	"svc.internal/services/edge-gateway/internal/apierror"
	"svc.internal/services/edge-gateway/internal/openapi"
)

// A route that is added without a permission is refused to everybody, and fails here.
func TestEveryRouteOfOperatorsHasAnActAndNoOtherHas(t *testing.T) {
	var doc struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	if err := json.Unmarshal(openapi.Document(), &doc); err != nil {
		t.Fatal(err)
	}
	var described []string
	for path, item := range doc.Paths {
		if !strings.HasPrefix(path, "/api/v1/admin/") {
			continue
		}
		for verb := range item {
			described = append(described, strings.ToUpper(verb)+" "+path)
		}
	}
	slices.Sort(described)
	for _, r := range described {
		if _, ok := needs[r]; !ok {
			t.Errorf("%s has no permission", r)
		}
	}
	for r, permission := range needs {
		if !slices.Contains(described, r) {
			t.Errorf("%s needs %q and is no route", r, permission)
		}
	}
}

// Each route against each role, as people agreed: the rows stand for all routes of their permission.
func TestEachRoleMayWhatWasAgreed(t *testing.T) {
	agreed := map[string][]Role{
		"GET /api/v1/admin/accounts":                            {Viewer, Support, Treasurer, Admin},
		"GET /api/v1/admin/payouts":                             {Viewer, Support, Treasurer, Admin},
		"GET /api/v1/admin/acts":                                {Viewer, Support, Treasurer, Admin},
		"POST /api/v1/admin/accounts/{account_id}/credit":       {Support, Admin},
		"PUT /api/v1/admin/accounts/{account_id}/limits":        {Support, Admin},
		"POST /api/v1/admin/accounts/{account_id}/freezes":      {Support, Admin},
		"POST /api/v1/admin/accounts/{account_id}/freezes/lift": {Support, Admin},
		"POST /api/v1/admin/enterprise-contacts/{contact_id}/answer": {
			Support, Admin},
		"POST /api/v1/admin/accounts/{account_id}/refunds":     {Support, Treasurer, Admin},
		"POST /api/v1/admin/plan-invoices/{invoice_id}/refund": {Support, Treasurer, Admin},
		"POST /api/v1/admin/payouts/{payout_id}/approve":       {Treasurer, Admin},
		"GET /api/v1/admin/vendors/balances":                   {Viewer, Support, Treasurer, Admin},
		"POST /api/v1/admin/vendors/{vendor_id}/payments":      {Treasurer, Admin},
		"POST /api/v1/admin/collateral/refunds/{refund_id}/paid": {
			Treasurer, Admin},
		"POST /api/v1/admin/batches/{day}/allow":            {Treasurer, Admin},
		"PUT /api/v1/admin/accounts/{account_id}/terms":     {Treasurer, Admin},
		"POST /api/v1/admin/providers/{provider_id}/status": {Admin},
		"PUT /api/v1/admin/models/{model_id=**}":            {Admin},
		"GET /api/v1/admin/models/{model_id=**}/changes": {
			Viewer, Support, Treasurer, Admin},
		"POST /api/v1/admin/models/{model_id=**}/changes":               {Admin},
		"DELETE /api/v1/admin/models/{model_id=**}/changes/{change_id}": {Admin},
		"POST /api/v1/admin/accounts/{account_id}/keys":                 {Admin},
		"POST /api/v1/admin/operators":                                  {Admin},
		"PATCH /api/v1/admin/operators/{operator_id=*}":                 {Admin},
		"POST /api/v1/admin/operators/{operator_id}/reset":              {Admin},
		"POST /api/v1/admin/operators/{operator_id}/end":                {Admin},
		"POST /api/v1/admin/operators/first":                            {Admin, First},
		"DELETE /api/v1/admin/session":                                  {Viewer, Support, Treasurer, Admin},
		"POST /api/v1/admin/session":                                    {Viewer, Support, Treasurer, Admin, First, ""},
		"GET /api/v1/admin/nowhere":                                     nil,
		"GET /api/v1/consumer/balance":                                  nil,
	}
	for r, roles := range agreed {
		method, pattern, _ := strings.Cut(r, " ")
		for _, role := range []Role{Viewer, Support, Treasurer, Admin, First, ""} {
			if got, want := role.May(method, pattern), slices.Contains(roles, role); got != want {
				t.Errorf("%s by %q: got %v, want %v", r, role, got, want)
			}
		}
	}
}

func TestEveryGetNeedsReadAndNothingElseDoes(t *testing.T) {
	for r, permission := range needs {
		if reads := strings.HasPrefix(r, http.MethodGet+" "); reads != (permission == Read) {
			t.Errorf("%s needs %q: got a GET %v, want reading and GET together", r, permission, reads)
		}
	}
	viewer := Principal{Role: Viewer}
	if err := viewer.Check(http.MethodHead, "/api/v1/admin/accounts"); err != nil {
		t.Errorf("HEAD of what a viewer reads: got %v, want no error", err)
	}
	if err := viewer.Check(http.MethodPost, "/api/v1/admin/accounts"); !fault.Is(err, apierror.RoleNotAllowed) {
		t.Errorf("got %v, want %s", err, apierror.RoleNotAllowed)
	}
}

// Above a bound a payout needs two persons. A machine must not be able to make them, and whoever
// invites somebody must not be able to act in that person's place at once.
func TestOnlyPersonsMakeOperatorsAndNewOnesApproveNothing(t *testing.T) {
	const approve = "POST /api/v1/admin/payouts/{payout_id}/approve"
	var staff []string
	for r, permission := range needs {
		if permission == Staff {
			staff = append(staff, r)
		}
	}
	if len(staff) != 4 {
		t.Errorf("routes of operators: got %q, want 4", staff)
	}
	for name, tc := range map[string]struct {
		who     Principal
		routes  []string
		refused string // the words of the refusal; empty for none
	}{
		"an admin's machine": {Principal{Role: Admin}, slices.Concat(staff, []string{"POST /api/v1/admin/operators/first"}),
			"A machine may not do this. Sign in"},
		"an admin":          {Principal{Role: Admin, Session: "s1"}, staff, ""},
		"break-glass":       {Principal{Role: Admin, BreakGlass: true}, slices.Concat(staff, []string{approve}), ""},
		"a bootstrap token": {Principal{Role: First}, []string{"POST /api/v1/admin/operators/first"}, ""},
		"a bootstrap token that invites": {Principal{Role: First}, slices.Concat(staff, []string{approve}),
			"A bootstrap token only makes the first operator."},
		"a new treasurer":       {Principal{Role: Treasurer, Session: "s1"}, []string{approve}, "24 hours after"},
		"a new admin":           {Principal{Role: Admin, Session: "s1"}, []string{approve}, "24 hours after"},
		"a treasurer":           {Principal{Role: Treasurer, Session: "s1", MayApprove: true}, []string{approve}, ""},
		"a treasurer's machine": {Principal{Role: Treasurer}, []string{approve}, ""},
		"support of old": {Principal{Role: Support, Session: "s1", MayApprove: true}, []string{approve},
			"Your role may not"},
	} {
		for _, r := range tc.routes {
			method, pattern, _ := strings.Cut(r, " ")
			err := tc.who.Check(method, pattern)
			if tc.refused == "" {
				if err != nil {
					t.Errorf("%s, %s: got %v, want no error", name, r, err)
				}
				continue
			}
			if !fault.Is(err, apierror.RoleNotAllowed) {
				t.Errorf("%s, %s: got %v, want %s", name, r, err, apierror.RoleNotAllowed)
			}
			if got := fmt.Sprint(err); !strings.Contains(got, tc.refused) {
				t.Errorf("%s, %s: got %q, want it to say %q", name, r, got, tc.refused)
			}
		}
	}
}
