// Package usage settles served requests: what the consumer is charged, what the provider
// earns, and who bears the difference.
//
// The consumer is charged the list price of the billable usage, but never more than its
// hold and the credit that is still available beside it. The rest is a shortfall, which
// the platform bears. The provider always gets the whole payout, which is at most the
// list price. A request that a plan covers is charged nothing. A vendor gets its cost instead of
// a payout: the model's payout prices are the vendor's own prices, also for the prompt tokens
// that it read from its cache. The cost is credited to l:vendor:payable, and is never accrued,
// held or shared. Where a plan covered a request that a vendor served, the platform bears the
// cost. Usage that arrives after its hold was released or had expired is orphan work: the
// platform pays the provider, and the consumer is charged nothing.
//
// Only a prompt in tokens is estimated, so only a prompt in tokens may exceed what the
// hold counts, within a bound (see promptBound). Completions, images and audio never
// exceed the hold. An answer that broke off is charged by the images that arrived, and
// not at all for audio.
//
// Settling is idempotent by the request id. Of the events of two evidence sources the
// first in the NATS stream stands, and the other is a duplicate, whatever it says. Of two
// different events of one hub for the same request, the second is quarantined as altered.
//
// Usage may arrive before the hold of its request is written (package slice). The hold is then written
// from the ticket that the usage carries (see Tickets), and the usual rules apply. Usage of an unknown
// request without a ticket that is sealed by the ledger is quarantined, unless it is Early.
//
// The rules are pure (see Decide). The store shows them the rows that they need under
// lock and applies their effects in one transaction. CHECKs in the database enforce the
// same sums.
//
// An event that cannot be read, or that contradicts what was pinned at admission, moves
// no money: it is kept in quarantine for a person, and the log says so at error. Its hub
// is told that the event is settled, so that the hub does not publish it for ever. A hub
// is not told of a forged event, or of an event under an unknown usage key, because the
// hub's true usage may still come. Nor is a hub told of an event that does not name its
// request and its own hub, because the notice would have nothing to name.
package usage

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"regexp"
	"strconv"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
)

// maxText bounds model ids and provider names in an event, in bytes.
const maxText = 255

// EvidenceSource names whose count an event rests on.
type EvidenceSource string

// The evidence sources.
const (
	// Hub is the journal of the hub that served.
	Hub EvidenceSource = "hub"
	// Gateway is a gateway's count of what it relayed, for a request whose hub reported
	// nothing.
	Gateway EvidenceSource = "gateway"
	// WorkReceipt is what the provider signed that it sent, for a request of which
	// neither hub nor gateway reported what was served.
	WorkReceipt EvidenceSource = "receipt"
)

// webSocket is the number of the mode of all events that are older than Event.Mode.
const webSocket = 1

// Event says that a request was served, and how much of it is billable.
type Event struct {
	Request  ids.RequestID
	Attempt  int32
	Hub      string
	Provider ids.ProviderID
	Epoch    int64
	Model    string
	Price    ids.PriceVersionID
	Rates    money.Rates
	// Ending is the stored name of the answer's ending.
	Ending string
	// Billable is in the unit of Rates.
	Billable money.Tokens
	// ClaimState is the stored name of how far the engine's claim was trusted. An absurd
	// claim may hold any number.
	ClaimState          string
	Claimed             money.Tokens
	RecountedCompletion int64
	DeliveredBytes      int64
	EstimatedPrompt     int64
	RouteMode           string
	RequestedProvider   string
	FallbackReason      string
	// Mode is how the provider was reached: a number of svc.events.v1.ConnectionMode, also
	// one that only later releases know; 0 where the event does not say how.
	Mode           int16
	DispatchedAt   time.Time
	EndedAt        time.Time
	FirstContentMS int64
	// Vendor reports that the provider is a vendor, which is owed its own price. CachedPrompt
	// are the prompt tokens that a vendor says it read from its cache.
	Vendor         bool
	CachedPrompt   int64
	EvidenceSource EvidenceSource
	// Settled says that this ledger has settled the request by this event.
	Settled bool
	// MAC is the ledger's for the request, given at admission; zero for none.
	MAC MAC
}

// platformFailed reports whether the answer ended neither by itself nor by the consumer.
func (e Event) platformFailed() bool { return e.Ending != "completed" && e.Ending != "client_gone" }

// hubPattern is the form of a hub id. It is fit to be part of a NATS subject.
var hubPattern = regexp.MustCompile(`^[a-z0-9-]{1,32}$`)

// ValidHub reports whether id can name a hub.
func ValidHub(id string) bool { return hubPattern.MatchString(id) }

// Validate refuses an event that no hub would publish.
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
	case e.CachedPrompt < 0 || e.CachedPrompt > 0 && !e.Vendor:
		return errors.New("the count of cached prompt tokens is negative, or not of a vendor")
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

// Hash identifies what the event says, whatever its encoding: a hub that was upgraded
// between two publications must not look like a hub that changed its account. Settled and
// MAC say nothing of what was served and are left out.
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
	if e.Rates.Unit != money.Token { // tokens are hashed as they were before other units existed
		d.number(int64(e.Rates.Unit))
	}
	if e.EvidenceSource != Hub { // a hub's event is hashed as it was before other sources existed
		d.bytes([]byte(e.EvidenceSource))
	}
	if e.Mode > webSocket { // the event of a WebSocket is hashed as it was before other modes existed
		d.bytes([]byte("connection_mode"))
		d.number(int64(e.Mode))
	}
	if e.Vendor || e.Rates.PayoutCachedInput != 0 { // others are hashed as they were before there were vendors
		d.bytes([]byte("vendor"))
		d.number(e.CachedPrompt)
		d.number(int64(e.Rates.PayoutCachedInput))
		d.bytes([]byte(strconv.FormatBool(e.Vendor)))
	}
	var out [sha256.Size]byte
	d.hash.Sum(out[:0])
	return out
}

// digest writes each part with its length, so that no two lists of parts have the same
// bytes.
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
