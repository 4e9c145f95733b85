package ledger

import (
	"errors"
	"fmt"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
)

// The kinds of entries by which vendors are paid, which follow line 8.
const (
	VendorPaid      EntryKind = "vendor_paid"
	VendorCorrected EntryKind = "vendor_corrected"
)

// VendorOrphan is line 27 for a vendor, which is owed its cost.
func VendorOrphan(id ids.EntryID, request ids.RequestID, vendor ids.ProviderID, cost money.NanoUSD) Entry {
	return Entry{ID: id, Kind: OrphanPayout, BusinessID: request.String(), Postings: []Posting{
		debit(OrphanWork, nobody, cost), credit(VendorPayable, vendor, cost),
	}}
}

// VendorPayment follows line 8: the bank paid a vendor's invoice. Business id: the vendor and the number
// of its invoice.
func VendorPayment(fact Fact, vendor ids.ProviderID, amount money.NanoUSD) (Entry, error) {
	return move(VendorPaid, fact, amount, Account{Kind: VendorPayable, Owner: vendor}, Account{Kind: Bank})
}

// VendorCorrection follows line 8: a vendor's invoice asks for another amount than the count of the same
// service. The margin of usage bears the difference, because that margin is the list price less what
// vendors ask for. Business id: that of the payment.
func VendorCorrection(fact Fact, vendor ids.ProviderID, counted, invoiced money.NanoUSD) (Entry, error) {
	err := errors.Join(positive("count", counted), positive("invoice", invoiced))
	if err == nil && counted == invoiced {
		err = errors.New("the invoice asks for what was counted")
	}
	if err != nil {
		return Entry{}, fmt.Errorf("vendor correction: %w", err)
	}
	return compose(VendorCorrected, fact, credit(VendorPayable, vendor, invoiced-counted),
		debit(UsageMargin, nobody, invoiced-counted))
}
