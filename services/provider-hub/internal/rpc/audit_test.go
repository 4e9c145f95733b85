package rpc_test

import (
	"context"
	"math"
	"strings"
	"testing"

	"google.golang.org/grpc/metadata"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/serve"
	hubv1 "svc.internal/proto/svc/hub/v1"
)

func TestTwoOperatorsAtOnceLeaveOneHistory(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.in(underReview)
	results := make(chan error, 2)
	for _, to := range []hubv1.ProviderStatus{approved, rejected} {
		go func() {
			_, err := d.set(m, to)
			results <- err
		}()
	}
	one, two := <-results, <-results
	if (one == nil) == (two == nil) {
		t.Errorf("approved and rejected: one == nil: got %t, want any but %t", one == nil, two == nil)
	}
	if h := d.history(m); len(h) != 2 {
		t.Errorf("history: got %d, want 2, in %v", len(h), h)
	}
}

func TestReasonsAndPagesAreBounded(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.signUp()
	for _, reason := range []string{strings.Repeat("x", 201), "a\nb"} {
		if _, err := d.admin.SetProviderStatus(t.Context(), &hubv1.SetProviderStatusRequest{ProviderId: m.id, Status: active,
			Reason: reason}); !fault.Is(err, fault.InvalidValue) {
			t.Errorf("reason of %d: got the error %v, want the reason %v", len(reason), err, fault.InvalidValue)
		}
		if _, err := d.admin.ConfirmQualification(t.Context(), &hubv1.ConfirmQualificationRequest{ProviderId: m.id,
			Reason: reason}); !fault.Is(err, fault.InvalidValue) {
			t.Errorf("reason of %d: got the error %v, want the reason %v", len(reason), err, fault.InvalidValue)
		}
	}
	for _, size := range []int32{-1, 201} {
		if _, err := d.admin.ListStatusChanges(t.Context(), &hubv1.ListStatusChangesRequest{ProviderId: m.id,
			PageSize: size}); !fault.Is(err, fault.InvalidValue) {
			t.Errorf("a page of %d: got the error %v, want the reason %v", size, err, fault.InvalidValue)
		}
	}
	// Hostile test 59: the database reads what lies before a page.
	for _, at := range []struct{ page, size int32 }{{-1, 0}, {2002, 0}, {502, 200}, {100_002, 1}, {math.MaxInt32, 200}} {
		if _, err := d.admin.ListStatusChanges(t.Context(), &hubv1.ListStatusChangesRequest{ProviderId: m.id, Page: at.page,
			PageSize: at.size}); !fault.Is(err, fault.InvalidValue) {
			t.Errorf("page %d of %d each: got the error %v, want the reason %v", at.page, at.size, err, fault.InvalidValue)
		}
		if _, err := d.admin.ListProviders(t.Context(), &hubv1.ListProvidersRequest{Page: at.page,
			PageSize: at.size}); !fault.Is(err, fault.InvalidValue) {
			t.Errorf("page %d of %d providers each: got the error %v, want the reason %v", at.page, at.size, err,
				fault.InvalidValue)
		}
	}
	if last, err := d.admin.ListProviders(t.Context(), &hubv1.ListProvidersRequest{Page: 501, PageSize: 200}); err != nil {
		t.Errorf("the last page that may be asked: got the error %v, want none", err)
	} else if len(last.GetList()) != 0 {
		t.Errorf("the last page that may be asked: len(last.GetList()): got %d, want 0, in %v", len(last.GetList()), last)
	}
	d.activate(m)
	page, err := d.admin.ListStatusChanges(t.Context(), &hubv1.ListStatusChangesRequest{ProviderId: m.id, Page: 2,
		PageSize: 3})
	switch {
	case err != nil:
		t.Errorf("got the error %v, want none", err)
	case page.GetTotal() != 4:
		t.Errorf("page.GetTotal(): got %d, want 4", page.GetTotal())
	case len(page.GetList()) != 1:
		t.Errorf("len(page.GetList()): got %d, want 1, in %v", len(page.GetList()), page)
	case page.GetList()[0].GetWhat() != "collateral_confirmed":
		t.Errorf(`page.GetList()[0].GetWhat(): got %q, want "collateral_confirmed"`, page.GetList()[0].GetWhat())
	}
	for _, id := range []string{"x", "01890000-0000-7000-8000-000000000000"} {
		_, one := d.admin.ListStatusChanges(t.Context(), &hubv1.ListStatusChangesRequest{ProviderId: id})
		_, two := d.admin.GetProviderDetail(t.Context(), &hubv1.GetProviderDetailRequest{ProviderId: id})
		_, three := d.admin.ConfirmQualification(t.Context(), &hubv1.ConfirmQualificationRequest{ProviderId: id})
		_, four := d.directory.GetProvider(t.Context(), &hubv1.GetProviderRequest{ProviderId: id})
		for _, err := range []error{one, two, three, four} {
			if !fault.Is(err, fault.ProviderNotFound) {
				t.Errorf("provider %q: got the error %v, want the reason %v", id, err, fault.ProviderNotFound)
			}
		}
	}
}

// F14: an audit entry names the operator who acted, until persons sign in.
func TestAnAuditEntryNamesTheOperator(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.signUp()
	as := func(name string) context.Context {
		return metadata.NewOutgoingContext(t.Context(), serve.OperatorMetadata(name))
	}
	yes := true
	if _, err := d.admin.ConfirmQualification(as("alice"), &hubv1.ConfirmQualificationRequest{ProviderId: m.id,
		Collateral: &yes, Reason: "seen"}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.admin.SetProviderStatus(as("bob"), &hubv1.SetProviderStatusRequest{ProviderId: m.id, Status: suspended,
		Reason: "why"}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.admin.SetProviderStatus(as("<b>"), &hubv1.SetProviderStatusRequest{ProviderId: m.id, Status: pending,
		Reason: "no name"}); err != nil {
		t.Fatal(err)
	}
	d.wantHistory(m,
		"collateral_confirmed: pending by operator:alice (seen)",
		"suspend: pending to suspended by operator:bob (why)",
		"lift: suspended to pending by operator (no name)")
}
