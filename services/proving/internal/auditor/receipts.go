package auditor

import (
	"crypto/ed25519"
	"encoding/binary"
	"encoding/hex"
	"strings"
)

// receipt is a row of the table of that name: a provider's signed statement of what it
// sent in one attempt.
type receipt struct {
	attempt  int64
	provider id
	sent     int64
	// signed reports whether the signature is of the key beside it.
	signed bool
}

// receiptDomain begins the signed text.
const receiptDomain = "svc provider receipt v1\n"

func (w *world) takeReceipt(r *record) {
	u := r.id("request_id")
	q := w.request(r, u)
	if len(q.receipts) >= maxMembers {
		r.fail("request_id", "has too many receipts")
		return
	}
	for _, known := range q.receipts {
		if known.attempt == r.integer("attempt") {
			r.fail("attempt", "has a receipt already")
			return
		}
	}
	_, claimed := r.given("claimed_prompt")
	provider, attempt, sent := r.id("provider_id"), r.count("attempt"), r.count("sent_tokens")
	text := []byte(receiptDomain)
	text = append(text, u[:]...)
	text = binary.BigEndian.AppendUint32(text, uint32(attempt))
	text = append(text, provider[:]...)
	text = binary.BigEndian.AppendUint64(text, uint64(r.integer("epoch")))
	text = appendSized(text, r.text("model_id"))
	text = appendFlag(text, claimed)
	for _, n := range []int64{r.integerOr("claimed_prompt", 0), r.integerOr("claimed_completion", 0), sent,
		r.count("sent_bytes")} {
		text = binary.BigEndian.AppendUint64(text, uint64(n))
	}
	text = appendFlag(text, r.flag("complete"))
	text = binary.BigEndian.AppendUint64(text, uint64(r.time("ended_at")/1000))
	text = appendSized(text, string(r.bytes("proof")))
	key, signature := r.bytes("public_key"), r.bytes("signature")
	q.receipts = append(q.receipts, receipt{
		attempt: attempt, provider: provider, sent: sent,
		signed: len(key) == ed25519.PublicKeySize && ed25519.Verify(key, text, signature),
	})
}

func appendSized(text []byte, part string) []byte {
	return append(binary.BigEndian.AppendUint16(text, uint16(len(part))), part...)
}

func appendFlag(text []byte, flag bool) []byte {
	if flag {
		return append(text, 1)
	}
	return append(text, 0)
}

// bytes returns a required bytea.
func (r *record) bytes(key string) []byte {
	digits, ok := strings.CutPrefix(r.text(key), `\x`)
	b, err := hex.DecodeString(digits)
	if !ok || err != nil {
		r.fail(key, "is no bytea")
	}
	return b
}

// checkReceipts checks that a request settled by a provider's receipt has the counts that
// this provider has signed. A receipt says what was sent, and pays for no more.
func (a *audit) checkReceipts() {
	for _, u := range a.ordered {
		q := a.requests[u]
		for _, known := range q.receipts {
			if !known.signed {
				a.r.found(Drift, about("request", u), "the receipt of provider %v for attempt %d is not signed by its key",
					known.provider, known.attempt)
			}
		}
		for i := range q.lines {
			if s := &q.lines[i]; s.evidence == sourceWorkReceipt && !q.receipted(s) {
				a.r.found(Drift, about("request", u),
					"%d completion tokens are settled by a receipt of provider %v, which there is not", s.tokens.completion,
					s.provider)
			}
		}
	}
}

// receipted reports whether a receipt proves a settled request.
func (q *request) receipted(s *settlement) bool {
	for _, known := range q.receipts {
		if known.signed && known.provider == s.provider && known.attempt == s.attempt && s.tokens.completion <= known.sent {
			return true
		}
	}
	return false
}
