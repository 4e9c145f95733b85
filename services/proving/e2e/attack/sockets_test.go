package attack

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/fakeengine"
	"svc.internal/services/proving/internal/trial"
)

// sockets are the holes below HTTP: F15, F22 and smuggling.
func sockets() []Case {
	return []Case{
		{Hole: "F15", Name: "body_without_a_key", Before: "the gateway reads on for a minute", Run: bodyWithoutKey},
		{Hole: "F15", Name: "connections_without_end", Before: "5,000 of 5,000 taken", Long: true, Run: manyConnections},
		{Hole: "F22", Name: "length_and_chunks", Before: "served, by the chunks", Run: smuggle(
			"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", chunked, 200, 400)},
		{Hole: "F22", Name: "chunks_and_length", Before: "served, by the chunks", Run: smuggle(
			"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", chunked, 200, 400)},
		{Hole: "T16", Name: "two_lengths", Before: "400", Run: smuggle("Content-Length: 5\r\nContent-Length: 6\r\n", "hello!",
			400)},
		{Hole: "T16", Name: "folded_encoding", Before: "served, by the chunks",
			Run: smuggle("Transfer-Encoding:\r\n chunked\r\n", chunked, 200, 400)},
		{Hole: "T16", Name: "odd_encoding", Before: "501", Run: smuggle("Transfer-Encoding: xchunked\r\n", "0\r\n\r\n", 400,
			501)},
		{Hole: "T16", Name: "doubled_encoding", Before: "501 or 400",
			Run: smuggle("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n", 400, 501)},
		{Hole: "T16", Name: "space_before_colon", Before: "400", Run: smuggle("Content-Length : 5\r\n", "hello", 400)},
		{Hole: "T16", Name: "signed_length", Before: "400", Run: smuggle("Content-Length: +5\r\n", "hello", 400)},
		{Hole: "T16", Name: "chunk_extension_as_a_request", Before: "one answer", Run: chunkExtension},
		{Hole: "T16", Name: "h2c_upgrade", Before: "no upgrade", Run: h2cUpgrade},
		{Hole: "T16", Name: "headers_without_end", Before: "431", Run: manyHeaders},
		{Hole: "IN_USE", Name: "half_closed_client", Before: "200 with Content-Length 0", Run: halfClosed},
	}
}

// raw opens a socket to the public API.
func (s *stage) raw(t testing.TB) net.Conn {
	t.Helper()
	conn, err := net.DialTimeout("tcp", s.host(), 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// statuses reads all answers of a connection to its end and reports whether the
// server closed it.
func statuses(conn net.Conn) (codes []int, closed bool) {
	in := bufio.NewReader(conn)
	for {
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			var timeout net.Error
			return codes, !asTimeout(err, &timeout) || !timeout.Timeout()
		}
		codes = append(codes, resp.StatusCode)
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
}

func asTimeout(err error, to *net.Error) bool {
	n, ok := err.(net.Error) //nolint:errorlint // a deadline is not wrapped by the reader
	if ok {
		*to = n
	}
	return ok
}

// chunked is the body of a chat that an engine would answer, in chunks.
const chunked = "CHUNKED"

// smuggle sends a request with doubtful framing and a second one behind it, which must
// not be answered. Where only the chunks are read (net/http hides the length), nothing
// behind them is read.
func smuggle(framing, content string, want ...int) func(t testing.TB, s *stage) Outcome {
	return func(t testing.TB, s *stage) Outcome {
		body := content
		_, key := s.caller(t)
		if body == chunked {
			id, _, _ := s.served(t, model{}, fakeengine.Behaviour{})
			chat := trial.Chat(id, "")
			body = fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(chat), chat)
		}
		conn := s.raw(t)
		fmt.Fprintf(conn,
			"POST %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n%s\r\n%s"+
				"GET /v1/models HTTP/1.1\r\nHost: %s\r\n\r\n", trial.ChatPath, s.host(), key, framing, body, s.host())
		if err := conn.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
			t.Fatal(err)
		}
		codes, closed := statuses(conn)
		ok := len(codes) == 1 && closed
		if ok {
			ok = false
			for _, w := range want {
				ok = ok || codes[0] == w
			}
		}
		if !ok {
			t.Errorf("got answers %v, closed=%v, want one of %v and the connection closed", codes, closed, want)
		}
		return Outcome{Got: fmt.Sprint(codes), Paid: "nothing", Harm: "none"}
	}
}

