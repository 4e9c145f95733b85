package apierror

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"svc.internal/pkg/openai"
)

// Form writes an error on routes whose clients read another form than OpenAI's. The
// caller has written nothing before.
type Form func(a Answer, w http.ResponseWriter, requestID string) error

// WriteFlat answers with the text itself as the member error, which is the form that
// clients of the routes of users read.
func (a Answer) WriteFlat(w http.ResponseWriter, requestID string) error {
	return a.write(w, struct {
		Error     string `json:"error"`
		Message   string `json:"message"`
		Code      string `json:"code"`
		Param     string `json:"param,omitempty"`
		RequestID string `json:"request_id"`
	}{a.Message, a.Message, a.Code, a.Param, requestID})
}

// WriteStatus answers a provider's status call. An agent takes any JSON without
// api_key_valid:true for a verdict on its key and never connects again. So a bad key is
// answered in JSON, and an error that passes (429 and 5xx) in plain text.
func (a Answer) WriteStatus(w http.ResponseWriter, requestID string) error {
	switch {
	case a.Status == http.StatusUnauthorized:
		return a.write(w, struct {
			APIKeyValid bool   `json:"api_key_valid"`
			CanConnect  bool   `json:"can_connect"`
			Status      string `json:"status"`
			Message     string `json:"message"`
			Code        string `json:"code"`
			RequestID   string `json:"request_id"`
		}{false, false, "unauthorized", a.Message, a.Code, requestID})
	case a.Status == http.StatusTooManyRequests, a.Status >= http.StatusInternalServerError:
		return a.WriteText(w, requestID)
	}
	return a.Write(w, requestID)
}

// WriteWrapped answers in the envelope of Anthropic's API, around the error object of all
// other routes of /v1.
func (a Answer) WriteWrapped(w http.ResponseWriter, requestID string) error {
	body := append([]byte(`{"type":"error",`), openai.AppendError(nil, a.Error, requestID)[1:]...)
	return a.send(w, "application/json", body)
}

// WriteText answers in plain text.
func (a Answer) WriteText(w http.ResponseWriter, _ string) error {
	return a.send(w, "text/plain; charset=utf-8", []byte(a.Message+"\n"))
}

func (a Answer) write(w http.ResponseWriter, value any) error {
	body, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode an error: %w", err)
	}
	return a.send(w, "application/json", body)
}

func (a Answer) send(w http.ResponseWriter, kind string, body []byte) error {
	h := w.Header()
	a.SetHeaders(h)
	h.Set("Content-Type", kind)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(a.Status)
	_, err := w.Write(body)
	return err
}
