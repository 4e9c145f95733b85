package chart

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"svc.internal/services/proving/internal/fleet"
)

// rendered is a release of a catalog and a hub, in the chart's form.
const rendered = `
apiVersion: v1
kind: ConfigMap
metadata: {name: market-svc-catalog}
data:
  config.yaml: |
    admin_addr: :9090
    database_url: file:/etc/svc/database/url
    drain_delay: 5s
    grpc_addr: :9000
    log: {level: warn}
    nats_replicas: 1
    nats_url: tls://market-svc-nats.market.svc.cluster.local:4222
    peers:
      router: ["dns:///market-svc-router-grpc.market.svc.cluster.local.:9000"]
    tls: {cert: /etc/svc/tls/tls.crt}
    verifier: {edge_url: https://api.market.example, probes: false}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: market-svc-catalog}
spec:
  template:
    spec:
      containers:
        - name: catalog
          args: [-config, /etc/svc/config/config.yaml]
          env: [{name: GOMEMLIMIT, value: 400MiB}]
          volumeMounts:
            - {name: config, mountPath: /etc/svc/config}
            - {name: tls, mountPath: /etc/svc/tls}
            - {name: database, mountPath: /etc/svc/database}
            - {name: tmp, mountPath: /tmp}
      volumes:
        - {name: config, configMap: {name: market-svc-catalog}}
        - {name: tls, secret: {secretName: catalog-tls}}
        - {name: database, secret: {secretName: catalog-database, items: [{key: url, path: url}]}}
        - {name: tmp, emptyDir: {}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: market-svc-provider-hub}
spec:
  template:
    spec:
      containers:
        - name: provider-hub
          env:
            - {name: HUB_INDEX, valueFrom: {fieldRef: {fieldPath: "metadata.labels['apps.kubernetes.io/pod-index']"}}}
            - {name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
            - {name: SVC_HUB_ID, value: hub-$(HUB_INDEX)}
            - {name: SVC_GRPC_ADVERTISE, value: "$(POD_IP):9000"}
            - {name: SVC_TLS_CERT, value: /etc/svc/tls/hub-$(HUB_INDEX)/tls.crt}
`