// chunkExtension hides a request in the extension of the last chunk. A reader that ends
// the line of a chunk at a bare LF takes it for the next request.
func chunkExtension(t testing.TB, s *stage) Outcome {
	id, engine, _ := s.served(t, model{}, fakeengine.Behaviour{})
	_, key := s.caller(t)
	body := trial.Chat(id, "")
	head := fmt.Sprintf(
		"POST %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n"+
			"Transfer-Encoding: chunked\r\n\r\n",
		trial.ChatPath, s.host(), key)
	conn := s.raw(t)
	fmt.Fprintf(conn, "%s%x\r\n%s\r\n0;a=\"\n\r\nGET /v1/models HTTP/1.1\r\nHost: %s\r\n\r\n\"\r\n\r\n", head, len(body),
		body, s.host())
	codes, closed := statuses(conn)
	if len(codes) > 1 || !closed || len(engine.Requests()) > 1 {
		t.Errorf("got answers %v, want one at most and the connection closed", codes)
	}
	// A long extension is refused, too, before an otherwise good request.
	long := s.raw(t)
	fmt.Fprintf(long, "%s%x;%s\r\n%s\r\n0\r\n\r\n", head, len(body), strings.Repeat("e", 1<<20), body)
	more, closed := statuses(long)
	for _, code := range more {
		if code == http.StatusOK {
			t.Errorf("an extension of 1 MiB: got %v, want a refusal", more)
		}
	}
	if !closed {
		t.Errorf("an extension of 1 MiB: the connection is kept")
	}
	return Outcome{Got: fmt.Sprint(codes, more), Paid: "nothing", Harm: "none"}
}

