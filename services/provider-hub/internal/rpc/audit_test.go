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
		t.Errorf("approved and rejected: %v, %v", one, two)
	}
	if h := d.history(m); len(h) != 2 {
		t.Errorf("history %v", h)
	}
}

func TestReasonsAndPagesAreBounded(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.signUp()
	for _, reason := range []string{strings.Repeat("x", 201), "a\nb"} {
		if _, err := d.admin.SetProviderStatus(t.Context(), &hubv1.SetProviderStatusRequest{ProviderId: m.id, Status: active,
			Reason: reason}); !fault.Is(err, fault.InvalidValue) {
			t.Errorf("reason of %d: %v", len(reason), err)
		}
		if _, err := d.admin.ConfirmQualification(t.Context(), &hubv1.ConfirmQualificationRequest{ProviderId: m.id,
			Reason: reason}); !fault.Is(err, fault.InvalidValue) {
			t.Errorf("reason of %d: %v", len(reason), err)
		}
	}
	for _, size := range []int32{-1, 201} {
		if _, err := d.admin.ListStatusChanges(t.Context(), &hubv1.ListStatusChangesRequest{ProviderId: m.id,
			PageSize: size}); !fault.Is(err, fault.InvalidValue) {
			t.Errorf("a page of %d: %v", size, err)
		}
	}
	// Hostile test 59: the database reads what lies before a page.
	for _, at := range []struct{ page, size int32 }{{-1, 0}, {2002, 0}, {502, 200}, {100_002, 1}, {math.MaxInt32, 200}} {
		if _, err := d.admin.ListStatusChanges(t.Context(), &hubv1.ListStatusChangesRequest{ProviderId: m.id, Page: at.page,
			PageSize: at.size}); !fault.Is(err, fault.InvalidValue) {
			t.Errorf("page %d of %d each: %v", at.page, at.size, err)
		}
		if _, err := d.admin.ListProviders(t.Context(), &hubv1.ListProvidersRequest{Page: at.page,
			PageSize: at.size}); !fault.Is(err, fault.InvalidValue) {
			t.Errorf("page %d of %d providers each: %v", at.page, at.size, err)
		}
	}
	if last, err := d.admin.ListProviders(t.Context(), &hubv1.ListProvidersRequest{Page: 501,
		PageSize: 200}); err != nil || len(last.GetList()) != 0 {
		t.Errorf("the last page that may be asked for: %v, %v", last, err)
	}
	_, err := d.set(m, active)
	d.must(err)
	page, err := d.admin.ListStatusChanges(t.Context(), &hubv1.ListStatusChangesRequest{ProviderId: m.id, Page: 2,
		PageSize: 3})
	if err != nil || page.GetTotal() != 4 || len(page.GetList()) != 1 ||
		page.GetList()[0].GetWhat() != "collateral_confirmed" {
		t.Errorf("page %v, %v", page, err)
	}
	for _, id := range []string{"x", "01890000-0000-7000-8000-000000000000"} {
		_, one := d.admin.ListStatusChanges(t.Context(), &hubv1.ListStatusChangesRequest{ProviderId: id})
		_, two := d.admin.GetProviderDetail(t.Context(), &hubv1.GetProviderDetailRequest{ProviderId: id})
		_, three := d.admin.ConfirmQualification(t.Context(), &hubv1.ConfirmQualificationRequest{ProviderId: id})
		_, four := d.directory.GetProvider(t.Context(), &hubv1.GetProviderRequest{ProviderId: id})
		for _, err := range []error{one, two, three, four} {
			if !fault.Is(err, fault.ProviderNotFound) {
				t.Errorf("provider %q: %v", id, err)
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
