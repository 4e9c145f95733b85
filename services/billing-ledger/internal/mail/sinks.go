package mail

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	gomail "github.com/wneessen/go-mail"

	"svc.internal/pkg/clock"
)

// maxFiles bounds the letters that Files keeps. The oldest is deleted for a further one.
const maxFiles = 500

// The ends of files' names: a letter, and a letter that is being written. A reader of the
// folder finds whole letters only.
const (
	letterEnd  = ".txt"
	partialEnd = ".part"
)

// Files writes letters into files of a folder that only their owner reads. It is for
// development. The log has the name of the file, and nothing of the letter.
type Files struct {
	Folder string
	Clock  clock.Clock
	Log    *slog.Logger
}

// Send writes a letter.
func (f Files) Send(ctx context.Context, m Message) error {
	if err := os.MkdirAll(f.Folder, 0o700); err != nil {
		return fmt.Errorf("make the folder of letters: %w", err)
	}
	if err := f.makeRoom(); err != nil {
		return err
	}
	begin := f.Clock.Now().UTC().Format("20060102T150405.000") + "-" + string(m.Kind) + "-"
	file, err := os.CreateTemp(f.Folder, begin+"*"+partialEnd)
	if err != nil {
		return fmt.Errorf("make the file of a letter: %w", err)
	}
	_, err = fmt.Fprintf(file, "To: %s\nSubject: %s\n\n%s", m.To, m.Subject, m.Text)
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("write a letter: %w", err)
	}
	whole := strings.TrimSuffix(file.Name(), partialEnd) + letterEnd
	if err := os.Rename(file.Name(), whole); err != nil {
		return fmt.Errorf("name a written letter: %w", err)
	}
	f.Log.InfoContext(ctx, "a letter was written into a file", "file", whole)
	return nil
}

// makeRoom deletes the oldest letters when there are as many as may be. Their names begin
// with their times. A letter that a crash left half written counts as one.
func (f Files) makeRoom() error {
	entries, err := os.ReadDir(f.Folder)
	if err != nil {
		return fmt.Errorf("list the letters: %w", err)
	}
	entries = slices.DeleteFunc(entries, func(e os.DirEntry) bool {
		return !strings.HasSuffix(e.Name(), letterEnd) && !strings.HasSuffix(e.Name(), partialEnd)
	})
	for i := range len(entries) - maxFiles + 1 {
		if err := os.Remove(filepath.Join(f.Folder, entries[i].Name())); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("delete an old letter: %w", err)
		}
	}
	return nil
}

// SMTP sends letters by a server of e-mail.
type SMTP struct{ settings SMTPSettings }

// SMTPSettings say how a server of e-mail is reached.
type SMTPSettings struct {
	// Addr is its host and port, From the sender of all letters.
	Addr, From string
	// Username is empty for a server that asks for none.
	Username, Password string
	// Plaintext allows a server without STARTTLS. It is for development.
	Plaintext bool
	// TLS is for tests; nil for the certificates that the machine trusts.
	TLS *tls.Config
}

// NewSMTP makes a sender, or says what is wrong with its settings.
func NewSMTP(s SMTPSettings) (*SMTP, error) {
	if _, err := s.client(); err != nil {
		return nil, err
	}
	if err := gomail.NewMsg().From(s.From); err != nil {
		return nil, errors.New("the sender of letters is no e-mail address")
	}
	return &SMTP{s}, nil
}

func (s SMTPSettings) client() (*gomail.Client, error) {
	host, portText, err := net.SplitHostPort(s.Addr)
	if err != nil {
		return nil, errors.New("the address of the e-mail server is not host:port")
	}
	port, err := strconv.Atoi(portText)
	if err != nil {
		return nil, errors.New("the port of the e-mail server is not a number")
	}
	policy := gomail.TLSMandatory
	if s.Plaintext {
		policy = gomail.NoTLS
	}
	options := []gomail.Option{gomail.WithPort(port), gomail.WithTLSPolicy(policy), gomail.WithTimeout(sendTimeout / 2)}
	if s.TLS != nil {
		options = append(options, gomail.WithTLSConfig(s.TLS))
	}
	if s.Username != "" {
		options = append(options, gomail.WithSMTPAuth(gomail.SMTPAuthAutoDiscover), gomail.WithUsername(s.Username),
			gomail.WithPassword(s.Password))
	}
	client, err := gomail.NewClient(host, options...)
	if err != nil {
		return nil, fmt.Errorf("configure the e-mail server: %w", err)
	}
	return client, nil
}

// Send sends a letter.
func (s *SMTP) Send(ctx context.Context, m Message) error {
	client, err := s.settings.client()
	if err != nil {
		return err
	}
	msg := gomail.NewMsg()
	if err := errors.Join(msg.From(s.settings.From), msg.To(m.To)); err != nil {
		return errors.New("address a letter: the sender or the reader is no e-mail address")
	}
	msg.Subject(m.Subject)
	msg.SetBodyString(gomail.TypeTextPlain, m.Text)
	if err := client.DialAndSendWithContext(ctx, msg); err != nil {
		return fmt.Errorf("hand a letter to the e-mail server: %w", err)
	}
	return nil
}