func h2cUpgrade(t testing.TB, s *stage) Outcome {
	conn := s.raw(t)
	fmt.Fprintf(conn,
		"GET /v1/models HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"+
			"HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n", s.host())
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode == http.StatusSwitchingProtocols {
		t.Errorf("got 101, want no upgrade")
	}
	prior := s.raw(t)
	fmt.Fprint(prior, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
	frame := make([]byte, 9)
	if _, err := io.ReadFull(prior, frame); err == nil && frame[3] == 4 {
		t.Errorf("got a SETTINGS frame for a prior-knowledge preface, want HTTP/1.1 alone")
	}
	return Outcome{Got: fmt.Sprint(resp.StatusCode), Paid: "nothing", Harm: "none"}
}

// manyHeaders sends 100,000 headers.
func manyHeaders(t testing.TB, s *stage) Outcome {
	conn := s.raw(t)
	go func() {
		w := bufio.NewWriter(conn)
		fmt.Fprintf(w, "GET /v1/models HTTP/1.1\r\nHost: %s\r\n", s.host())
		for i := range 100_000 {
			if _, err := fmt.Fprintf(w, "X-H%d: v\r\n", i); err != nil {
				return
			}
		}
		fmt.Fprint(w, "\r\n")
		_ = w.Flush()
	}()
	codes, closed := statuses(conn)
	if len(codes) > 0 && codes[0] < 400 || !closed {
		t.Errorf("got %v, closed=%v, want a refusal and the connection closed", codes, closed)
	}
	return Outcome{Got: fmt.Sprint(codes), Paid: "nothing", Harm: "none"}
}

// bodyWithoutKey announces a body, has no key and sends no more. A gateway that
// waits for the body waits until its timeout.
func bodyWithoutKey(t testing.TB, s *stage) Outcome {
	conn := s.raw(t)
	began := time.Now()
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: 200000\r\n\r\n{",
		trial.ChatPath, s.host())
	codes, closed := statuses(conn)
	took := time.Since(began)
	if len(codes) != 1 || codes[0] != http.StatusUnauthorized || !closed || took >= bodyTimeout {
		t.Errorf("got %v after %v, closed=%v, want 401 and the connection closed before %v", codes,
			took.Round(time.Millisecond), closed, bodyTimeout)
	}
	return Outcome{Got: fmt.Sprintf("%v, held for %v", codes, took.Round(10*time.Millisecond)), Paid: "nothing",
		Harm: "a connection"}
}

// manyConnections come from one address. Each asks once, so that the gateway keeps
// it for minutes. The kept connections are counted after the last dial, because on a
// slow machine the first connections end before the last are opened.
func manyConnections(t testing.TB, s *stage) Outcome {
	const tries = 2 * networkConnections
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP("127.7.7.7")}, Timeout: 10 * time.Second}
	var answered []net.Conn
	buffer := make([]byte, 1<<10)
	for range tries {
		conn, err := dialer.Dial("tcp", s.host())
		if err != nil {
			continue
		}
		defer conn.Close()
		if conn.SetDeadline(time.Now().Add(10*time.Second)) != nil {
			continue
		}
		// The gateway closes the connections that it refuses.
		_, _ = fmt.Fprintf(conn, "GET /healthz HTTP/1.1\r\nHost: %s\r\n\r\n", s.host())
		if n, _ := conn.Read(buffer); n > 0 {
			answered = append(answered, conn)
		}
	}
	kept := 0
	for _, conn := range answered {
		if isOpen(conn) {
			kept++
		}
	}
	resp, err := from("127.6.6.6").Get("http://" + s.host() + "/v1/models")
	if err != nil {
		t.Errorf("another network beside it: %v", err)
	} else {
		resp.Body.Close()
	}
	if kept == 0 || kept > networkConnections {
		t.Errorf("got %d of %d connections from one network kept, want 1 to %d", kept, tries, networkConnections)
	}
	return Outcome{Got: fmt.Sprintf("%d of %d kept", kept, tries), Paid: "nothing", Harm: "others are served"}
}

// isOpen reports whether the other end has not closed a connection.
func isOpen(conn net.Conn) bool {
	if conn.SetReadDeadline(time.Now().Add(time.Millisecond)) != nil {
		return false
	}
	_, err := conn.Read(make([]byte, 1))
	return err == nil || errors.Is(err, os.ErrDeadlineExceeded)
}

// halfClosed ends its side of the connection behind its request.
func halfClosed(t testing.TB, s *stage) Outcome {
	release := make(chan struct{})
	id, engine, _ := s.served(t, model{}, fakeengine.Behaviour{BeforeFirstByte: release})
	_, key := s.caller(t)
	body := trial.Chat(id, "")
	conn := s.raw(t)
	fmt.Fprintf(conn,
		"POST %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n"+
			"Content-Length: %d\r\n\r\n%s",
		trial.ChatPath, s.host(), key, len(body), body)
	arrived(t, engine, 1)
	if tcp, ok := conn.(*net.TCPConn); ok {
		if err := tcp.CloseWrite(); err != nil {
			t.Fatal(err)
		}
	}
	pass(t, 300*time.Millisecond)
	close(release)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	got := "connection aborted"
	if err == nil {
		answer, err := io.ReadAll(resp.Body)
		got = fmt.Sprintf("%d with %d bytes", resp.StatusCode, len(answer))
		if resp.StatusCode == http.StatusOK && (len(answer) == 0 || err != nil) {
			t.Errorf("got %s (%v), want the answer or an aborted connection", got, err)
		}
	}
	return Outcome{Got: got, Paid: "nothing", Harm: "none"}
}
