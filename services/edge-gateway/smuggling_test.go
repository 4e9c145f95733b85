package edgegateway

import (
	"io"
	"net"
	"strings"
	"testing"
)

// A front that goes by Content-Length and a server that goes by chunks differ
// over where a request ends. What follows the chunks is no request here.
func TestNothingBehindABodyInChunksIsARequest(t *testing.T) {
	f := connectFleet(t, overSockets).start()
	conn, err := net.Dial("tcp", strings.TrimPrefix(f.base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const smuggled = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
	_, err = io.WriteString(conn,
		"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 43\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"+smuggled)
	if err != nil {
		t.Fatal(err)
	}
	answers, err := io.ReadAll(conn)
	if got := strings.Count(string(answers), "HTTP/1.1 "); err != nil || got != 1 ||
		!strings.Contains(string(answers), "Connection: close") {
		t.Errorf("got %d answers, %v; want 1 and the connection closed: %s", got, err, answers)
	}
}

// net/http drops the Transfer-Encoding of a client of HTTP/1.0 and would take its
// chunks for the next request.
func TestARequestOfHTTP10IsTheLastOfItsConnection(t *testing.T) {
	w := newWire(t)
	for _, head := range []string{"", "Transfer-Encoding: chunked\r\n", "Content-Length: 0\r\n"} {
		got := w.send(t, []byte("POST /v1/chat/completions HTTP/1.0\r\nConnection: keep-alive\r\n"+head+"\r\n"+hidden))
		if len(got) != 1 {
			t.Errorf("%q: got the requests %q, want the first alone", head, got)
		}
	}
}
