package fleet

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"strings"
	"time"
)

// Config says what runs and where. Dir and BinDir are required.
type Config struct {
	// Dir holds everything that the fleet writes: database, streams, journals,
	// certificates, secrets, configuration files, logs. One fleet uses it at a time.
	Dir string
	// BinDir has the programs, as Build makes them.
	BinDir string
	// DatabaseURL is a PostgreSQL server to use, under a login that may create logins.
	// Empty starts a durable one in Dir.
	DatabaseURL string
	// FsyncOff leaves the flushing of the fleet's own database to the kernel: what is
	// committed outlives every process, but not a loss of power.
	FsyncOff bool
	// Clock makes the time of the fleet's own database one that package devclock can move.
	Clock bool
	// Replicas is how many processes of a program run, by its name. Missing programs have
	// 2 (services) or 1 (the rest), and 0 leaves one out. Agents connect to the hubs in
	// turn, the first to the first. Three of NATS are a cluster that keeps three copies of
	// each message.
	Replicas map[string]int
	// Grouped runs a router and a gateway in the process of each hub. Then Replicas of both are
	// those of the hub.
	Grouped bool
	// References is how many of the agents, the last ones, are references of the platform.
	// With one the verifier benchmarks and probes the providers of the others. Without any
	// it asks nobody, and benchmarks are waived.
	References int
	// EngineURL is the engine of the agents, ending in /v1; empty means
	// tinylm-1.
	EngineURL string
	// FixedPorts puts the public API at 127.0.0.1:8080 and 8082, hubs at 8081 and 8083,
	// and everything else from 9400. Otherwise free ports are used.
	FixedPorts bool
	// Restart starts a process again that ended by itself, once the fleet has started.
	Restart bool
	// DrainDelay is how long a process reports that it is not ready before it closes its
	// listeners; 0 means 3 s.
	DrainDelay time.Duration
	// LogLevel of the services; empty means info.
	LogLevel string
	// OTLPEndpoint receives all traces; empty records none.
	OTLPEndpoint string
	// Settings override what the fleet writes into a service's file, by program:
	// {"billing-ledger": {"billing": {"hold_lease": "5s"}}}. Maps are merged, everything
	// else is replaced.
	Settings map[string]map[string]any
	// Place, unless nil, prepares each process of a service and of NATS, and the migrations of
	// each service, instead of the fleet: it writes what the process reads, and returns the
	// arguments of the process and what its environment has beside Environ.
	Place func(p Place) (args, environ []string, err error)
	// HubsFromZero calls the hub of provider-hub-1 hub-0, as the pods of a StatefulSet are
	// counted, and not hub-1.
	HubsFromZero bool
	// Via, unless nil, returns the address at which a process finds another, such as a
	// proxy between the two. from and to are names of processes, and address is where to
	// listens. from is empty for the address that a hub publishes to everybody.
	Via func(from, to, address string) (string, error)
	// Environ, as NAME=value, is added to the environment of every process, which
	// otherwise has nothing that would change a setting.
	Environ []string
	// Log is for what an operator must know; nil means no log.
	Log *slog.Logger
	// Step is called when work begins, and the function that it returns when the work
	// ends; nil is allowed.
	Step func(name string) (done func(detail string))
	// Taken is called once the folder belongs to this fleet, before anything is started;
	// nil is allowed.
	Taken func() error
	// Report is called for each process that ended by itself; nil is allowed.
	Report func(Exit)
}

// Place is a process that Config.Place prepares.
type Place struct {
	// Name is the process's, such as catalog-1. Migrations are catalog-migrate.
	Name string
	// Dir is a folder of its own.
	Dir string
	// Settings are what the fleet would write for a service. They say where the process
	// listens, where it finds others, and in which files its secrets are. Of NATS and of
	// migrations they are those that a service of this form would have: grpc_addr (where
	// clients connect), admin_addr, tls and journal_dir (the store), or database_url.
	Settings map[string]any
}

func (c *Config) fill() error {
	if c.Dir == "" || c.BinDir == "" {
		return errors.New("fleet: Dir and BinDir are required")
	}
	replicas := map[string]int{Postgres: 1, NATS: 1, Engine: 1, Agent: 2}
	for _, program := range Services() {
		replicas[program] = 2
	}
	for program, n := range c.Replicas {
		if _, known := replicas[program]; !known {
			return fmt.Errorf("fleet: there is no program %q", program)
		}
		single := program == Postgres && c.DatabaseURL == ""
		if n < 0 || n > MaxReplicas || single && n != 1 || program == NATS && n != 1 && n != natsCluster {
			return fmt.Errorf("fleet: %d of %s cannot run", n, program)
		}
	}
	if c.Place != nil && len(c.Settings) > 0 {
		return errors.New("fleet: Settings would not change what Place writes")
	}
	if c.Place != nil && c.Replicas[NATS] > 1 {
		return errors.New("fleet: Place prepares no cluster of NATS servers")
	}
	if c.Clock && c.DatabaseURL != "" {
		return errors.New("fleet: the time of a database that is not the fleet's own stays")
	}
	maps.Copy(replicas, c.Replicas)
	if c.Grouped {
		if c.Place != nil {
			return errors.New("fleet: Place prepares processes of one service")
		}
		for _, program := range []string{Router, Gateway} {
			if n, given := c.Replicas[program]; given && n != replicas[Hub] {
				return fmt.Errorf("fleet: %d of %s cannot run in the processes of %d hubs", n, program, replicas[Hub])
			}
			replicas[program] = 0
		}
	}
	if c.DatabaseURL != "" {
		replicas[Postgres] = 0
	}
	if c.EngineURL != "" {
		replicas[Engine] = 0
	}
	if c.References < 0 || c.References >= max(1, replicas[Agent]) {
		return fmt.Errorf("fleet: %d of %d agents cannot be references", c.References, replicas[Agent])
	}
	if replicas[Agent] > 0 && replicas[Hub] == 0 {
		return errors.New("fleet: there is no hub for the agents")
	}
	c.Replicas = replicas
	if c.DrainDelay == 0 {
		c.DrainDelay = 3 * time.Second
	}
	if c.LogLevel == "" {
		c.LogLevel = "info"
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}

func (c *Config) via(from, to, address string) (string, error) {
	if c.Via == nil {
		return address, nil
	}
	return c.Via(from, to, address)
}

func (c *Config) step(name string) func(string) {
	if c.Step == nil {
		return func(string) {}
	}
	return c.Step(name)
}

// environment is the environment of all processes: that of this process without the
// variables that would override their files.
func (c *Config) environment() []string {
	var kept []string
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		if strings.HasPrefix(name, "SVC_") || strings.HasPrefix(name, "OTEL_") || name == "DATABASE_URL" ||
			name == "DATABASE_OWNER_URL" || name == "ENGINE_URL" {
			continue
		}
		kept = append(kept, variable)
	}
	return append(kept, c.Environ...)
}
