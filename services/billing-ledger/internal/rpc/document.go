package rpc

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/ids"
	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/billing-ledger/internal/document"
	"svc.internal/services/billing-ledger/internal/passbook"
)

// documentLists are the lists of the series.
var documentLists = map[document.Series]passbook.List{
	document.Receipt: passbook.Receipts, document.Invoice: passbook.Invoices, document.CreditNote: passbook.CreditNotes,
}

// documents lists documents of the caller.
func (s *Passbooks) documents(
	ctx context.Context, of document.Series, limit int32, cursor string,
) (shown []*billingv1.Document, next string, err error) {
	id, w, err := s.walk(ctx, documentLists[of], limit, cursor)
	if err != nil {
		return nil, "", err
	}
	list, err := s.Documents.Documents(ctx, id, of, w)
	if err != nil {
		return nil, "", err
	}
	list, next = page(s, documentLists[of], id, w, list, func(d document.Document) passbook.Place {
		return passbook.Place{At: d.At, N: int32(d.N)}
	})
	for _, d := range list {
		shown = append(shown, documentToProto(d))
	}
	return shown, next, nil
}

// ListCreditReceipts lists receipts.
func (s *Passbooks) ListCreditReceipts(
	ctx context.Context, req *billingv1.ListCreditReceiptsRequest,
) (*billingv1.ListCreditReceiptsResponse, error) {
	list, next, err := s.documents(ctx, document.Receipt, req.GetLimit(), req.GetCursor())
	if err != nil {
		return nil, err
	}
	return &billingv1.ListCreditReceiptsResponse{Receipts: list, NextCursor: next}, nil
}

// ListInvoices lists invoices or credit notes.
func (s *Passbooks) ListInvoices(
	ctx context.Context, req *billingv1.ListInvoicesRequest,
) (*billingv1.ListInvoicesResponse, error) {
	of := document.Invoice
	if req.GetCreditNotes() {
		of = document.CreditNote
	}
	list, next, err := s.documents(ctx, of, req.GetLimit(), req.GetCursor())
	if err != nil {
		return nil, err
	}
	return &billingv1.ListInvoicesResponse{Invoices: list, NextCursor: next}, nil
}

// GetCreditReceipt reads a receipt.
func (s *Passbooks) GetCreditReceipt(
	ctx context.Context, req *billingv1.GetCreditReceiptRequest,
) (*billingv1.GetCreditReceiptResponse, error) {
	d, err := s.document(ctx, req.GetNumber(), document.Receipt)
	if err != nil {
		return nil, err
	}
	return &billingv1.GetCreditReceiptResponse{Receipt: d}, nil
}

// GetInvoice reads an invoice or a credit note.
func (s *Passbooks) GetInvoice(
	ctx context.Context, req *billingv1.GetInvoiceRequest,
) (*billingv1.GetInvoiceResponse, error) {
	d, err := s.document(ctx, req.GetNumber(), document.Invoice, document.CreditNote)
	if err != nil {
		return nil, err
	}
	return &billingv1.GetInvoiceResponse{Invoice: d}, nil
}

func (s *Passbooks) document(ctx context.Context, number string, of ...document.Series) (*billingv1.Document, error) {
	id, err := ofUser(ctx)
	if err != nil {
		return nil, err
	}
	d, err := documentOf(ctx, s.Documents, id, number, of...)
	if err != nil {
		return nil, err
	}
	return documentToProto(d), nil
}

func documentToProto(d document.Document) *billingv1.Document {
	b := d.Body
	m := &billingv1.Document{
		Number: d.String(), Title: d.Title(), At: timestamppb.New(d.At), Month: b.Month, RefersTo: b.Refers,
		Seller: &billingv1.DocumentParty{Name: b.Seller.Name, Address: b.Seller.Address, Email: b.Seller.Email,
			TaxId: b.Seller.TaxID},
		Buyer:       &billingv1.DocumentParty{Name: b.Buyer.Name, Email: b.Buyer.Email, AccountId: b.Buyer.Account.String()},
		TotalUsdStr: b.Total.String(), Notes: b.Notes, EntryId: entryText(d.Entry),
	}
	for _, l := range b.Lines {
		m.Lines = append(m.Lines, &billingv1.DocumentLine{Text: l.Text, Detail: l.Detail, AmountUsdStr: l.Amount.String()})
	}
	if t := b.Tax; t != nil {
		m.Tax = &billingv1.DocumentTax{Name: t.Name, PercentStr: t.Percent, AmountUsdStr: t.Amount.String()}
	}
	return m
}

// entryText is empty for no entry.
func entryText(id ids.EntryID) string {
	if id.IsZero() {
		return ""
	}
	return id.String()
}
