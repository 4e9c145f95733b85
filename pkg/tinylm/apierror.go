package tinylm

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// apiError is a failure as the API shows it.
type apiError struct {
	status  int
	message string
	kind    string // "type" in the body
	param   string // "" is written as null
	code    string // "" is written as null
}

const invalidRequest = "invalid_request_error"

// invalid is the error for a parameter whose value is not allowed.
func invalid(param, format string, args ...any) *apiError {
	return &apiError{http.StatusBadRequest, fmt.Sprintf(format, args...), invalidRequest, param, "invalid_value"}
}

// missing is the error for a required parameter that the request lacks.
func missing(param string) *apiError {
	return &apiError{http.StatusBadRequest, "missing required parameter: " + param, invalidRequest, param,
		"missing_required_parameter"}
}

func unknownModel(name, known string) *apiError {
	return &apiError{http.StatusNotFound, fmt.Sprintf("the model %q does not exist here; this server has only %q", name,
		known), invalidRequest, "model", "model_not_found"}
}

func tooLarge() *apiError {
	return &apiError{http.StatusRequestEntityTooLarge, fmt.Sprintf("the request body is larger than %d bytes",
		maxBodyBytes), invalidRequest, "", "request_too_large"}
}

func tooBusy(limit int) *apiError {
	return &apiError{http.StatusTooManyRequests, fmt.Sprintf("already writing %d answers at once; try again", limit),
		"rate_limit_error", "", "rate_limit_exceeded"}
}

// write sends e as the whole response.
func (e *apiError) write(w http.ResponseWriter) {
	if e.status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	type body struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    *string `json:"code"`
	}
	writeJSON(w, e.status, map[string]body{"error": {e.message, e.kind, orNull(e.param), orNull(e.code)}})
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// writeJSON sends a whole JSON response. It ignores a failed write, because the
// client has then closed the connection.
func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}
