package flow

import (
	"fmt"

	"svc.internal/pkg/fault"
)

// Reason says why a probe has no record, in metrics and in the store.
type Reason string

// The reasons to give a probe back.
const (
	// NoAccount is a house account without a key or without credit.
	NoAccount Reason = "no_account"
	// Limited is a limit of rate or concurrency of our own.
	Limited Reason = "limited"
	// PlatformDown is an edge, a hub or a store that does not answer.
	PlatformDown Reason = "platform_down"
	// Busy is a provider without a free slot for a challenge, or a hub that drains.
	Busy Reason = "busy"
	// Stopped is the end of the context.
	Stopped Reason = "stopped"
)

// The reasons of void probes.
const (
	// BadPlan is a plan or a request that nobody can carry out.
	BadPlan Reason = "bad_plan"
	// Offline is a provider that is not connected with the model.
	Offline Reason = "offline"
	// Disconnected is a question of a benchmark whose provider's connection was lost before
	// the answer was whole. The benchmark counts it.
	Disconnected Reason = "disconnected"
	// Inactive is a hidden probe of a provider that serves no consumers.
	Inactive Reason = "inactive"
	// Unavailable is a provider that the router does not choose now.
	Unavailable Reason = "unavailable"
	// TooLongForEdge is a prompt above the window that consumers get.
	TooLongForEdge Reason = "too_long_for_edge"
	// Unsupported is a challenge that the agent does not take.
	Unsupported Reason = "unsupported"
	// NoReference is a probe whose answer nobody could judge.
	NoReference Reason = "no_reference"
	// NoEarlier is a replay of which the earlier answer is not there.
	NoEarlier Reason = "no_earlier"
	// NoFiles is a fingerprint of a model without files that can be named.
	NoFiles Reason = "no_files"
)

// GiveBack says that the platform is at fault: the probe returns to the queue and is tried
// again.
type GiveBack struct {
	Reason Reason
	// Err is the cause; nil where the reason says all.
	Err error
}

// Error returns the reason and the cause.
func (g *GiveBack) Error() string { return explain("given back", g.Reason, g.Err) }

// Unwrap returns the cause.
func (g *GiveBack) Unwrap() error { return g.Err }

// Void says that the probe cannot be carried out and proves nothing. It is not tried
// again.
type Void struct {
	Reason Reason
	// Err is the cause; nil where the reason says all.
	Err error
}

// Error returns the reason and the cause.
func (v *Void) Error() string { return explain("void", v.Reason, v.Err) }

// Unwrap returns the cause.
func (v *Void) Unwrap() error { return v.Err }

func explain(what string, why Reason, err error) string {
	if err == nil {
		return fmt.Sprintf("probe %s: %s", what, why)
	}
	return fmt.Sprintf("probe %s: %s: %v", what, why, err)
}

// refused maps the refusal of a hub. What is not told apart is the platform's fault,
// because the provider has done nothing.
func refused(err error) error {
	f, ok := fault.As(err)
	if !ok {
		return &GiveBack{PlatformDown, err}
	}
	switch f.Reason {
	case fault.SessionGone:
		return &Void{Offline, err}
	case fault.ChallengeUnsupported:
		return &Void{Unsupported, err}
	case fault.InvalidRequest:
		return &Void{BadPlan, err}
	case fault.ProviderBusy, fault.HubDraining:
		return &GiveBack{Busy, err}
	case fault.RateLimitExceeded:
		return &GiveBack{Limited, err}
	case fault.ClientClosed:
		return &GiveBack{Stopped, err}
	default:
		return &GiveBack{PlatformDown, err}
	}
}
