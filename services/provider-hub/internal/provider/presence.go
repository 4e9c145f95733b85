package provider

import (
	"context"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/services/provider-hub/internal/gpu"
	"svc.internal/services/provider-hub/internal/uptime"
)

const (
	// HubSilence is how long a hub may be silent, by the store's clock, before it counts
	// as dead.
	HubSilence = 30 * time.Second
	// PresenceKept is how long connections and runs of hubs are kept.
	PresenceKept = 35 * 24 * time.Hour
	// NodeKept is how long a machine counts, and is shown, after it was seen last.
	NodeKept   = 30 * 24 * time.Hour
	shownNodes = 64

	day   = 24 * time.Hour
	month = 30 * day
	// A node whose connections replaced each other so often within ReplacedWithin counts
	// as two machines with one id.
	replacedOften = 3
	// ReplacedWithin is the time over which replacements of a node are counted.
	ReplacedWithin = 10 * time.Minute
	replacedShown  = time.Hour
)

// Node is one machine of a provider as it was seen last.
type Node struct {
	ID, Name, AgentVersion, Dialect string
	// Online reports whether a connection of it stood when a hub last wrote to the store.
	Online   bool
	LastSeen time.Time
	GPU      gpu.Report
	// Eligible reports whether it fulfils the GPU rule.
	Eligible bool
	// Replaced is how often one live connection took another's place, within
	// ReplacedWithin of ReplacedAt.
	Replaced   int
	ReplacedAt time.Time
	// WarmUpError is the error of the last warm-up; empty for none.
	WarmUpError string
	// Cut says which claims of its models were cut; empty for none.
	Cut string
}

// Presence holds a provider's connections in a window.
type Presence struct {
	// Connections are the times in which each node was connected. They do not overlap.
	// Where there are too many, they are the longest.
	Connections []uptime.Connection
	// First is the beginning of the first connection of all that are kept.
	First time.Time
}

// presenceStore is what measurements need of a store.
type presenceStore interface {
	// Presences reads the connections of providers that lasted beyond since, as they
	// stand now.
	Presences(ctx context.Context, providers []ids.ProviderID, since, now time.Time) (map[ids.ProviderID]Presence, error)
	// HubRuns reads when hubs ran since a time.
	HubRuns(ctx context.Context, since, now time.Time) ([]uptime.Span, error)
	// Online reports which of the providers have a connection.
	Online(ctx context.Context, providers []ids.ProviderID) (map[ids.ProviderID]bool, error)
	// Nodes reads the machines seen since a time, the latest first.
	Nodes(ctx context.Context, id ids.ProviderID, since, now time.Time, limit int) ([]Node, error)
	// AnsweredAs reads the names that engines of a provider gave models since a time, the
	// latest first.
	AnsweredAs(ctx context.Context, id ids.ProviderID, since time.Time, limit int) ([]AnsweredAs, error)
	// EndpointsOnly reports whether a provider has external endpoints, and no agent of the provider
	// was seen since a time.
	EndpointsOnly(ctx context.Context, id ids.ProviderID, since time.Time) (bool, error)
	// LeftActive reads the entries of the change by which a provider left the status active
	// last, up to the entry of that, the earliest first; none for a provider that never
	// was active.
	LeftActive(ctx context.Context, id ids.ProviderID) ([]Entry, error)
	// KeepUptime keeps measurements.
	KeepUptime(ctx context.Context, all []Measured, now time.Time) error
}

// Measured is a provider's uptime; nil is not known.
type Measured struct {
	ID       ids.ProviderID
	Day, Mon *float64
}

// Detail is everything that is known of a provider.
type Detail struct {
	Account
	Online bool
	Nodes  []Node
	// EndpointsOnly reports whether the provider has external endpoints, and no agent of the provider
	// was seen within NodeKept.
	EndpointsOnly bool
	// AnsweredAs covers NamesKept, the latest first.
	AnsweredAs []AnsweredAs
	// TakenOut is why the provider is active no longer.
	TakenOut TakenOut
	// Rejection is the reason of the operator who rejected the application. It is empty where
	// no reason was given, and while no operator rejects the provider.
	Rejection string
}

