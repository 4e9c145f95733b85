package mail

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"svc.internal/pkg/clock"
	"svc.internal/services/billing-ledger/internal/user"
)

const token = "the-token-of-a-letter-that-nobody-may-log"

func letter(t testing.TB, kind user.LetterKind) Message {
	t.Helper()
	m, err := compose(Letter{Kind: kind, To: "ada@example.com"}, "https://site.example", token)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestALettersFileIsItsOwnersAndTheLogHasItsNameAlone(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	f := Files{Folder: filepath.Join(t.TempDir(), "letters"), Clock: clock.System,
		Log: slog.New(slog.NewTextHandler(&log, nil))}
	if err := f.Send(t.Context(), letter(t, user.ResetLetter)); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(f.Folder)
	if err != nil || len(entries) != 1 {
		t.Fatalf("files: got %d and %v, want 1", len(entries), err)
	}
	path := filepath.Join(f.Folder, entries[0].Name())
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file's mode: got %v and %v, want 0600", info.Mode(), err)
	}
	if info, err := os.Stat(f.Folder); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder's mode: got %v and %v, want 0700", info.Mode(), err)
	}
	text, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(text), "https://site.example/app/password#token="+token) {
		t.Errorf("the letter: got %s and %v, want the link in it", text, err)
	}
	if strings.Contains(log.String(), token) || strings.Contains(log.String(), "ada@") {
		t.Errorf("the log: got %s, want neither token nor address", &log)
	}
	if !strings.Contains(log.String(), entries[0].Name()) {
		t.Errorf("the log: got %s, want the file's name", &log)
	}
}

func TestAReaderOfTheFolderFindsWholeLettersOnly(t *testing.T) {
	t.Parallel()
	f := Files{Folder: t.TempDir(), Clock: clock.System, Log: slog.New(slog.DiscardHandler)}
	const letters = 300
	m, sent := letter(t, user.ResetLetter), make(chan error, letters)
	go func() {
		for range letters {
			sent <- f.Send(context.Background(), m)
		}
		close(sent)
	}()
	read := make(map[string]bool)
	for err := range sent {
		if err != nil {
			t.Error(err)
		}
		paths, err := filepath.Glob(filepath.Join(f.Folder, "*"+letterEnd))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			if read[path] {
				continue
			}
			read[path] = true
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(text), token) {
				t.Errorf("%s: got %q, want the whole letter", path, text)
			}
		}
	}
	if len(read) != letters {
		t.Errorf("letters: got %d, want %d", len(read), letters)
	}
}

func TestOldLettersMakeRoom(t *testing.T) {
	t.Parallel()
	f := Files{Folder: t.TempDir(), Clock: clock.System,
		Log: slog.New(slog.DiscardHandler)}
	for i := range maxFiles + 5 {
		name := fmt.Sprintf("%04d%s", i, [...]string{letterEnd, partialEnd}[i%2])
		if err := os.WriteFile(filepath.Join(f.Folder, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Send(t.Context(), letter(t, user.ReuseLetter)); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(f.Folder)
	if err != nil || len(entries) != maxFiles {
		t.Errorf("files: got %d and %v, want %d", len(entries), err, maxFiles)
	}
}

func TestAMessagePrintsWithoutItsText(t *testing.T) {
	t.Parallel()
	m := letter(t, user.ConfirmLetter)
	if text := fmt.Sprintf("%v %+v %#v", m, m, m); strings.Contains(text, token) {
		t.Errorf("printed: got %s, want no token", text)
	}
}

// smtpServer takes letters on loopback, with STARTTLS or without.
type smtpServer struct {
	addr string
	tls  *tls.Config
	got  chan string
}

func startSMTP(t *testing.T, secure bool) (*smtpServer, *x509.CertPool) {
	t.Helper()
	web := httptest.NewTLSServer(nil) // whose certificate is for 127.0.0.1
	t.Cleanup(web.Close)
	pool := x509.NewCertPool()
	pool.AddCert(web.Certificate())
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lis.Close() })
	s := &smtpServer{addr: lis.Addr().String(), got: make(chan string, 1)}
	if secure {
		s.tls = &tls.Config{Certificates: web.TLS.Certificates, MinVersion: tls.VersionTLS12}
	}
	go func() {
		for {
			conn, err := lis.Accept()
			if err != nil {
				return
			}
			go s.serve(conn)
		}
	}()
	return s, pool
}

// serve speaks as much of SMTP as a letter needs.
func (s *smtpServer) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	in := bufio.NewReader(conn)
	say := func(line string) { _, _ = io.WriteString(conn, line+"\r\n") }
	say("220 loopback")
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		switch verb := strings.ToUpper(strings.Fields(line + " x")[0]); verb {
		case "EHLO", "HELO":
			if _, isTLS := conn.(*tls.Conn); s.tls != nil && !isTLS {
				say("250-loopback")
				say("250 STARTTLS")
			} else {
				say("250 loopback")
			}
		case "STARTTLS":
			say("220 go on")
			secured := tls.Server(conn, s.tls)
			conn, in = secured, bufio.NewReader(secured)
		case "DATA":
			say("354 go on")
			var text strings.Builder
			for {
				line, err := in.ReadString('\n')
				if err != nil || line == ".\r\n" {
					break
				}
				text.WriteString(line)
			}
			say("250 kept")
			s.got <- text.String()
		case "QUIT":
			say("221 bye")
			return
		default:
			say("250 ok")
		}
	}
}

func TestALetterGoesBySMTPUnderTLS(t *testing.T) {
	t.Parallel()
	server, pool := startSMTP(t, true)
	s, err := NewSMTP(SMTPSettings{Addr: server.addr, From: "accounts@site.example",
		TLS: &tls.Config{RootCAs: pool, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send(t.Context(), letter(t, user.ConfirmLetter)); err != nil {
		t.Fatalf("sent: got the error %v, want none", err)
	}
	got := <-server.got
	for _, want := range []string{"ada@example.com", "accounts@site.example", "Subject: Confirm your e-mail address"} {
		if !strings.Contains(got, want) {
			t.Errorf("the letter: got %s, want %q in it", got, want)
		}
	}
}

func TestNoLetterGoesInTheClearUnlessItMay(t *testing.T) {
	t.Parallel()
	server, _ := startSMTP(t, false)
	settings := SMTPSettings{Addr: server.addr, From: "accounts@site.example"}
	s, err := NewSMTP(settings)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send(t.Context(), letter(t, user.ResetLetter)); err == nil {
		t.Error("without STARTTLS: got no error, want one")
	} else if strings.Contains(err.Error(), token) {
		t.Errorf("the error: got %v, want no token", err)
	}
	settings.Plaintext = true
	if s, err = NewSMTP(settings); err != nil {
		t.Fatal(err)
	}
	if err := s.Send(t.Context(), letter(t, user.ResetLetter)); err != nil {
		t.Errorf("where it may: got the error %v, want none", err)
	}
}
