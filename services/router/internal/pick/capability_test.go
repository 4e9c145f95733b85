package pick

import (
	"testing"

	"svc.internal/services/router/internal/presence"
)

// Each kind of request goes only to nodes that declare it, and a large form only
// to nodes that take a body of its size.
func TestRequestsGoOnlyToNodesWithTheirEndpoint(t *testing.T) {
	has := func(n int, bytes int64, capabilities ...string) presence.Session {
		return session(n, func(s *presence.Session) {
			s.Capabilities, s.MaxRequestBytes, s.Offers[0].Capacity = capabilities, bytes, 1000
		})
	}
	b := setup()
	b.report("hub",
		has(1, 10<<20, "chat", "stream", "embeddings"), has(2, 10<<20, "images", "stream"), has(3, 10<<20, "images"),
		has(4, 10<<20, "transcriptions"), has(5, 26<<20, "stream", "transcriptions"))
	for name, c := range map[string]struct {
		required []string
		bytes    int64
		want     []int
	}{
		"embeddings":              {[]string{"embeddings"}, 1000, []int{1}},
		"images":                  {[]string{"images"}, 1000, []int{2, 3}},
		"images, streamed":        {[]string{"images", "stream"}, 1000, []int{2}},
		"transcriptions":          {[]string{"transcriptions"}, 10 << 20, []int{4, 5}},
		"a large form":            {[]string{"transcriptions"}, 26 << 20, []int{5}},
		"transcriptions streamed": {[]string{"transcriptions", "stream"}, 1000, []int{5}},
	} {
		seen := map[string]bool{}
		for range 64 {
			choice, err := b.Select(t.Context(), b.request(func(r *Request) {
				r.Capabilities, r.BodyBytes = c.required,
					c.bytes
			}))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			for _, provider := range chosen(choice) {
				seen[provider] = true
			}
		}
		for _, n := range c.want {
			if !seen[id(n)] {
				t.Errorf("%s: provider %d is never asked", name, n)
			}
		}
		if len(seen) != len(c.want) {
			t.Errorf("%s: got %d providers asked, want %v", name, len(seen), c.want)
		}
	}
}
