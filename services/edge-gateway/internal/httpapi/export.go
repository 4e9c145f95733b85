package httpapi

import (
	"errors"
	"io"
	"net/http"

	"svc.internal/services/edge-gateway/internal/providerapi"
)

// exportEarnings streams a CSV. Its last piece is followed by the trailer with the number of rows. What breaks off has
// no trailer, and its connection is cut, so that no client takes a part for the whole.
func (h *Handler) exportEarnings(x *exchange) error {
	export, err := h.Provider.ExportEarnings(x.request.Context(), providerapi.Call{
		Method: x.request.Method, Header: x.request.Header, Query: x.request.URL.Query(),
		Path: x.request.URL.EscapedPath(), From: h.Addresses.Of(x.request),
	})
	if err != nil {
		return err
	}
	header := x.Header()
	header.Set("Content-Type", "text/csv; charset=utf-8")
	header.Set("Content-Disposition", `attachment; filename="`+export.Name+`"`)
	header.Set("Cache-Control", "no-store")
	header.Set("Trailer", providerapi.RowsTrailer)
	x.WriteHeader(http.StatusOK)
	for x.request.Method != http.MethodHead {
		piece, err := export.Next()
		if errors.Is(err, io.EOF) {
			header.Set(providerapi.RowsTrailer, export.Rows())
			return nil
		}
		if err == nil {
			h.setWriteDeadline(x)
			_, err = x.Write(piece)
		}
		if err == nil {
			err = x.control.Flush()
		}
		if err != nil {
			x.cut = true
			return err
		}
	}
	return nil
}
