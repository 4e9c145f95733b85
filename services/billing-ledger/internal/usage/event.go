// Package usage settles served requests: what the consumer is charged, what the
// provider earns, and who bears a difference. It also refunds settled requests.
//
// Settling is idempotent by the request id. The rules are pure (Decide); the
// store shows them the rows they need under lock and applies what they answer
// in one transaction, and CHECKs in the database assert the same sums.
//
// An event that contradicts what was pinned at admission moves no money: it is
// kept in quarantine for a person to look at.
package usage

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"regexp"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
)

// maxText bounds model ids and provider names in an event, in bytes.
const maxText = 255

// EvidenceSource is on whose count an event rests.
type EvidenceSource string

// The evidence sources.
const (
	// Hub is the journal of the hub that served.
	Hub EvidenceSource = "hub"
	// Gateway is what a gateway relayed of a request whose hub told nothing.
	Gateway EvidenceSource = "gateway"
	// WorkReceipt is what the provider signed that it sent of a request of which
	// neither hub nor gateway told what was served.
	WorkReceipt EvidenceSource = "receipt"
)

// Event says that a request was served and what of it is billable.
type Event struct {
	Request  ids.RequestID
	Attempt  int32
	Hub      string
	Provider ids.ProviderID
	Epoch    int64
	Model    string
	Price    ids.PriceVersionID
	Rates    money.Rates
	// Ending is the stored name of how the answer ended.
	Ending string
	// Billable is in the unit of Rates.
	Billable money.Tokens
	// KeyClaim is the stored name of what the engine's claim was worth; an
	// absurd one may hold any number.
	ClaimState          string
	Claimed             money.Tokens
	RecountedCompletion int64
	DeliveredBytes      int64
	EstimatedPrompt     int64
	RouteMode           string
	RequestedProvider   string
	FallbackReason      string
	DispatchedAt        time.Time
	EndedAt             time.Time
	FirstContentMS      int64
	EvidenceSource      EvidenceSource
	// Settled says that this ledger has settled the request so.
	Settled bool
	// Ticket is what the ledger gave for the request at admission; zero for none.
	Ticket Ticket
}

// platformFailed reports whether the answer ended for a reason that is neither the
// consumer's nor its own end.
func (e Event) platformFailed() bool { return e.Ending != "completed" && e.Ending != "client_gone" }

// hubPattern keeps a hub's id fit to be part of a subject.
var hubPattern = regexp.MustCompile(`^[a-z0-9-]{1,32}$`)

// ValidHub reports whether id can name a hub.
func ValidHub(id string) bool { return hubPattern.MatchString(id) }

// Validate refuses what no hub would say.
func (e Event) Validate() error {
	switch {
	case e.Request.IsZero() || e.Provider.IsZero() || e.Price.IsZero():
		return errors.New("an id is missing")
	case !ValidHub(e.Hub):
		return errors.New("the hub id is malformed")
	case e.Attempt < 1:
		return errors.New("the attempt is below 1")
	case e.Model == "" || len(e.Model) > maxText || len(e.RequestedProvider) > maxText:
		return errors.New("a text is missing or too long")
	case e.Ending == "" || e.ClaimState == "":
		return errors.New("the ending or the claim state is missing")
	case e.EvidenceSource != Hub && e.EvidenceSource != Gateway && e.EvidenceSource != WorkReceipt:
		return errors.New("the evidence source is unknown")
	case e.Billable.Prompt < 0 || e.Billable.Completion < 0:
		return errors.New("a billable count is negative")
	}
	if err := e.Rates.Validate(); err != nil {
		return fmt.Errorf("rates: %w", err)
	}
	if u := e.Rates.Unit; !u.CountsPrompt() && e.Billable.Prompt != 0 || !u.CountsCompletion() &&
		e.Billable.Completion != 0 {
		return fmt.Errorf("a billable count is not of what is priced %v", u)
	}
	return nil
}

// Hash identifies what the event says, whatever its encoding: a hub that was
// upgraded between two publications must not look like one that changed its
// story. That it is settled, and its ticket, are nothing that the event says of
// the request.
func (e Event) Hash() [sha256.Size]byte {
	d := digest{sha256.New()}
	d.bytes(e.Request[:])
	d.bytes(e.Provider[:])
	d.bytes(e.Price[:])
	for _, n := range []int64{
		int64(e.Attempt), e.Epoch,
		int64(e.Rates.Input), int64(e.Rates.Output), int64(e.Rates.PayoutInput), int64(e.Rates.PayoutOutput),
		e.Billable.Prompt, e.Billable.Completion, e.Claimed.Prompt, e.Claimed.Completion,
		e.RecountedCompletion, e.DeliveredBytes, e.EstimatedPrompt, e.FirstContentMS,
		unixNano(e.DispatchedAt), unixNano(e.EndedAt),
	} {
		d.number(n)
	}
	for _, s := range []string{
		e.Hub, e.Model, e.Ending, e.ClaimState, e.RouteMode, e.RequestedProvider, e.FallbackReason,
	} {
		d.bytes([]byte(s))
	}
	if e.Rates.Unit != money.Token { // tokens are hashed as they were before there were other units
		d.number(int64(e.Rates.Unit))
	}
	if e.EvidenceSource != Hub { // a hub's is hashed as it was before there were others
		d.bytes([]byte(e.EvidenceSource))
	}
	var out [sha256.Size]byte
	d.hash.Sum(out[:0])
	return out
}

// digest writes each part with its length, so that no two lists of parts are
// the same bytes.
type digest struct{ hash hash.Hash }

func (d digest) number(n int64) {
	var buf [8]byte
	binary.BigEndian.PutUint64(buf[:], uint64(n))
	d.hash.Write(buf[:])
}

func (d digest) bytes(b []byte) {
	d.number(int64(len(b)))
	d.hash.Write(b)
}

func unixNano(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}
