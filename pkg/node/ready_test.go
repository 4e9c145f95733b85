package node

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"svc.internal/pkg/serve"
)

func TestReadyEndsAsTheProcessAnswers(t *testing.T) {
	var fault error
	server := httptest.NewServer(serve.AdminHandler(http.NotFoundHandler(),
		func(context.Context) error { return fault }, false))
	t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		fault error
		code  int
		says  string
	}{
		{nil, 0, ""},
		{errors.New("the database is gone"), 1, "the database is gone"},
	} {
		// A process that listens everywhere is asked on loopback.
		for _, address := range []string{"127.0.0.1:" + port, "0.0.0.0:" + port, ":" + port} {
			fault = test.fault
			var out, errs bytes.Buffer
			p := &program{Config: DefaultConfig()}
			code := run(t.Context(), "svc", []string{"ready"}, []string{"SVC_METRICS_ADDR=" + address}, p, &out, &errs)
			if code != test.code {
				t.Errorf("%s, %v: exit: got %d, want %d", address, test.fault, code, test.code)
			}
			if !strings.Contains(errs.String(), test.says) {
				t.Errorf("%s, %v: got %q, want %q in it", address, test.fault, errs.String(), test.says)
			}
		}
	}
}
