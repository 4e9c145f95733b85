package billingledger_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/serve"
	billingv1 "svc.internal/proto/svc/billing/v1"
)

// The test goes from the usage of a vendor's request to the invoice that the bank paid.
func TestAnOperatorPaysWhatAVendorIsOwed(t *testing.T) {
	f := start(t)
	running := order(t, f.consumer(t, "1"))
	f.admit(t, running)
	usage := served(running.GetRequestId())
	usage.Vendor = true
	notices := f.notices(t)
	f.publish(t, usage)
	wait(t, notices)
	balance := func() *billingv1.VendorBalance {
		t.Helper()
		resp, err := f.payables.ListVendorBalances(t.Context(), &billingv1.ListVendorBalancesRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if n := len(resp.GetList()); n != 1 {
			t.Fatalf("vendors: got %d, want 1", n)
		}
		return resp.GetList()[0]
	}
	owed := balance()
	if owed.GetOwedUsdStr() == "0.00" {
		t.Error("owed: got nothing, want the cost of the request")
	}
	if owed.GetLastPayment() != nil {
		t.Errorf("last payment: got %v, want none", owed.GetLastPayment())
	}
	treasurer := by(t.Context(), serve.OperatorCall{Name: "alice@1"})
	req := &billingv1.PayVendorRequest{VendorId: provider, Invoice: "inv-7", AmountUsd: "0.01",
		CountedUsd: owed.GetOwedUsdStr(), Note: "November"}
	first, err := f.payables.PayVendor(treasurer, req)
	if err != nil {
		t.Fatal(err)
	}
	if got := first.GetPayment().GetState(); got != "paid" {
		t.Errorf("state: got %s, want paid", got)
	}
	again, err := f.payables.PayVendor(treasurer, req)
	if err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(again, first) {
		t.Errorf("again: got %v, want %v", again, first)
	}
	other := proto.CloneOf(req)
	other.AmountUsd = "0.02"
	if _, err := f.payables.PayVendor(treasurer, other); !fault.Is(err, fault.TransitionNotAllowed) {
		t.Errorf("another amount: got the error %v, want %s", err, fault.TransitionNotAllowed)
	}
	paid := balance()
	if got := paid.GetOwedUsdStr(); got != "0.00" {
		t.Errorf("owed: got %s, want nothing", got)
	}
	if got := paid.GetPaidUsdStr(); got != "0.01" {
		t.Errorf("paid: got %s, want 0.01", got)
	}
	if !proto.Equal(paid.GetLastPayment(), first.GetPayment()) {
		t.Errorf("last payment: got %v, want %v", paid.GetLastPayment(), first.GetPayment())
	}
	f.sound(t)
}

func TestAMalformedPaymentOfAVendorIsRefused(t *testing.T) {
	f := assemble(t)
	good := &billingv1.PayVendorRequest{VendorId: provider, Invoice: "7", AmountUsd: "1", Note: "n"}
	for name, tc := range map[string]struct {
		spoil func(*billingv1.PayVendorRequest)
		by    string
		want  fault.Reason
	}{
		"an unknown vendor": {func(*billingv1.PayVendorRequest) {}, "alice@1", fault.ProviderNotFound},
		"nobody":            {func(*billingv1.PayVendorRequest) {}, "", fault.InvalidValue},
		"no vendor":         {func(r *billingv1.PayVendorRequest) { r.VendorId = "x" }, "alice@1", fault.InvalidValue},
		"no number":         {func(r *billingv1.PayVendorRequest) { r.Invoice = " " }, "alice@1", fault.InvalidValue},
		"no amount":         {func(r *billingv1.PayVendorRequest) { r.AmountUsd = "" }, "alice@1", fault.InvalidValue},
		"no dollars":        {func(r *billingv1.PayVendorRequest) { r.AmountUsd = "1e9" }, "alice@1", fault.InvalidValue},
		"no count":          {func(r *billingv1.PayVendorRequest) { r.CountedUsd = "-1" }, "alice@1", fault.InvalidValue},
		"no note":           {func(r *billingv1.PayVendorRequest) { r.Note = "" }, "alice@1", fault.InvalidValue},
	} {
		req := proto.CloneOf(good)
		tc.spoil(req)
		if _, err := f.payables.PayVendor(by(t.Context(), serve.OperatorCall{Name: tc.by}), req); !fault.Is(err, tc.want) {
			t.Errorf("%s: got the error %v, want %s", name, err, tc.want)
		}
	}
	_, err := f.payables.ListVendorBalances(t.Context(), &billingv1.ListVendorBalancesRequest{Cursor: "x"})
	if !fault.Is(err, fault.InvalidValue) {
		t.Errorf("a cursor of nobody's: got the error %v, want %s", err, fault.InvalidValue)
	}
}
