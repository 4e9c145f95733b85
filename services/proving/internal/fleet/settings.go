package fleet

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"

	"go.yaml.in/yaml/v3"

	"svc.internal/pkg/devcerts"
	"svc.internal/services/standalone/logins"
)

func (f *Fleet) configPath(name string) string {
	if Program(name) == NATS {
		return f.dir.Path("config", name+".conf")
	}
	return f.dir.Path("config", name+".yaml")
}

// writeSettings writes the configuration file of every process that has one.
func (f *Fleet) writeSettings() error {
	for _, name := range f.named(NATS) {
		if f.cfg.Place != nil {
			if err := f.place(name, f.natsPlace(name)); err != nil {
				return err
			}
			continue
		}
		if err := f.dir.Write(f.natsSettings(name), "config", name+".conf"); err != nil {
			return err
		}
	}
	for _, service := range Services() {
		for _, name := range f.named(service) {
			values, err := f.settings(service, name)
			if err != nil {
				return fmt.Errorf("write the settings of %s: %w", name, err)
			}
			if f.cfg.Place != nil {
				if err := f.place(name, values); err != nil {
					return err
				}
				continue
			}
			text, err := yaml.Marshal(values)
			if err != nil {
				return fmt.Errorf("write the settings of %s: %w", name, err)
			}
			if err := f.dir.Write(text, "config", name+".yaml"); err != nil {
				return err
			}
		}
	}
	return nil
}

// place has Config.Place prepare a process.
func (f *Fleet) place(name string, values settings) error {
	m, err := f.member(name)
	if err != nil {
		return err
	}
	m.args, m.environ, err = f.cfg.Place(Place{name, f.dir.Path("place", name), values})
	if err != nil {
		return fmt.Errorf("prepare %s: %w", name, err)
	}
	return nil
}

type settings = map[string]any

// settings are the settings of one process, overridden by the configuration's.
func (f *Fleet) settings(service, name string) (settings, error) {
	certs := f.CertDir()
	peers, err := f.peers(service, name)
	if err != nil {
		return nil, err
	}
	nats, err := f.natsURLs(name)
	if err != nil {
		return nil, err
	}
	s := settings{
		"admin_addr": f.layout.admin(name),
		"grpc_addr":  f.layout.grpc(name),
		"tls": settings{
			"cert": devcerts.CertFile(certs, certName(name)), "key": devcerts.KeyFile(certs, certName(name)),
			"ca": f.dir.Path("certs", devcerts.CAFile),
		},
		"peers":       peers,
		"nats_url":    nats,
		"log":         settings{"level": f.cfg.LogLevel, "format": "json"},
		"drain_delay": f.cfg.DrainDelay.String(),
	}
	if f.cfg.Replicas[NATS] > 1 {
		s["nats_replicas"] = natsCluster
	}
	if f.cfg.OTLPEndpoint != "" {
		s["traces"] = settings{"otlp_endpoint": f.cfg.OTLPEndpoint}
	}
	if logins.Keeps(service) {
		if s["database_url"], err = f.databaseSecret(name); err != nil {
			return nil, err
		}
	}
	for _, own := range f.hosted(service) {
		if err := f.addOwn(s, own, name); err != nil {
			return nil, err
		}
		s = merge(s, f.cfg.Settings[own])
	}
	if f.grouped(service) {
		s["data_dir"], s["demo"] = f.dir.Path("group", name), "off"
	}
	return s, nil
}

// addOwn adds the section of a process's own service.
func (f *Fleet) addOwn(s settings, service, name string) (err error) {
	switch service {
	case Gateway:
		s["gateway"] = settings{
			"http_addr": f.layout.face(Gateway, name), "operator_addr": f.layout.operators(name),
			"machine_tokens": f.secret("machine-tokens"), "admin_tokens": f.secret("bootstrap-tokens"),
		}
	case Hub:
		if s["grpc_advertise"], err = f.cfg.via("", name, f.layout.grpc(name)); err != nil {
			return err
		}
		s["hub"] = settings{
			"id": f.hubID(name), "ws_addr": f.layout.face(Hub, name), "pepper": f.secret("pepper"),
			"journal_dir": f.JournalDir(name), "development_collateral": f.verifies(),
		}
	case Billing:
		if s["grpc_advertise"], err = f.cfg.via("", name, f.layout.grpc(name)); err != nil {
			return err
		}
		s["billing"] = settings{
			"pepper": f.secret("pepper"), "card": settings{"sandbox_url": f.firstGateway()},
			"mail": settings{"sender": "file", "folder": f.dir.Path("letters")},
		}
	case Verifier:
		s["verifier"] = settings{
			"sealed": f.dir.Path("verifier", "sealed.json"), "edge_url": f.firstGateway(),
			"development": true, "probes": f.verifies(), "benchmarks_waived": !f.verifies(),
		}
	case Signer:
		s["signer"] = settings{"development": true, "development_seed": f.dir.Path("signer", "seed")}
	case Settlement:
		// A fleet is judged soon after the faults.
		s["settlement"] = settings{
			"reconcile_interval": "10s", "fill_after": "15s", "development_collateral": f.verifies(),
		}
	}
	return nil
}

// firstGateway is the root of the public API of the first gateway.
func (f *Fleet) firstGateway() string {
	return "http://" + f.layout.face(Gateway, instance(Gateway, 1))
}

// verifies reports whether providers qualify as they do in the demo: by development
// collateral, and by benchmarks against a reference. Without references an operator
// confirms collateral and benchmarks are waived, which asks nobody.
func (f *Fleet) verifies() bool { return f.cfg.References > 0 }

// databaseSecret writes the file with the database's URL for a process, under its
// service's login.
func (f *Fleet) databaseSecret(name string) (string, error) {
	at, err := url.Parse(f.databases[Program(name)].URL)
	if err != nil {
		return "", errors.New("the database's URL cannot be read") // the error would show its password
	}
	if f.cfg.Replicas[Postgres] > 0 {
		if at.Host, err = f.cfg.via(name, instance(Postgres, 1), at.Host); err != nil {
			return "", err
		}
	}
	file := "database-url-" + name
	return f.secret(file), f.dir.Write([]byte(at.String()+"\n"), "secrets", file)
}

// certName is the name of a process's certificate. Each hub has its own, because others
// must know which hub they hear.
func certName(name string) string {
	if Program(name) == Hub {
		return name
	}
	return Program(name)
}

// JournalDir is the folder of a hub's journal.
func (f *Fleet) JournalDir(name string) string { return f.dir.Path("journal", f.hubID(name)) }

func (f *Fleet) secret(name string) string { return "file:" + f.dir.Path("secrets", name) }

// peers are the addresses of all other services.
func (f *Fleet) peers(service, from string) (map[string][]string, error) {
	peers := map[string][]string{}
	for _, other := range Services() {
		if slices.Contains(f.hosted(service), other) {
			continue
		}
		for _, name := range f.Replicas(other) {
			address, err := f.cfg.via(from, name, f.layout.grpc(name))
			if err != nil {
				return nil, err
			}
			peers[other] = append(peers[other], address)
		}
	}
	return peers, nil
}

// merge puts over onto base. Maps are merged, everything else is replaced.
func merge(base, over settings) settings {
	merged := maps.Clone(base)
	for key, value := range over {
		inner, ok := merged[key].(settings)
		if more, isMap := value.(settings); ok && isMap {
			value = merge(inner, more)
		}
		merged[key] = value
	}
	return merged
}
