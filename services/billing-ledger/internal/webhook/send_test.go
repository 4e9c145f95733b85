package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"svc.internal/pkg/accountevent"
	"svc.internal/pkg/clock"
)

// bench sends to receivers on loopback.
type bench struct {
	sealer *Sealer
	sender *Sender
	turn   Turn
	secret Secret
}

func newBench(t *testing.T, resolver *net.Resolver, development bool) *bench {
	t.Helper()
	sealer, err := NewSealer(bytes.Repeat([]byte{7}, 32))
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{sealer: sealer, sender: NewSender(sealer, clock.NewManual(time.Unix(1_800_000_000, 0)), resolver, development)}
	b.turn = Turn{Endpoint: ID{1}, Attempt: 3, Message: Message{ID: accountevent.ID{2}, Kind: accountevent.PayoutConfirmed,
		At: time.Unix(1_790_000_000, 0), Data: []byte(`{"payout_id":"p"}`)}}
	var sealed []byte
	b.secret, sealed = sealer.make(b.turn.Endpoint)
	b.turn.Secrets = [][]byte{sealed}
	return b
}

func (b *bench) send(t *testing.T, url string) Result {
	t.Helper()
	b.turn.URL = url
	r, err := b.sender.Send(t.Context(), b.turn)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestAMessageIsSignedOverItsTimeAndItsBytesByEachSecret(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil, true)
	previous, sealed := b.sealer.make(b.turn.Endpoint)
	b.turn.Secrets = append(b.turn.Secrets, sealed)
	var body []byte
	var header http.Header
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ = io.ReadAll(r.Body)
		header = r.Header
		w.WriteHeader(http.StatusNoContent)
	}))
	defer server.Close()
	if r := b.send(t, server.URL+"/hook"); !r.Success() {
		t.Fatalf("result: got %+v, want a success", r)
	}
	want := `{"id":"02000000-0000-0000-0000-000000000000","type":"payout.confirmed",` +
		`"created_at":"2026-09-21T14:13:20Z","data":{"payout_id":"p"}}`
	if string(body) != want {
		t.Errorf("body: got %s, want %s", body, want)
	}
	signature := Sign(body, time.Unix(1_800_000_000, 0), []byte(b.secret.Reveal()), []byte(previous.Reveal()))
	if got := header.Get(SignatureHeader); got != signature {
		t.Errorf("signature: got %s, want %s", got, signature)
	}
	if n := strings.Count(signature, ",v1="); n != 2 {
		t.Errorf("signatures: got %d, want 2", n)
	}
	later := Sign(body, time.Unix(1_800_000_001, 0), []byte(b.secret.Reveal()))
	if strings.Contains(signature, strings.SplitN(later, ",", 2)[1]) {
		t.Error("another time has another signature: got the same, want another")
	}
	if header.Get("X-Svc-Delivery-Attempt") != "3" {
		t.Errorf("attempt: got %q, want 3", header.Get("X-Svc-Delivery-Attempt"))
	}
}

func TestASecretOpensForItsOwnEndpointOnly(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil, true)
	b.turn.Endpoint, b.turn.URL = ID{9}, "http://127.0.0.1:1/"
	if _, err := b.sender.Send(t.Context(), b.turn); !errors.Is(err, errSealed) {
		t.Errorf("got %v, want %v", err, errSealed)
	}
}

// Hostile: no receiver leads anywhere else, and none learns what stands on an address.
func TestARedirectIsAnAnswerAndIsNotFollowed(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil, true)
	var reached atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/inside" {
			reached.Store(true)
		}
		http.Redirect(w, r, "/inside", http.StatusTemporaryRedirect)
	}))
	defer server.Close()
	if r := b.send(t, server.URL); r != (Result{http.StatusTemporaryRedirect, BadStatus}) {
		t.Errorf("result: got %+v, want status 307 and the problem %s", r, BadStatus)
	}
	if reached.Load() {
		t.Error("the address behind it was asked: got true, want false")
	}
}

