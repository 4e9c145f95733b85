package engine

import (
	"sync"

	"svc.internal/pkg/config"
)

// server is one engine, asked with one key.
type server struct {
	url     string
	key     config.Secret
	targets []Target
	kick    chan struct{}
	learns  chan struct{} // wakes learn

	// Guarded by the pool's mutex.
	kind            string // empty until the engine has answered
	recognised      bool   // since the engine last came up
	forwarded       int    // requests of this agent under way
	limit           int    // the highest forwarded since the engine was last asked
	others, waiting int    // by the engine's own report
	mute            int    // probes without asking for that report
	life            int    // how often it has gone away
	logprobs        finding
	answered        bool // logprobs is of this life
	patience        int  // probes before it may be asked again
	// shown are the windows that Ollama has reported, by local name.
	shown map[string]int64
}

// newServer makes the engine of a target, with what is already known of that engine.
func newServer(t Target, known []*server) *server {
	e := &server{}
	for _, old := range known {
		if old.serves(t) {
			*e = *old
		}
	}
	e.url, e.key, e.targets = t.URL, t.APIKey, nil
	e.kick, e.learns = make(chan struct{}, 1), make(chan struct{}, 1)
	return e
}

// serves reports whether this is the engine of a target.
func (e *server) serves(t Target) bool { return e.url == t.URL && e.key == t.APIKey }

// each does something with all engines at once, and returns when all of it is done.
func (p *Pool) each(do func(*server)) {
	p.mu.Lock()
	servers := p.servers
	p.mu.Unlock()
	var all sync.WaitGroup
	for _, e := range servers {
		all.Go(func() { do(e) })
	}
	all.Wait()
}

// finding is what an engine has shown of log probabilities.
type finding uint8

const (
	unknown  finding = iota // it has not answered
	shown                   // an answer had log probabilities
	lacking                 // it answers chats without them, or refuses to give them
	chatless                // it takes no chats
)
