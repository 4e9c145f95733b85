package flow_test

import (
	"crypto/tls"
	"crypto/x509"
	"net/http/httptest"
	"strings"
	"testing"

	"svc.internal/services/verifier/internal/flow"
)

// Over TLS each client speaks the version of HTTP that it speaks, and none trusts a
// stranger.
func TestClientsSpeakTheirHTTPOverTLS(t *testing.T) {
	t.Parallel()
	w := setup(t)
	server := httptest.NewUnstartedServer(w.edge)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	public, err := flow.NewEdge(server.URL, &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, secret)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(public.Close)
	w.deps.Edge = public
	w.build()
	w.edge.says(200, "", "") // nothing to be scored
	for n := range 40 {
		w.run(plan(n))
		r := w.edge.seen[len(w.edge.seen)-1]
		agent := r.Header.Get("User-Agent")
		want := 2
		if strings.HasPrefix(agent, "OpenAI/") {
			want = 1
		}
		if r.ProtoMajor != want {
			t.Errorf("%q: got HTTP/%d, want HTTP/%d", agent, r.ProtoMajor, want)
		}
	}
	stranger, err := flow.NewEdge(server.URL, nil, secret)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stranger.Close)
	w.deps.Edge = stranger
	w.build()
	w.wantBack(plan(1), flow.PlatformDown)
}