// open reads a release from its text.
func open(t *testing.T, text string) *Chart {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rendered.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Open(path, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// catalog is where a fleet has put its first catalog.
func catalog(t *testing.T) fleet.Place {
	t.Helper()
	dir := t.TempDir()
	file := func(name string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(name+" of the fleet"), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return fleet.Place{Name: "catalog-1", Dir: filepath.Join(dir, "pod"), Settings: map[string]any{
		"grpc_addr": "127.0.0.1:20000", "admin_addr": "127.0.0.1:20001", "nats_url": "tls://127.0.0.1:20002",
		"peers":        map[string][]string{"router": {"127.0.0.1:20003", "127.0.0.1:20004"}},
		"tls":          map[string]any{"cert": file("cert"), "key": file("key"), "ca": file("ca")},
		"database_url": "file:" + file("url"), "verifier": map[string]any{"edge_url": "http://127.0.0.1:20005"},
	}}
}

func TestAProcessReadsWhatTheChartRendersForItsPod(t *testing.T) {
	p := catalog(t)
	args, environ, err := open(t, rendered).place(p)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"-config", p.Dir + "/etc/svc/config/config.yaml"}; !slices.Equal(args, want) {
		t.Errorf("the arguments: got %q, want %q", args, want)
	}
	if want := []string{"GOMEMLIMIT=400MiB"}; !slices.Equal(environ, want) {
		t.Errorf("the environment: got %q, want %q", environ, want)
	}
	var got any
	text, err := os.ReadFile(args[1])
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"admin_addr": "127.0.0.1:20001", "database_url": "file:" + p.Dir + "/etc/svc/database/url", "drain_delay": "5s",
		"grpc_addr": "127.0.0.1:20000", "log": map[string]any{"level": "warn"}, "nats_replicas": 1,
		"nats_url": "tls://127.0.0.1:20002",
		"peers":    map[string]any{"router": []any{"127.0.0.1:20003", "127.0.0.1:20004"}},
		"tls":      map[string]any{"cert": p.Dir + "/etc/svc/tls/tls.crt"},
		"verifier": map[string]any{"edge_url": "http://127.0.0.1:20005", "probes": false},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the settings: got %v, want %v", got, want)
	}
	for path, want := range map[string]string{"tls/tls.crt": "cert of the fleet", "tls/tls.key": "key of the fleet",
		"tls/ca.crt": "ca of the fleet", "database/url": "url of the fleet"} {
		got, err := os.ReadFile(filepath.Join(p.Dir, "etc", "svc", filepath.FromSlash(path)))
		if err != nil {
			t.Errorf("%s: got the error %v, want none", path, err)
		} else if string(got) != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
}

func TestAHubIsThePodOfItsIndex(t *testing.T) {
	c := open(t, rendered)
	p := fleet.Place{Name: "provider-hub-2", Dir: "/pod", Settings: map[string]any{"grpc_advertise": "127.0.0.1:20007"}}
	_, environ, err := c.place(p)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"SVC_HUB_ID=hub-1", "SVC_GRPC_ADVERTISE=127.0.0.1:20007",
		"SVC_TLS_CERT=/pod/etc/svc/tls/hub-1/tls.crt"} {
		if !slices.Contains(environ, want) {
			t.Errorf("the environment: got %q, want %q in it", environ, want)
		}
	}
}

func TestWhatAClusterWouldNotStartIsRefused(t *testing.T) {
	for _, plant := range []struct{ old, becomes, says string }{
		{"secretName: catalog-tls", "secretName: catalogue-tls", "no Secret catalogue-tls"},
		{"items: [{key: url", "items: [{key: uri", "no key uri"},
		{"configMap: {name: market-svc-catalog}", "configMap: {name: other}", "no ConfigMap other"},
		{"- {name: tmp, emptyDir: {}}", "- {name: temp, emptyDir: {}}", "volume tmp"},
		{"emptyDir: {}", "hostPath: {}", "its kind is not known"},
		{"{name: GOMEMLIMIT, value: 400MiB}", "{name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}",
			"field spec.nodeName"},
		{"admin_addr: :9090", "admin_addr: :9091", "not known on loopback"},
		{"admin_addr: :9090", "admin_addr: 0.0.0.0:9090", "not known on loopback"},
		{"market-svc-router-grpc", "market-svc-verifier-grpc", "not known on loopback"},
		{"router-grpc.market.svc", "router-grpc.other.svc", "not known on loopback"},
		{"dns:///market-svc-router-grpc.market.svc.cluster.local.", "dns:///router", "not known on loopback"},
		{"https://api.market.example", "https://api.market.example.com", "not known on loopback"},
		{"- name: catalog\n", "- name: other\n        - name: catalog\n", "containers: got 2"},
	} {
		text := strings.Replace(rendered, plant.old, plant.becomes, 1)
		if text == rendered {
			t.Errorf("%q is not in the release: this test plants nothing", plant.old)
			continue
		}
		path := filepath.Join(t.TempDir(), "rendered.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := Open(path, "")
		if err == nil {
			_, _, err = c.place(catalog(t))
		}
		if err == nil {
			t.Errorf("%q: got no error, want one", plant.becomes)
		} else if !strings.Contains(err.Error(), plant.says) {
			t.Errorf("%q: got the error %q, want %q in it", plant.becomes, err, plant.says)
		}
	}
}

func TestNATSReadsWhatTheChartRenders(t *testing.T) {
	p := fleet.Place{Name: "nats-1", Dir: "/pod", Settings: map[string]any{"grpc_addr": "127.0.0.1:20008"}}
	got, err := newLoopback("market-svc", p).file("nats.conf", []byte(
		`listen: "0.0.0.0:4222" key_file: "/etc/nats/tls/tls.key" allow: ["$JS.ACK.USAGE.>","usage.v1.*"]`))
	if err != nil {
		t.Fatal(err)
	}
	want := `listen: "127.0.0.1:20008" key_file: "/pod/etc/nats/tls/tls.key" allow: ["$JS.ACK.USAGE.>","usage.v1.*"]`
	if string(got) != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, err := newLoopback("", p).file("nats.conf", []byte(`http: "0.0.0.0:8222"`)); err == nil {
		t.Error("an address that the fleet has not given: got no error, want one")
	}
}
