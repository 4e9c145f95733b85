package chart

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"svc.internal/services/proving/internal/fleet"
)

// loopback changes what a pod is told where one machine cannot be as a cluster. These are
// all differences between what the chart renders and what a process reads:
//
//   - A path, /etc/svc/tls/tls.crt, is the same path in the folder that is the pod's file
//     system.
//   - A listener, :9000, has the port that the fleet has given the process, because all pods
//     share one address.
//   - The name of the Service of other processes, dns:///market-svc-router-grpc..., is the
//     addresses of its replicas, because there is no DNS of a cluster. So is NATS's.
//   - The address of the pod, which a hub publishes, has the hub's port.
//   - The public address, https://api.market.example, is the first gateway's without TLS,
//     because nothing here is in front of gateways.
//
// Every other text is as rendered. One that looks like an address of the cluster, and is
// none of these, is an error.
type loopback struct {
	dir, process string
	// exact are texts that become others.
	exact map[string]string
	// peers are the addresses of the replicas of services.
	peers map[string][]string
	// service matches the name of a Service with gRPC.
	service *regexp.Regexp
	gateway string
}

const (
	// podIP is the address of every pod.
	podIP = "127.0.0.1"
	// publicURL is the publicURL of values.yaml.
	publicURL = "https://api.market.example"
	// domain is the end of the names of Services.
	domain = ".market.svc.cluster.local"
)

func newLoopback(release string, p fleet.Place) *loopback {
	l := &loopback{dir: p.Dir, process: p.Name, exact: map[string]string{}}
	l.service = regexp.MustCompile(`^dns:///` + regexp.QuoteMeta(release) + `-([a-z-]+)-grpc` +
		regexp.QuoteMeta(domain) + `\.:9000$`)
	for _, one := range []struct{ text, setting string }{
		{":9000", "grpc_addr"}, {":9090", "admin_addr"}, {podIP + ":9000", "grpc_advertise"},
		{":8080", "gateway.http_addr"}, {":8082", "gateway.operator_addr"}, {":8081", "hub.ws_addr"},
		{"0.0.0.0:4222", "grpc_addr"}, {"0.0.0.0:8222", "admin_addr"},
		{"tls://" + release + "-nats" + domain + ":4222", "nats_url"},
	} {
		if to, ok := setting(p.Settings, one.setting).(string); ok {
			l.exact[one.text] = to
		}
	}
	l.peers, _ = p.Settings["peers"].(map[string][]string)
	for _, name := range []string{"verifier.edge_url", "billing.card.sandbox_url"} {
		if to, ok := setting(p.Settings, name).(string); ok {
			l.gateway = to
		}
	}
	return l
}

// fields are what the cluster would say of the pod. The pods of hubs are counted from 0.
func (l *loopback) fields() map[string]string {
	index, err := strconv.Atoi(l.process[strings.LastIndexByte(l.process, '-')+1:])
	if err != nil {
		return nil // migrations ask for nothing
	}
	return map[string]string{"metadata.labels['apps.kubernetes.io/pod-index']": strconv.Itoa(index - 1),
		"status.podIP": podIP}
}

// texts is what a text of the chart becomes: more than one for a Service with replicas.
func (l *loopback) texts(text string) ([]string, error) {
	if to, ok := l.exact[text]; ok {
		return []string{to}, nil
	}
	if found := l.service.FindStringSubmatch(text); found != nil && len(l.peers[found[1]]) > 0 {
		return l.peers[found[1]], nil
	}
	if rest, ok := strings.CutPrefix(text, publicURL); ok && l.gateway != "" && (rest == "" || rest[0] == '/') {
		return []string{l.gateway + rest}, nil
	}
	if scheme, path, ok := strings.Cut(text, "/"); ok && (scheme == "" || scheme == "file:") {
		return []string{scheme + l.dir + "/" + path}, nil
	}
	if foreign(text) {
		return nil, fmt.Errorf("%q is not known on loopback", text)
	}
	return []string{text}, nil
}

// foreign reports whether a text looks like an address of the cluster.
func foreign(text string) bool {
	if strings.HasPrefix(text, ":") || strings.HasPrefix(text, "0.0.0.0") || strings.Contains(text, "cluster.local") ||
		strings.HasPrefix(text, publicURL) {
		return true
	}
	at, err := url.Parse(text)
	return err == nil && at.Scheme == "dns"
}

// one is what a text becomes that stands for one.
func (l *loopback) one(text string) (string, error) {
	texts, err := l.texts(text)
	if err == nil && len(texts) != 1 {
		err = fmt.Errorf("%q: got %d texts for it, want 1", text, len(texts))
	}
	if err != nil {
		return "", err
	}
	return texts[0], nil
}

// file is what a file of a ConfigMap becomes.
func (l *loopback) file(name string, content []byte) ([]byte, error) {
	if strings.HasSuffix(name, ".yaml") {
		return l.yaml(content)
	}
	return l.quoted(content)
}

// yaml changes the texts of a YAML file.
func (l *loopback) yaml(content []byte) ([]byte, error) {
	var settings any
	if err := yaml.Unmarshal(content, &settings); err != nil {
		return nil, err
	}
	settings, err := l.value(settings)
	if err != nil {
		return nil, err
	}
	return yaml.Marshal(settings)
}

func (l *loopback) value(of any) (any, error) {
	switch of := of.(type) {
	case map[string]any:
		for key, inner := range of {
			changed, err := l.value(inner)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", key, err)
			}
			of[key] = changed
		}
		return of, nil
	case []any:
		var all []any
		for _, inner := range of {
			text, ok := inner.(string)
			if !ok {
				changed, err := l.value(inner)
				if err != nil {
					return nil, err
				}
				all = append(all, changed)
				continue
			}
			texts, err := l.texts(text)
			if err != nil {
				return nil, err
			}
			for _, text := range texts {
				all = append(all, text)
			}
		}
		return all, nil
	case string:
		return l.one(of)
	default:
		return of, nil
	}
}

var quotedText = regexp.MustCompile(`"[^"]*"`)

// quoted changes the quoted texts of a file, as nats.conf has them.
func (l *loopback) quoted(content []byte) ([]byte, error) {
	var faults []error
	changed := quotedText.ReplaceAllStringFunc(string(content), func(text string) string {
		to, err := l.one(text[1 : len(text)-1])
		faults = append(faults, err)
		return `"` + to + `"`
	})
	return []byte(changed), errors.Join(faults...)
}