// A name that was public when it was stored may lead to loopback when it is dialled.
func TestANameThatLeadsInsideIsNotDialled(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer server.Close()
	for _, inside := range []string{"127.0.0.1", "10.0.0.7", "169.254.169.254", "100.100.100.200", "192.168.0.1"} {
		b := newBench(t, namesTo(t, netip.MustParseAddr(inside)), false)
		if r := b.send(t, "https://rebinding.example.org/hook"); r != (Result{Problem: BadAddress}) {
			t.Errorf("%s: result: got %+v, want the problem %s", inside, r, BadAddress)
		}
	}
	b := newBench(t, nil, false)
	for name, url := range refusals {
		if r := b.send(t, url); r != (Result{Problem: BadAddress}) {
			t.Errorf("%s: result: got %+v, want the problem %s", name, r, BadAddress)
		}
	}
	if r := b.send(t, server.URL); r != (Result{Problem: BadAddress}) {
		t.Errorf("loopback that was allowed once: result: got %+v, want the problem %s", r, BadAddress)
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("requests that came through: got %d, want 0", n)
	}
}

// Hostile: a receiver that never ends its answer has said its status, and is left.
func TestAnAnswerWithoutAnEndDecidesByItsStatus(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil, true)
	left := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusOK)
		for r.Context().Err() == nil {
			if _, err := w.Write(bytes.Repeat([]byte("x"), MaxAnswer)); err != nil {
				break
			}
		}
		close(left)
	}))
	defer server.Close()
	if r := b.send(t, server.URL); !r.Success() {
		t.Errorf("result: got %+v, want a success", r)
	}
	select {
	case <-left:
	case <-time.After(time.Minute):
		t.Error("the receiver was not left")
	}
}

func TestAReceiverThatSaysNothingIsATimeout(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil, true)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // or the server does not see that we leave
		<-r.Context().Done()
	}))
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	b.turn.URL = server.URL
	if r, err := b.sender.Send(ctx, b.turn); err != nil || r != (Result{Problem: Timeout}) {
		t.Errorf("result: got %+v, %v, want the problem %s", r, err, Timeout)
	}
}

func TestACertificateThatNobodyVouchesForIsAProblemOfTLS(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil, true)
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	server.Config.ErrorLog = nil
	if r := b.send(t, server.URL); r != (Result{Problem: BadTLS}) {
		t.Errorf("result: got %+v, want the problem %s", r, BadTLS)
	}
}

func TestTheBodyIsTheSameForEachTry(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil, true)
	first, err := b.turn.Message.Body()
	if err != nil {
		t.Fatal(err)
	}
	b.turn.Attempt++
	again, err := b.turn.Message.Body()
	if err != nil || !bytes.Equal(first, again) {
		t.Errorf("body: got %s, %v, want %s", again, err, first)
	}
	if !json.Valid(first) {
		t.Errorf("body: got %s, want JSON", first)
	}
}

// namesTo resolves every name to one IPv4 address.
func namesTo(t *testing.T, to netip.Addr) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		query := make([]byte, 1<<10)
		for {
			n, from, err := conn.ReadFrom(query)
			if err != nil {
				return
			}
			_, _ = conn.WriteTo(resolved(query[:n], to), from)
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

// resolved answers a query of DNS: with the address if it asks for an IPv4 address, and else
// with none.
func resolved(query []byte, to netip.Addr) []byte {
	const header, ipv4 = 12, 1
	end := header
	for end < len(query) && query[end] != 0 {
		end += 1 + int(query[end]) // a label behind its length
	}
	end += 1 + 4 // the end of the name, then the type and the class
	if end > len(query) {
		return nil
	}
	answer := append(append([]byte{}, query[:2]...), 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0)
	answer = append(answer, query[header:end]...)
	if query[end-4] == 0 && query[end-3] == ipv4 {
		answer[7] = 1
		answer = append(answer, 0xc0, header, 0, ipv4, 0, 1, 0, 0, 0, 0, 0, 4) // the name is the query's
		answer = append(answer, to.AsSlice()...)
	}
	return answer
}
