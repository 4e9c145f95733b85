package connection

import (
	"maps"
	"sync"
	"time"

	agentv2 "svc.internal/proto/svc/agent/v2"
)

// View is what a link knows of itself, of its hub and of the provider's account.
type View struct {
	// Connected reports that a session is registered, since Since. Fault says why no session is
	// registered.
	Connected bool
	Since     time.Time
	Fault     string
	// Total is how long a session was registered, over all sessions.
	Total time.Duration
	// Paused reports that no new requests are taken because the owner says so.
	Paused bool
	// Provider, ProviderID, Status and Warning are the hub's words, cleaned; empty until a
	// hub has acknowledged the agent.
	Provider, ProviderID, Status, Warning string
	// Machines is how many machines of the account are connected; 0 is not known.
	Machines int
	// Refused are models that the hub refused, with the reasons.
	Refused map[string]string
	// UnderWay is how many requests are under way.
	UnderWay int
}

// told keeps what hubs said, and counts the time for which a session was registered. It is
// safe for concurrent use.
type told struct {
	mu   sync.Mutex
	view View
	// maxMachines is the largest number of machines that a hub has reported.
	maxMachines int
}

// seen returns what is known at a time.
func (t *told) seen(now time.Time) View {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := t.view
	v.Refused = maps.Clone(v.Refused)
	if v.Connected {
		v.Total += now.Sub(v.Since)
	}
	return v
}

// up begins the time for which a session is registered, unless that time has begun.
func (t *told) up(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.view.Connected {
		t.view.Connected, t.view.Since = true, now
	}
}

// down ends that time.
func (t *told) down(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.view.Connected {
		t.view.Total += now.Sub(t.view.Since)
		t.view.Connected, t.view.Since = false, time.Time{}
	}
}

// welcome keeps what a hub said with its acknowledgement.
func (t *told) welcome(ack *agentv2.RegisterAck) {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := &t.view
	v.Provider, v.ProviderID = word(ack.GetProviderName()), word(ack.GetProviderId())
	v.Status, v.Warning = word(ack.GetStatus()), word(ack.GetWarning())
	v.Refused = map[string]string{}
	for model, why := range ack.GetRefusedModels() {
		v.Refused[word(model)] = word(why)
	}
}

// beat takes the answer to a heartbeat. It returns the status where the status has changed. It
// returns the number of machines where that is larger than one and larger than ever before, so
// that machines that come and go are not reported again. An old hub says neither.
func (t *told) beat(ack *agentv2.HeartbeatAck) (status string, machines int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if said := word(ack.GetStatus()); said != "" && said != t.view.Status {
		t.view.Status, status = said, said
	}
	if said := int(ack.GetMachines()); said > 0 {
		t.view.Machines = said
		if said > max(1, t.maxMachines) {
			t.maxMachines, machines = said, said
		}
	}
	return status, machines
}

// word is a hub's text, bounded and without control characters.
func word(text string) string { return cut(clean(text), maxError) }
