package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"svc.internal/pkg/accountevent"
)

// SignatureHeader is the header of a message's signature.
const SignatureHeader = "X-Svc-Signature"

// Sign returns the signature of a body that is sent now: t=seconds and a v1 for each secret.
func Sign(body []byte, now time.Time, secrets ...[]byte) string {
	at := strconv.FormatInt(now.Unix(), 10)
	header := "t=" + at
	for _, secret := range secrets {
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(at))
		mac.Write([]byte{'.'})
		mac.Write(body)
		header += ",v1=" + hex.EncodeToString(mac.Sum(nil))
	}
	return header
}

// Message is what an endpoint hears.
type Message struct {
	ID   accountevent.ID
	Kind accountevent.Kind
	At   time.Time
	Data []byte
}

// Body returns the bytes that are sent, the same for each try.
func (m Message) Body() ([]byte, error) {
	body, err := json.Marshal(struct {
		ID        string          `json:"id"`
		Type      string          `json:"type"`
		CreatedAt string          `json:"created_at"`
		Data      json.RawMessage `json:"data"`
	}{m.ID.String(), string(m.Kind), m.At.UTC().Format(time.RFC3339Nano), m.Data})
	if err != nil {
		return nil, fmt.Errorf("encode an event: %w", err)
	}
	return body, nil
}
