package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/devcerts"
	"svc.internal/services/standalone/localdata"
)

// prepare takes the folder and the ports, and writes the files that the processes read.
func prepare(cfg Config) (*Fleet, error) {
	if err := cfg.fill(); err != nil {
		return nil, err
	}
	dir, err := localdata.Open(cfg.Dir)
	if err != nil {
		return nil, err
	}
	f := &Fleet{cfg: cfg, dir: dir, members: map[string]*member{}, databaseURL: cfg.DatabaseURL}
	f.life, f.stop = context.WithCancel(context.Background())
	if cfg.Taken != nil {
		if err := cfg.Taken(); err != nil {
			return nil, errors.Join(err, f.discard())
		}
	}
	if err := f.prepareIn(); err != nil {
		return nil, errors.Join(err, f.discard())
	}
	return f, nil
}

// discard releases what prepareIn took.
func (f *Fleet) discard() error {
	f.stop()
	var errs []error
	for _, m := range f.members {
		if m.log != nil {
			errs = append(errs, m.log.close())
		}
	}
	if f.guard != nil {
		errs = append(errs, f.guard.dismiss())
	}
	if f.lease != nil {
		errs = append(errs, f.lease.release())
	}
	return errors.Join(append(errs, f.dir.Close())...)
}

func (f *Fleet) prepareIn() error {
	f.layout = layout{public: fixedPublic, internal: fixedInternal}
	if !f.cfg.FixedPorts {
		lease, err := leasePorts()
		if err != nil {
			return err
		}
		f.lease, f.layout = lease, blockLayout(lease.first)
	}
	var leaves []devcerts.Leaf
	for _, service := range Services() {
		if service != Hub {
			leaves = append(leaves, devcerts.Leaf{File: service, Services: []string{service}})
		}
	}
	for i := 1; i <= f.cfg.Replicas[Hub]; i++ {
		name := instance(Hub, i)
		leaf := devcerts.Leaf{File: name, Services: []string{Hub, bus.HubName(f.hubID(name))}}
		if f.cfg.Grouped {
			leaf.Services = append(leaf.Services, Router, Gateway)
		}
		leaves = append(leaves, leaf)
	}
	leaves = append(leaves, f.natsLeaf())
	if err := devcerts.Write(f.CertDir(), leaves...); err != nil {
		return err
	}
	if _, err := f.dir.Pepper(); err != nil {
		return err
	}
	if _, err := f.dir.MachineTokens(); err != nil {
		return err
	}
	if _, err := f.dir.BootstrapTokens(); err != nil {
		return err
	}
	for _, folder := range []string{"log", "config", "nats", "journal"} {
		if err := os.MkdirAll(f.dir.Path(folder), 0o700); err != nil {
			return fmt.Errorf("make the fleet's folder: %w", err)
		}
	}
	var err error
	if f.guard, err = setGuard(); err != nil {
		return err
	}
	for _, program := range startOrder {
		for i := 1; i <= f.cfg.Replicas[program]; i++ {
			if err := f.addMember(program, instance(program, i)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *Fleet) addMember(program, name string) error {
	m := &member{name: name}
	f.members[name] = m
	if program == Postgres {
		m.launch = f.launchPostgres // PostgreSQL writes its own log
		m.probe = probeTCP(f.layout.grpc(name))
		return nil
	}
	var err error
	if m.log, err = openLog(f.LogPath(name)); err != nil {
		return err
	}
	switch program {
	case NATS:
		m.launch = f.program(m, "nats-server", nil, "-c", f.configPath(name))
		m.probe = probeHTTP(f.AdminURL(name) + "/healthz")
	case Engine:
		m.launch = f.program(m, Engine, nil, "-addr", f.layout.grpc(name))
		m.probe = probeHTTP("http://" + f.layout.grpc(name) + "/v1/models")
	case Agent:
		environ, err := f.agentEnvironment(name)
		if err != nil {
			return err
		}
		m.launch = f.program(m, Agent, environ, "run")
	default:
		args := []string{"-config", f.configPath(name)}
		if f.grouped(program) {
			program, args = groupProgram, append(args, "-services", strings.Join(group, ","))
		}
		m.launch = f.program(m, program, nil, args...)
		m.probe = probeHTTP(f.AdminURL(name) + "/readyz")
	}
	return nil
}

// program starts a program of BinDir, with these arguments unless Config.Place says others.
func (f *Fleet) program(m *member, file string, environ []string, args ...string) func(context.Context) (*life, error) {
	m.args, m.environ = args, environ
	return func(context.Context) (*life, error) {
		cmd := exec.Command(filepath.Join(f.cfg.BinDir, file), m.args...) //nolint:gosec // a program that we have built
		cmd.Dir = f.dir.Path()
		cmd.Env = append(f.cfg.environment(), m.environ...)
		return run(cmd, m.log)
	}
}
