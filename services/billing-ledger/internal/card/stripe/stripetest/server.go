// Package stripetest is a server like Stripe's API on loopback, with state: pages, payments, what went
// back, subscriptions with their invoices, and events. It keeps the promises on which the adapter
// relies: one answer for an idempotency key with the same contents, and an error for other contents.
package stripetest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Key is an API key of the server.
const Key = "rk_test_of_the_scripted_server"

// object is an object of the API.
type object = map[string]any

// Server is the server. Its methods are what payers and banks do.
type Server struct {
	URL string

	mu      sync.Mutex
	n       int
	objects map[string]object // by id, whatever they are
	order   []string          // ids, the oldest first
	kept    map[string]answer // by idempotency key
	// Lose answers 500 to the next POST that was done. Silent never answers.
	Lose, Silent bool
	// Calls counts requests.
	Calls int
}

type answer struct {
	form   string
	status int
	body   object
}

// New starts a server that ends with the test.
func New(t testing.TB) *Server {
	s := &Server{objects: map[string]object{}, kept: map[string]answer{}}
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	s.URL = h.URL
	return s
}

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
	status, body := s.locked(r)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // whoever left does not read it
}

func (s *Server) locked(r *http.Request) (int, object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answer(r)
}

// fault is an error of the API. Its message has what no log may have.
func fault(status int, code string) (int, object) {
	return status, object{"error": object{"type": "invalid_request_error", "code": code,
		"message": "with key " + Key + " and card 4242424242424242"}}
}

func (s *Server) answer(r *http.Request) (int, object) {
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
	status, body := s.route(r)
	if r.Method == http.MethodPost && key != "" && status == http.StatusOK {
		s.kept[key] = answer{form, status, body}
	}
	if s.Lose && r.Method == http.MethodPost {
		s.Lose = false
		return http.StatusInternalServerError, object{"error": object{"type": "api_error", "message": "lost"}}
	}
	return status, body
}

func (s *Server) route(r *http.Request) (int, object) {
	path := strings.TrimPrefix(r.URL.Path, "/v1/")
	kind, id, one := strings.Cut(path, "/")
	if kind == "checkout" {
		kind, id, one = strings.Cut(strings.TrimPrefix(path, "checkout/"), "/")
	}
	if !one {
		if r.Method == http.MethodGet {
			return http.StatusOK, s.list(kind, r.Form)
		}
		switch kind {
		case "sessions":
			return http.StatusOK, s.makeSession(r.PostForm)
		case "refunds":
			return s.makeRefund(r.PostForm)
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
		s.event("customer.subscription.deleted", id)
	case r.Method == http.MethodPost:
		found["cancel_at_period_end"] = r.PostForm.Get("cancel_at_period_end") == "true"
	}
	return http.StatusOK, s.expanded(found, r.Form)
}

// expanded is an object with the objects that are asked for in the place of their ids.
func (s *Server) expanded(o object, form url.Values) object {
	out := maps.Clone(o)
	for key, values := range form {
		if !strings.HasPrefix(key, "expand") {
			continue
		}
		for _, v := range values {
			s.expand(out, strings.Split(strings.TrimPrefix(v, "data."), "."))
		}
	}
	return out
}

func (s *Server) expand(o object, path []string) {
	id, isID := o[path[0]].(string)
	if !isID {
		return
	}
	inner := maps.Clone(s.objects[id])
	if len(path) > 1 && inner != nil {
		s.expand(inner, path[1:])
	}
	o[path[0]] = inner
}

// kinds are the kinds of objects by the names of their lists.
var kinds = map[string]string{"refunds": "refund", "disputes": "dispute", "invoices": "invoice",
	"invoice_payments": "invoice_payment", "events": "event"}

func (s *Server) list(kind string, form url.Values) object {
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
		data = append(data, s.expanded(o, form))
	}
	return object{"object": "list", "url": "/v1/" + kind, "has_more": false, "data": append([]object{}, data...)}
}

// put keeps a new object.
func (s *Server) put(prefix, kind string, o object) string {
	s.n++
	id := fmt.Sprintf("%s_%06d", prefix, s.n)
	o["id"], o["object"], o["created"], o["livemode"] = id, kind, time.Now().Unix(), false
	s.objects[id] = o
	s.order = append(s.order, id)
	return id
}

// event keeps that something happened to an object.
func (s *Server) event(kind, id string) {
	s.put("evt", "event", object{"type": kind, "data": object{"object": object{"id": id}}})
}

// Events are the events since the server started, the oldest first, as webhooks send them.
func (s *Server) Events(t testing.TB) [][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out [][]byte
	for _, id := range s.order {
		if o := s.objects[id]; o["object"] == "event" {
			body, err := json.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, body)
		}
	}
	return out
}

// Change changes an object.
func (s *Server) Change(id string, change func(o map[string]any)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s.objects[id])
}
