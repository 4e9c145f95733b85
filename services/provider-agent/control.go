package provideragent

import (
	"svc.internal/services/provider-agent/internal/control"
)

// State is what the agent knows, for its owner on this machine.
func (a *Agent) State() control.State {
	w, link := a.watched, a.link.View()
	state := control.State{
		Version: w.version, NodeID: a.nodeID, NodeName: w.nodeName, Hub: w.hub, StartedAt: w.started.UTC(),
		Connection: control.Connecting, Fault: link.Fault, Paused: link.Paused,
		Account: control.Account{ProviderID: link.ProviderID, Name: link.Provider, Status: link.Status,
			Warning: link.Warning, Machines: link.Machines},
		Models: []control.Model{}, ModelsFault: a.ModelsFault(),
	}
	if link.Connected {
		since := link.Since.UTC()
		state.Connection, state.ConnectedSince, state.Fault = control.Connected, &since, ""
	}
	if w.draining.Load() {
		state.Connection = control.Draining
	}
	if ran := w.clock.Now().Sub(w.started); ran > 0 {
		state.Uptime = min(1, link.Total.Seconds()/ran.Seconds())
	}
	for _, s := range a.pool.States() {
		state.Models = append(state.Models, control.Model{
			ModelID: s.ModelID, Healthy: s.Healthy, Reason: s.Reason, Refused: link.Refused[s.ModelID],
			ContextLength: s.ContextLength, Engine: s.Engine, Counts: w.tally.Of(s.ModelID),
		})
	}
	state.Requests, state.Failures = w.tally.All()
	kept := a.kept.Status()
	state.Receipts = control.Receipts{Waiting: kept.Kept, Dropped: kept.Dropped, Refused: kept.Refused}
	return state
}

// Pause has the agent take no new requests while the connection stays, or take them again. A
// restart ends a pause.
func (a *Agent) Pause(paused bool) { a.link.Pause(paused) }

// Drain has Run take no new requests, end the requests under way and return.
func (a *Agent) Drain() {
	a.watched.draining.Store(true)
	a.watched.drainOnce.Do(func() { close(a.watched.drain) })
}
