package httpapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"svc.internal/pkg/serve"

	"svc.internal/services/edge-gateway/internal/export"
	"svc.internal/services/edge-gateway/internal/providerapi"
)

// exportEarnings streams a provider's lines.
func (h *Handler) exportEarnings(x *exchange) error {
	e, err := h.Provider.ExportEarnings(x.request.Context(), providerapi.Call{
		Method: x.request.Method, Header: x.request.Header, Query: x.request.URL.Query(),
		Path: x.request.URL.EscapedPath(), From: h.Addresses.Of(x.request),
	})
	if err != nil {
		return err
	}
	return h.sendExport(x, e)
}

// sendExport streams a CSV. Its last piece is followed by the trailer with the number of rows. What breaks off has no
// trailer, and its connection is cut, so that no client takes a part for the whole. A client that does not take a piece
// within the time of one write is dropped, and so is every client when the gateway stops: it asks again.
func (h *Handler) sendExport(x *exchange, e *export.Export) error {
	header := x.Header()
	header.Set("Content-Type", "text/csv; charset=utf-8")
	header.Set("Content-Disposition", `attachment; filename="`+e.Name+`"`)
	header.Set("Cache-Control", "no-store")
	header.Set("Trailer", export.RowsTrailer)
	stop := serve.Stopping(x.request.Context())
	// This ends a write to a client that takes nothing.
	defer context.AfterFunc(stop, func() { _ = x.control.SetWriteDeadline(time.Unix(1, 0)) })()
	x.WriteHeader(http.StatusOK)
	for x.request.Method != http.MethodHead {
		piece, err := e.Next()
		if errors.Is(err, io.EOF) {
			header.Set(export.RowsTrailer, e.Rows())
			return nil
		}
		if err == nil {
			h.setWriteDeadline(x)
			err = writeUnless(stop, x, piece)
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

// writeUnless writes, unless the server stops. It looks after the deadline of the write is set, because the stop sets
// another one.
func writeUnless(stop context.Context, x *exchange, piece []byte) error {
	if stop.Err() != nil {
		return serve.ErrStopping
	}
	_, err := x.Write(piece)
	return err
}
