package httpapi

import (
	"context"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"

	"svc.internal/services/edge-gateway/internal/apierror"
	"svc.internal/services/edge-gateway/internal/export"
)

// receiptTimeout bounds the look-up of one receipt or document.
const receiptTimeout = 10 * time.Second

// maxParameter bounds a parameter of an export in bytes: a model's id is the longest.
const maxParameter = 255

// parameters reads the parameters of a query, of which each stands for itself. Another
// parameter, and one that is given twice, is refused.
func parameters(q url.Values, into map[string]*string) error {
	for name, values := range q {
		field, known := into[name]
		switch {
		case !known:
			return fault.New(fault.Invalid, fault.InvalidRequest, "The query has a parameter that this route does not take.")
		case len(values) > 1 || !utf8.ValidString(values[0]) || len(values[0]) > maxParameter:
			return fault.New(fault.Invalid, fault.InvalidValue, "%s must be given once, with at most %d bytes", name,
				maxParameter).On(name)
		}
		*field = values[0]
	}
	return nil
}

// accountOf returns the account of the user whose session token the request carries.
func (h *Handler) accountOf(x *exchange) (string, error) {
	in, err := h.Provider.SignedIn(x.request.Context(), x.request.Header, h.Addresses.Of(x.request))
	if err != nil {
		return "", err
	}
	return in.GetUser().GetAccountId(), nil
}

// exportLedger streams the lines of the caller's ledger.
func (h *Handler) exportLedger(x *exchange) error {
	account, err := h.accountOf(x)
	if err != nil {
		return err
	}
	req := &billingv1.ExportLedgerRequest{AccountId: account}
	if err := parameters(x.request.URL.Query(), map[string]*string{"from": &req.From, "to": &req.To,
		"kind": &req.Kind}); err != nil {
		return err
	}
	stream, err := h.Passbooks.ExportLedger(x.request.Context(), req)
	if err != nil {
		return apierror.OfPeer(err)
	}
	e, err := export.New("ledger.csv", stream, apierror.OfPeer)
	if err != nil {
		return err
	}
	return h.sendExport(x, e)
}

// exportUsage streams the settled requests of the caller.
func (h *Handler) exportUsage(x *exchange) error {
	account, err := h.accountOf(x)
	if err != nil {
		return err
	}
	req := &billingv1.ExportUsageRequest{AccountId: account}
	if err := parameters(x.request.URL.Query(), map[string]*string{"from": &req.From, "to": &req.To, "key": &req.Key,
		"model": &req.Model}); err != nil {
		return err
	}
	stream, err := h.Passbooks.ExportUsage(x.request.Context(), req)
	if err != nil {
		return apierror.OfPeer(err)
	}
	e, err := export.New("usage.csv", stream, apierror.OfPeer)
	if err != nil {
		return err
	}
	return h.sendExport(x, e)
}

// pageSuffix behind a document's number asks for the page to print.
const pageSuffix = ".html"

// document serves a receipt, an invoice or a credit note as JSON, or as a page.
func (h *Handler) document(x *exchange) error {
	number, page := strings.CutSuffix(path.Base(x.request.URL.Path), pageSuffix)
	if !page {
		return h.asUser(x)
	}
	account, err := h.accountOf(x)
	if err != nil {
		return err
	}
	if !slices.Contains(documentsOf[path.Base(path.Dir(x.request.URL.Path))], number[:min(len(number), 2)]) {
		return fault.New(fault.NotFound, fault.DocumentNotFound, "There is no such document.")
	}
	ctx, cancel := context.WithTimeout(x.request.Context(), receiptTimeout)
	defer cancel()
	resp, err := h.Passbooks.GetDocumentPage(ctx, &billingv1.GetDocumentPageRequest{AccountId: account,
		Number: number})
	if err != nil {
		return apierror.OfPeer(err)
	}
	header := x.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Security-Policy", resp.GetContentSecurityPolicy())
	header.Set("Cache-Control", "no-store")
	header.Set("Referrer-Policy", "no-referrer")
	h.answer(x, http.StatusOK, resp.GetHtml())
	return nil
}

// documentsOf are the series of the documents of a route.
var documentsOf = map[string][]string{"receipts": {"R-"}, "invoices": {"I-", "C-"}}
