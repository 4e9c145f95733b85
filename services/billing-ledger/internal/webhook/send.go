package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/dialguard"
)

const (
	// SendTimeout bounds one try, with the look-up of the name.
	SendTimeout = 10 * time.Second
	// MaxAnswer bounds what is read of an answer, in bytes, and answerTimeout for how long.
	MaxAnswer     = 4 << 10
	answerTimeout = 2 * time.Second
)

// Sender sends messages.
type Sender struct {
	client *http.Client
	sealer *Sealer
	clock  clock.Clock
	// development lets http to loopback pass.
	development bool
}

// NewSender makes a sender. The dialer is package dialguard's, and in development it reaches
// loopback, too.
func NewSender(sealer *Sealer, c clock.Clock, resolver *net.Resolver, development bool) *Sender {
	dialer := &dialguard.Dialer{Resolver: resolver}
	if development {
		dialer.Allow = netip.Addr.IsLoopback
	}
	return &Sender{dialer.Client(), sealer, c, development}
}

// Send makes one try. The URL is checked again, because the rules may have become stricter
// since it was stored.
func (s *Sender) Send(ctx context.Context, t Turn) (Result, error) {
	if CheckURL(t.URL, s.development) != nil {
		return Result{Problem: BadAddress}, nil
	}
	body, err := t.Message.Body()
	if err != nil {
		return Result{}, err
	}
	secrets := make([][]byte, len(t.Secrets))
	for i, sealed := range t.Secrets {
		if secrets[i], err = s.sealer.open(t.Endpoint, sealed); err != nil {
			return Result{}, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, SendTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.URL, bytes.NewReader(body))
	if err != nil {
		return Result{Problem: BadAddress}, nil //nolint:nilerr // the address is at fault, which its owner is told
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "User-Agent": "svc-webhooks/1",
		SignatureHeader: Sign(body, s.clock.Now(), secrets...),
		"X-Svc-Event":   string(t.Message.Kind), "X-Svc-Delivery-Attempt": strconv.Itoa(t.Attempt),
	} {
		req.Header.Set(name, value)
	}
	answer, err := s.client.Do(req)
	if err != nil {
		return Result{Problem: problemOf(err)}, nil
	}
	// The status has decided. A little of the rest is read so that the receiver may end in
	// peace, and then the connection is closed.
	stop := time.AfterFunc(answerTimeout, cancel)
	_, _ = io.CopyN(io.Discard, answer.Body, MaxAnswer)
	stop.Stop()
	_ = answer.Body.Close() // it was read as far as it counts
	if answer.StatusCode/100 != 2 {
		return Result{Status: answer.StatusCode, Problem: BadStatus}, nil
	}
	return Result{Status: answer.StatusCode}, nil
}

// problemOf says in a word why there was no answer. The error itself names the address, and
// is neither logged nor shown.
func problemOf(err error) Problem {
	var unverified *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	var slow net.Error
	switch {
	case errors.Is(err, dialguard.ErrPrivate):
		return BadAddress
	case errors.As(err, &unverified), errors.As(err, &record), errors.As(err, &alert):
		return BadTLS
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &slow) && slow.Timeout():
		return Timeout
	}
	return Connection
}
