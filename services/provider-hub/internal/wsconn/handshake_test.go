package wsconn

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/services/provider-hub/internal/quota"
)

// lender is an HTTP server that hands over its connection.
type lender struct {
	http.ResponseWriter
	conn net.Conn
}

func (l lender) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return l.conn, bufio.NewReadWriter(bufio.NewReader(l.conn), bufio.NewWriter(l.conn)), nil
}

func upgradeRequest(subprotocol string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/ws", nil)
	for name, value := range map[string]string{
		"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
		"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Protocol": subprotocol,
	} {
		r.Header.Set(name, value)
	}
	return r
}

func upgrader() *Upgrader {
	return NewUpgrader("ours", 10*time.Second, NewPool(quota.NewBudget(0), &Counts{}))
}

func TestUpgradeAgreesToItsSubprotocolAndThenKeepsWhatIsWritten(t *testing.T) {
	near, far := net.Pipe()
	defer far.Close()
	r := upgradeRequest("other, ours")
	if offers, upgrade := Offers(r); !upgrade {
		t.Error("upgrade of Offers(r): got false, want true")
	} else if !slices.Equal(offers, []string{"other", "ours"}) {
		t.Errorf("offers: got %q, want %q", offers, []string{"other", "ours"})
	}
	conns := make(chan *Conn)
	go func() {
		c, err := upgrader().Upgrade(lender{conn: near}, r, Config{Kind: Binary, WriteTimeout: time.Minute})
		if err != nil {
			t.Error(err)
		}
		conns <- c
	}()
	in := bufio.NewReader(far)
	answer, err := http.ReadResponse(in, r)
	if err != nil {
		t.Fatal(err)
	}
	if got := answer.Header.Get("Sec-WebSocket-Protocol"); answer.StatusCode != 101 {
		t.Errorf("answer.StatusCode: got %d, want 101", answer.StatusCode)
	} else if got != "ours" {
		t.Errorf(`answer.Header.Get(…): got %q, want "ours"`, got)
	}
	c := <-conns
	defer c.Close()
	if err := c.Message([]byte("a"), []byte("b"), "c"); err != nil { // nobody reads yet
		t.Fatal(err)
	}
	go func() { _ = c.Flush() }()
	got := make([]byte, 5)
	if _, err := io.ReadFull(in, got); err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if string(got) != "\x82\x03abc" {
		t.Errorf("written: got %q, want %q", string(got), "\x82\x03abc")
	}
}

func TestPeerThatDoesNotReadTheHandshakeHasItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		began := time.Now()
		_, err := upgrader().Upgrade(lender{conn: near}, upgradeRequest("ours"), Config{Kind: Binary})
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("got the error %v, want %v", err, os.ErrDeadlineExceeded)
		} else if time.Since(began) != 10*time.Second {
			t.Errorf("time.Since(began): got %v, want %v", time.Since(began), 10*time.Second)
		}
	})
}

func TestServerThatKeepsItsConnectionIsAnError(t *testing.T) {
	if _, err := upgrader().Upgrade(httptest.NewRecorder(), upgradeRequest("ours"), Config{}); err == nil {
		t.Error("an upgrade without a connection succeeds")
	}
}
