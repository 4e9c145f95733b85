package stripetest

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// ServeHTTP answers the API.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	silent := s.Silent
	s.mu.Unlock()
	if silent {
		<-r.Context().Done()
		return
	}
	if err := r.ParseForm(); err != nil {
		http.Error(w, "form", http.StatusBadRequest)
		return
	}
	status, body := s.serve(r)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // whoever left does not read it
}

func (s *Server) serve(r *http.Request) (int, object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answerLocked(r)
}

func (s *Server) answerLocked(r *http.Request) (int, object) {
	s.Calls++
	if r.Header.Get("Authorization") != "Bearer "+Key {
		return fault(http.StatusUnauthorized, "api_key_invalid")
	}
	key, form := r.Header.Get("Idempotency-Key"), r.PostForm.Encode()
	if first, ok := s.kept[key]; ok && r.Method == http.MethodPost && key != "" {
		if first.form != form {
			return fault(http.StatusBadRequest, "idempotency_key_in_use")
		}
		return first.status, first.body
	}
	status, body := s.routeLocked(r)
	if r.Method == http.MethodPost && key != "" && status == http.StatusOK {
		s.kept[key] = answer{form, status, body}
	}
	if s.Lose && r.Method == http.MethodPost {
		s.Lose = false
		return http.StatusInternalServerError, object{"error": object{"type": "api_error", "message": "lost"}}
	}
	return status, body
}

func (s *Server) routeLocked(r *http.Request) (int, object) {
	path := strings.TrimPrefix(r.URL.Path, "/v1/")
	kind, id, one := strings.Cut(path, "/")
	if kind == "checkout" {
		kind, id, one = strings.Cut(strings.TrimPrefix(path, "checkout/"), "/")
	}
	if !one {
		if r.Method == http.MethodGet {
			return http.StatusOK, s.listLocked(kind, r.Form)
		}
		switch kind {
		case "sessions":
			return http.StatusOK, s.makeSessionLocked(r.PostForm)
		case "refunds":
			return s.makeRefundLocked(r.PostForm)
		}
		return fault(http.StatusNotFound, "resource_missing")
	}
	found, ok := s.objects[id]
	if !ok {
		return fault(http.StatusNotFound, "resource_missing")
	}
	switch {
	case r.Method == http.MethodDelete && found["status"] == "canceled":
		return fault(http.StatusNotFound, "resource_missing")
	case r.Method == http.MethodDelete:
		found["status"] = "canceled"
		s.eventLocked("customer.subscription.deleted", id)
	case r.Method == http.MethodPost:
		found["cancel_at_period_end"] = r.PostForm.Get("cancel_at_period_end") == "true"
	}
	return http.StatusOK, s.expandedLocked(found, r.Form)
}

// kinds are the kinds of objects by the names of their lists.
var kinds = map[string]string{"refunds": "refund", "disputes": "dispute", "invoices": "invoice",
	"invoice_payments": "invoice_payment", "events": "event"}

func (s *Server) listLocked(kind string, form url.Values) object {
	var data []object
	limit, _ := strconv.Atoi(cmp.Or(form.Get("limit"), "10"))
	after := form.Get("starting_after")
	since, _ := strconv.ParseInt(form.Get("created[gte]"), 10, 64)
	for _, id := range slices.Backward(s.order) {
		o := s.objects[id]
		if after != "" {
			if id == after {
				after = ""
			}
			continue
		}
		payment := cmp.Or(form.Get("payment_intent"), form.Get("payment[payment_intent]"))
		if o["object"] != kinds[kind] || payment != "" && o["payment_intent"] != payment && o["of_payment"] != payment ||
			form.Get("subscription") != "" && o["of_subscription"] != form.Get("subscription") || o["created"].(int64) < since {
			continue
		}
		if len(data) == limit {
			return object{"object": "list", "url": "/v1/" + kind, "has_more": true, "data": data}
		}
		data = append(data, s.expandedLocked(o, form))
	}
	return object{"object": "list", "url": "/v1/" + kind, "has_more": false, "data": append([]object{}, data...)}
}
