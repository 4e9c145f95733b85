// Package stripetest is a server like Stripe's API on loopback, with state: pages, payments, what went
// back, subscriptions with their invoices, and events. It keeps the promises on which the adapter
// relies: one answer for an idempotency key with the same contents, and an error for other contents.
package stripetest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"svc.internal/pkg/clock"
)

// Key is an API key of the server.
const Key = "rk_test_of_the_scripted_server"

// object is an object of the API.
type object = map[string]any

// Server is the server. Its methods are what payers and banks do.
type Server struct {
	URL string

	clock   clock.Clock
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
	s := &Server{clock: clock.System, objects: map[string]object{}, kept: map[string]answer{}}
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	s.URL = h.URL
	return s
}

// fault is an error of the API. Its message has what no log may have.
func fault(status int, code string) (int, object) {
	return status, object{"error": object{"type": "invalid_request_error", "code": code,
		"message": "with key " + Key + " and card 4242424242424242"}}
}

// expandedLocked is an object with the objects that are asked for in the place of their ids.
func (s *Server) expandedLocked(o object, form url.Values) object {
	out := maps.Clone(o)
	for key, values := range form {
		if !strings.HasPrefix(key, "expand") {
			continue
		}
		for _, v := range values {
			s.expandLocked(out, strings.Split(strings.TrimPrefix(v, "data."), "."))
		}
	}
	return out
}

func (s *Server) expandLocked(o object, path []string) {
	id, isID := o[path[0]].(string)
	if !isID {
		return
	}
	inner := maps.Clone(s.objects[id])
	if len(path) > 1 && inner != nil {
		s.expandLocked(inner, path[1:])
	}
	o[path[0]] = inner
}

// putLocked keeps a new object.
func (s *Server) putLocked(prefix, kind string, o object) string {
	s.n++
	id := fmt.Sprintf("%s_%06d", prefix, s.n)
	o["id"], o["object"], o["created"], o["livemode"] = id, kind, s.clock.Now().Unix(), false
	s.objects[id] = o
	s.order = append(s.order, id)
	return id
}

// eventLocked keeps that something happened to an object.
func (s *Server) eventLocked(kind, id string) {
	s.putLocked("evt", "event", object{"type": kind, "data": object{"object": object{"id": id}}})
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
