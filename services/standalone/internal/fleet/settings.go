package fleet

import (
	"fmt"
	"maps"
	"strconv"

	"go.yaml.in/yaml/v3"

	"svc.internal/pkg/devcerts"
)

func (f *Fleet) configPath(name string) string {
	if program(name) == NATS {
		return f.dir.Path("config", name+".conf")
	}
	return f.dir.Path("config", name+".yaml")
}

// writeSettings writes the configuration file of every process that has one.
func (f *Fleet) writeSettings() error {
	if err := f.dir.Write([]byte(f.databaseURL+"\n"), "secrets", "database-url"); err != nil {
		return err
	}
	for _, name := range f.named(NATS) {
		if err := f.dir.Write(f.natsSettings(name), "config", name+".conf"); err != nil {
			return err
		}
	}
	for _, service := range Services() {
		for _, name := range f.named(service) {
			text, err := yaml.Marshal(f.settings(service, name))
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

// natsSettings bound nats-server as pkg/bus bounds the one inside a process.
func (f *Fleet) natsSettings(name string) []byte {
	return fmt.Appendf(nil, `listen: %q
http: %q
max_payload: 1MB
jetstream {
  store_dir: %q
  max_file_store: 8GB
  max_memory_store: 64MB
}
`, f.layout.grpc(name), f.layout.admin(name), f.dir.Path("nats"))
}

type settings = map[string]any

// settings of one process, with the configuration's own on top.
func (f *Fleet) settings(service, name string) settings {
	certs := f.CertDir()
	s := settings{
		"admin_addr": f.layout.admin(name),
		"grpc_addr":  f.layout.grpc(name),
		"tls": settings{
			"cert": devcerts.CertFile(certs, service), "key": devcerts.KeyFile(certs, service),
			"ca": f.dir.Path("certs", devcerts.CAFile),
		},
		"peers":       f.peers(service),
		"nats_url":    f.NATSURL(),
		"log":         settings{"level": f.cfg.LogLevel, "format": "json"},
		"drain_delay": f.cfg.DrainDelay.String(),
	}
	if f.cfg.OTLPEndpoint != "" {
		s["traces"] = settings{"otlp_endpoint": f.cfg.OTLPEndpoint}
	}
	if service != Router && service != Gateway {
		s["database_url"] = f.secret("database-url")
	}
	switch service {
	case Gateway:
		s["gateway"] = settings{"http_addr": f.layout.face(name), "admin_token": f.secret("admin-token")}
	case Hub:
		s["hub"] = settings{
			"id": HubID(name), "ws_addr": f.layout.face(name), "pepper": f.secret("pepper"),
			"journal_dir": f.JournalDir(name),
		}
	case Billing:
		s["billing"] = settings{"pepper": f.secret("pepper")}
	}
	return merge(s, f.cfg.Settings[service])
}

// HubID is the id of the hub that runs as the named process.
func HubID(name string) string { return "hub-" + strconv.Itoa(number(name)) }

// JournalDir is the folder of a hub's journal.
func (f *Fleet) JournalDir(name string) string { return f.dir.Path("journal", HubID(name)) }

func (f *Fleet) secret(name string) string { return "file:" + f.dir.Path("secrets", name) }

// peers are the addresses of all other services.
func (f *Fleet) peers(service string) map[string][]string {
	peers := map[string][]string{}
	for _, other := range Services() {
		if other == service {
			continue
		}
		for _, name := range f.named(other) {
			peers[other] = append(peers[other], f.layout.grpc(name))
		}
	}
	return peers
}

// merge puts over onto base: maps are merged, all else is replaced.
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
