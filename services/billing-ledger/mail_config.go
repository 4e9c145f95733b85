package billingledger

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/config"
	"svc.internal/services/billing-ledger/internal/mail"
)

// What MailConfig.Sender may be.
const (
	NoLetters      = "off"
	LettersAsFiles = "file"
	LettersBySMTP  = "smtp"
)

// MailConfig says how letters reach users.
type MailConfig struct {
	// Sender is off, file or smtp. With off, nobody confirms an e-mail or resets a password;
	// with file, letters are written into Folder, for development.
	Sender string `yaml:"sender" env:"SVC_MAIL_SENDER"`
	// Folder is where letters are written as files that only their owner reads.
	Folder string `yaml:"folder" env:"SVC_MAIL_FOLDER"`
	// SiteURL is where the pages are that letters lead to: http or https, without a path.
	SiteURL string `yaml:"site_url" env:"SVC_MAIL_SITE_URL"`
	// SMTPAddr is the host and port of the e-mail server, which must offer STARTTLS, and
	// From the sender of all letters.
	SMTPAddr string `yaml:"smtp_addr" env:"SVC_MAIL_SMTP_ADDR"`
	From     string `yaml:"from" env:"SVC_MAIL_FROM"`
	// Username and Password are for an e-mail server that asks for them.
	Username string        `yaml:"username" env:"SVC_MAIL_USERNAME"`
	Password config.Secret `yaml:"password" env:"SVC_MAIL_PASSWORD"`
	// Plaintext allows an e-mail server without STARTTLS. It is for development: whoever
	// sits between reads what resets passwords.
	Plaintext bool `yaml:"plaintext" env:"SVC_MAIL_PLAINTEXT"`
}

func defaultMailConfig() MailConfig {
	return MailConfig{Sender: NoLetters, SiteURL: "http://127.0.0.1:8080"}
}

// Sends reports whether letters are sent.
func (c MailConfig) Sends() bool { return c.Sender != NoLetters }

// Validate returns every fault at once.
func (c MailConfig) Validate() error {
	var faults []error
	if to, err := url.Parse(c.SiteURL); err != nil || to.Host == "" || to.User != nil || to.RawQuery != "" ||
		to.Fragment != "" || to.Path != "" || to.Scheme != "http" && to.Scheme != "https" {
		faults = append(faults, errors.New("mail.site_url (SVC_MAIL_SITE_URL) must be http or https, without a path"))
	}
	switch c.Sender {
	case NoLetters:
	case LettersAsFiles:
		if c.Folder == "" {
			faults = append(faults, errors.New("mail.folder (SVC_MAIL_FOLDER) is missing"))
		}
	case LettersBySMTP:
		if _, err := mail.NewSMTP(c.smtp()); err != nil {
			faults = append(faults, fmt.Errorf("mail.smtp_addr (SVC_MAIL_SMTP_ADDR), mail.from (SVC_MAIL_FROM): %w", err))
		}
		if (c.Username == "") != !c.Password.IsSet() {
			faults = append(faults, errors.New("mail.username (SVC_MAIL_USERNAME) and mail.password (SVC_MAIL_PASSWORD) "+
				"are both given or neither"))
		}
	default:
		faults = append(faults, fmt.Errorf("mail.sender (SVC_MAIL_SENDER): %.40q is none of %s, %s and %s", c.Sender,
			NoLetters, LettersAsFiles, LettersBySMTP))
	}
	return errors.Join(faults...)
}

func (c MailConfig) smtp() mail.SMTPSettings {
	return mail.SMTPSettings{Addr: c.SMTPAddr, From: c.From, Username: c.Username, Password: c.Password.Reveal(),
		Plaintext: c.Plaintext}
}

// sender returns what sends letters; nil where none are sent.
func (c MailConfig) sender(now clock.Clock, log *slog.Logger) (mail.Sender, error) {
	switch c.Sender {
	case LettersAsFiles:
		return mail.Files{Folder: c.Folder, Clock: now, Log: log}, nil
	case LettersBySMTP:
		return mail.NewSMTP(c.smtp())
	}
	return nil, nil
}
