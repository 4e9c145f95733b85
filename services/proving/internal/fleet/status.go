package fleet

import (
	"context"
	"sync"
	"time"
)

// State of a process.
type State string

// The states.
const (
	// StateReady can serve.
	StateReady State = "ready"
	// StateNotReady lives and cannot serve.
	StateNotReady State = "not ready"
	// StateUp lives, and cannot be asked whether it is ready: an agent.
	StateUp State = "running"
	// StateStopped does not run.
	StateStopped State = "stopped"
)

// Status is the status of one process for an operator.
type Status struct {
	Name    string `json:"name"`
	Program string `json:"program"`
	Pid     int    `json:"pid,omitempty"`
	State   State  `json:"state"`
	// Reason says why it is not ready.
	Reason string `json:"reason,omitempty"`
	// Address is where it serves: the public, agents, other services, or clients.
	Address string `json:"address,omitempty"`
	// Admin is where its metrics and health are.
	Admin string `json:"admin,omitempty"`
	// Started is when this process began.
	Started time.Time `json:"started,omitzero"`
	Log     string    `json:"log"`
}

// Status asks all processes at once for their state, for at most three seconds.
func (f *Fleet) Status(ctx context.Context) []Status {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	names := f.Names()
	all := make([]Status, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() { all[i] = f.status(ctx, name) })
	}
	wg.Wait()
	return all
}

func (f *Fleet) status(ctx context.Context, name string) Status {
	s := Status{Name: name, Program: Program(name), Pid: f.Pid(name), State: StateStopped, Log: f.LogPath(name)}
	switch s.Program {
	case Gateway:
		s.Address = "http://" + f.layout.face(Gateway, name) + "/v1"
	case Hub:
		s.Address = "ws://" + f.layout.face(Hub, name)
		if f.cfg.Grouped {
			s.Address = "http://" + f.layout.face(Gateway, name) + "/v1 " + s.Address
		}
	case Engine:
		s.Address = "http://" + f.layout.grpc(name) + "/v1"
	case NATS:
		s.Address = f.NATSURL()
	case Agent:
	default:
		s.Address = f.layout.grpc(name)
	}
	switch s.Program {
	case Postgres, Engine, Agent:
	default:
		s.Admin = f.AdminURL(name)
	}
	if s.Pid == 0 {
		return s
	}
	m, err := f.member(name)
	if err != nil {
		return s
	}
	m.mu.Lock()
	s.Started = m.life.start
	m.mu.Unlock()
	s.State = StateReady
	if m.probe == nil {
		s.State = StateUp
	}
	if err := f.Ready(ctx, name); err != nil {
		s.State, s.Reason = StateNotReady, err.Error()
	}
	return s
}