// Detail reads a provider with its nodes and its uptime as it was measured some minutes
// ago. Where nothing was measured, the uptime is measured now. It fails with
// provider_not_found.
func (d *Directory) Detail(ctx context.Context, id ids.ProviderID) (Detail, error) {
	a, err := d.store.Get(ctx, id)
	if err != nil {
		return Detail{}, err
	}
	now := d.clock.Now()
	nodes, err := d.store.Nodes(ctx, id, now.Add(-NodeKept), now, shownNodes)
	if err != nil {
		return Detail{}, err
	}
	answered, err := d.store.AnsweredAs(ctx, id, now.Add(-NamesKept), shownNames)
	if err != nil {
		return Detail{}, err
	}
	if a.Uptime30d == nil {
		measured, err := d.measure(ctx, []ids.ProviderID{id}, now)
		if err != nil {
			return Detail{}, err
		}
		a.Uptime24h, a.Uptime30d = measured[0].Day, measured[0].Mon
	}
	out, err := d.takenOut(ctx, a)
	if err != nil {
		return Detail{}, err
	}
	rejection, err := d.rejection(ctx, a)
	if err != nil {
		return Detail{}, err
	}
	alone, err := d.store.EndpointsOnly(ctx, id, now.Add(-NodeKept))
	if err != nil {
		return Detail{}, err
	}
	online := false
	for _, n := range nodes {
		online = online || n.Online
	}
	return Detail{Account: a, Online: online, Nodes: nodes, EndpointsOnly: alone, AnsweredAs: answered, TakenOut: out,
		Rejection: rejection}, nil
}

// rejectionWithin is how many of the newest entries of the history are searched for a
// rejection. Only proposals and suspensions can follow one.
const rejectionWithin = 64

// rejection reads why an operator rejected an application.
func (d *Directory) rejection(ctx context.Context, a Account) (string, error) {
	if a.Status != Rejected || a.Removal.Any() {
		return "", nil
	}
	entries, _, err := d.store.History(ctx, a.ID, 0, rejectionWithin)
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		if e.What == string(Reject) {
			return e.Reason, nil
		}
	}
	return "", nil
}

// takenOut reads why an account that was active is so no longer.
func (d *Directory) takenOut(ctx context.Context, a Account) (TakenOut, error) {
	if !a.WasActive || a.Status == Active || !a.Status.MayConnect() {
		return TakenOut{}, nil
	}
	entries, err := d.store.LeftActive(ctx, a.ID)
	if err != nil {
		return TakenOut{}, err
	}
	return takenOutOf(entries), nil
}

// Online reports which of the providers have a connection to any hub, by what hubs have
// written to the store.
func (d *Directory) Online(ctx context.Context, providers []ids.ProviderID) (map[ids.ProviderID]bool, error) {
	return d.store.Online(ctx, providers)
}

// measure measures the uptime of providers over the last day and 30 days. A provider's
// window begins at its first connection at the earliest.
func (d *Directory) measure(ctx context.Context, providers []ids.ProviderID, now time.Time) ([]Measured, error) {
	since := now.Add(-month - uptime.Grace)
	presences, err := d.store.Presences(ctx, providers, now.Add(-PresenceKept), now)
	if err != nil {
		return nil, err
	}
	runs, err := d.store.HubRuns(ctx, since, now)
	if err != nil {
		return nil, err
	}
	all := make([]Measured, 0, len(providers))
	for _, id := range providers {
		m := Measured{ID: id}
		if p := presences[id]; len(p.Connections) > 0 {
			m.Day = within(p, runs, later(p.First, now.Add(-day)), now)
			m.Mon = within(p, runs, later(p.First, now.Add(-month)), now)
		}
		all = append(all, m)
	}
	return all, nil
}

// within is the uptime between two times.
func within(p Presence, runs []uptime.Span, from, to time.Time) *float64 {
	return uptime.Measure(uptime.Span{From: from, To: to}, p.Connections, runs).Fraction()
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
