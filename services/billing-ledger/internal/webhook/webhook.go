// Package webhook tells accounts what happens to them, over HTTP.
//
// An account has up to MaxEndpoints endpoints, each with a secret and the kinds that it
// hears. What happens is an event with an id; an endpoint hears each event by a POST of
// {id, type, created_at, data}, signed in the header X-Svc-Signature as t=seconds and one v1
// for each secret that counts: hex(HMAC-SHA256(secret, t.body)). A receiver compares t with
// its own clock, because an old message that is sent again has a good signature, and passes
// over ids that it has seen, because a message may come twice. The order of events is not
// promised.
//
// Any status 200 to 299 is a success. Else an event is sent again after 5 minutes, 30
// minutes, 4 hours and 24 hours. 410 ends an endpoint, and so does failing for MaxFailing
// with MinFailures tries. What waits are rows with due times by the database's clock, so a
// killed process loses nothing: a message whose answer it had not stored is sent twice.
//
// Nobody waits for another account: one endpoint has one message under way, an account
// has MaxOfAccount, a process has MaxSends, and who was served longest ago is served next.
// Endpoints whose last try failed have MaxToFailing of the places together, so that receivers
// that never answer leave room for those that do, however many accounts they are of. Only
// endpoints that begin to fail at the same moment can take every place, and for no longer than
// SendTimeout.
//
// The URL is a stranger's. It must be https with a public host and a port of the web, and
// package dialguard checks the address when it is dialled: no private, loopback, link-local or
// metadata address, no redirect, no proxy. What the receiver answers is read up to MaxAnswer
// and kept nowhere, but for its status.
package webhook

import (
	"context"
	"time"

	"svc.internal/pkg/accountevent"
	"svc.internal/pkg/config"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
)

type kind struct{}

// ID names an endpoint.
type ID = ids.Of[kind]

// The bounds of endpoints.
const (
	MaxEndpoints   = 10
	MaxURL         = 2048 // bytes
	MaxDescription = 200  // characters
	// Overlap is how long a secret signs beside its successor.
	Overlap = 24 * time.Hour
	// MaxFormer bounds the former secrets that sign beside the present one.
	MaxFormer = 2
	// TestPause is the least time between two tests of an endpoint.
	TestPause = 10 * time.Second
	// MaxPage bounds a page of deliveries.
	MaxPage = 100
	// DefaultPage is the size of a page if none is asked for.
	DefaultPage = 20
)

// Note says why an endpoint is not enabled; empty for one that is.
type Note string

// The notes.
const (
	Enabled Note = ""
	ByOwner Note = "by_owner"
	Gone    Note = "gone"
	Failing Note = "failing"
)

// Former is a secret that signs until its overlap is over. It is sealed.
type Former struct {
	Secret []byte
	Until  time.Time
}

// Endpoint is where an account hears events. Secret is sealed.
type Endpoint struct {
	ID          ID
	Account     ids.AccountID
	URL         string
	Description string
	Kinds       []accountevent.Kind
	Note        Note
	Created     time.Time

	Secret []byte
	// Former are the former secrets that still sign, the newest first: at most MaxFormer.
	Former []Former

	Failures     int
	FailingSince time.Time
	// Dropped counts events that found no room.
	Dropped int
}

// Change is what its owner changes of an endpoint; nil changes nothing.
type Change struct {
	URL, Description *string
	Kinds            []accountevent.Kind
	Enabled          *bool
}

// State is where a delivery stands.
type State string

// The states. All but Waiting are final.
const (
	Waiting   State = "waiting"
	Delivered State = "delivered"
	Failed    State = "failed"
	Dropped   State = "dropped"
)

// Delivery is one event on its way to one endpoint.
type Delivery struct {
	Event   accountevent.ID
	Kind    accountevent.Kind
	State   State
	Attempt int
	Status  int
	Problem Problem
	// Made, Tried and Next are times; zero for none.
	Made, Tried, Next time.Time
}

// Store keeps endpoints. Each method that names an endpoint returns NotFound for one that is
// not the account's.
type Store interface {
	// AddWebhook keeps an endpoint, or returns TooMany.
	AddWebhook(ctx context.Context, e Endpoint) (Endpoint, error)
	Webhooks(ctx context.Context, account ids.AccountID) ([]Endpoint, error)
	// ChangeWebhook changes an endpoint under its lock. One that is not enabled afterwards has
	// its waiting deliveries dropped.
	ChangeWebhook(ctx context.Context, account ids.AccountID, id ID,
		apply func(e *Endpoint, now time.Time) error) (Endpoint, error)
	DeleteWebhook(ctx context.Context, account ids.AccountID, id ID) error
	// Deliveries lists up to limit deliveries behind a place, newest first; the zero place is
	// before the newest.
	Deliveries(ctx context.Context, account ids.AccountID, id ID, behind Place, limit int) ([]Delivery, error)
	// TestWebhook has a test event delivered, unless the last is younger than TestPause: then it
	// returns how long it still is.
	TestWebhook(ctx context.Context, account ids.AccountID, id ID, event accountevent.ID) (time.Duration, error)
	// LowAt reads below which balance an account is told so; 0 for none.
	LowAt(ctx context.Context, account ids.AccountID) (nano int64, err error)
	SetLowAt(ctx context.Context, account ids.AccountID, nano int64) error
}

// Place is where a page of deliveries begins.
type Place struct {
	Made  time.Time
	Event accountevent.ID
}

// NotFound is the fault for an endpoint that an account does not have.
func NotFound() error {
	return fault.New(fault.NotFound, fault.WebhookNotFound, "The account has no such webhook.")
}

// TooMany is the fault for an account that has as many endpoints as it may.
func TooMany() error {
	return fault.New(fault.Precondition, fault.TooManyWebhooks, "An account has at most %d webhooks.", MaxEndpoints)
}

// Secret is what an endpoint's messages are signed with. Only its owner sees it, once.
type Secret = config.Secret
