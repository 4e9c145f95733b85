package cheat

import (
	"bytes"
	"io"
	"net/http"
)

// Aborting passes requests on to an engine, and breaks the answers of those that hold a mark
// off in the middle. The mark is in what consumers ask and in no probe, so the cheat knows a
// probe for certain.
func Aborting(engine http.Handler, mark string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
		if err != nil {
			http.Error(w, "the body could not be read", http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if !bytes.Contains(body, []byte(mark)) {
			engine.ServeHTTP(w, r)
			return
		}
		whole := &answer{status: http.StatusOK, header: http.Header{}}
		engine.ServeHTTP(whole, r)
		for name, values := range whole.header {
			w.Header()[name] = values
		}
		w.WriteHeader(whole.status)
		_, _ = w.Write(whole.body.Bytes()[:whole.body.Len()/2]) // the client may have left
		_ = http.NewResponseController(w).Flush()               // so that the client has this half
		panic(http.ErrAbortHandler)
	})
}
