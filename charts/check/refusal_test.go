package check

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWrongValuesAreRefusedByTheirName adds one wrong value to a good set.
func TestWrongValuesAreRefusedByTheirName(t *testing.T) {
	sets := valueSets(t)
	for _, c := range []struct{ set, values, want string }{
		{"default", "nonsense: 1", "nonsense"},
		{"default", "services: {edge-gatway: {replicas: 2}}", "edge-gatway"},
		{"default", "services: {router: {replica: 2}}", "replica"},
		{"default", "services: {router: {replicas: 0}}", "replicas"},
		{"default", "services: {router: {env: {SVC_PEPPER: x}}}", "SVC_PEPPER"},
		{"default", "pods: [{name: all, services: [router, catalog]}]", "provider-hub, router, edge-gateway, in this order"},
		{"default", "pods: [{name: all, services: [provider-hub, router]}]", "all has the services provider-hub, router"},
		{"grouped", "pods: [{name: all, services: [router, provider-hub, edge-gateway]}]", "in this order"},
		{"default", "pods: [{name: all, services: [router, router]}]", "services"},
		{"default", "pods: [{name: router, services: [router]}]", "router calls catalog, which is in no pod"},
		{"default", "images: {tag: v1}", "tag"},
		{"default", "images: {digests: {router: sha256:12}}", "router"},
		{"development", "images: {tag: latest}", "tag"},
		{"default", "pepper: {existingSecret: ''}", "existingSecret"},
		{"default", "pepper: {value: secret}", "value"},
		{"default", "publicURL: http://api.example.com", "publicURL"},
		{"default", "nats: {url: 'nats://nats.example.com:4222'}", "url"},
		{"default", "nats: {url: 'tls://me:secret@nats.example.com:4222'}", "url"},
		{"default", "nats: {existingSecret: nats}", "url and existingSecret are both set"},
		{"default", "nats: {replicas: 2}", "replicas"},
		{"default", "drain: {delaySeconds: 1}", "delaySeconds"},
		{"default", "config: {router: {router: {settel_for: 1s}}}", "settel_for"},
		{"default", "config: {router: {router: {settle_for: 1}}}", "settle_for"},
		{"default", "config: {billing-ledger: {billing: {pepper: abc}}}", "pepper"},
		{"default", "config: {billing-ledger: {billing: {card: {stripe_key: rk_live_x}}}}", "stripe_key"},
		{"default", "config: {router: {database_url: x}}", "database_url"},
		{"default", "secretSettings: {router: {router.pepper: {existingSecret: a, key: b}}}", "router.pepper"},
		{"default", "tls: {existingHubSecrets: [hub-0-tls]}", "existingHubSecrets: has 1 secrets"},
		{"platform", "tls: {certManager: {issuerRef: {kind: Vault}}}", "kind"},
		{"default", "ingress: {enabled: true}", "apiHost"},
		{"default", "gatewayAPI: {enabled: true, apiHost: a, providersHost: b}", "parentRefs"},
		{"default", "test: {enabled: true}", "model"},
		{"default", "development: {nats: {image: 'nats:2'}}", "image"},
		{"default", "monitoring: {serviceMonitor: {enabled: true}}", "networkPolicy.metricsFrom"},
		{"default", "ipv6: true", "networkPolicy.internetExceptIPv6"},
		{"ha", "services: {router: {autoscaling: {maxReplicas: 1}}}", "services.router.autoscaling.maxReplicas"},
	} {
		file := filepath.Join(t.TempDir(), "wrong.yaml")
		if err := os.WriteFile(file, []byte(c.values), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := template(t, sets[c.set], file)
		if err == nil {
			t.Errorf("%s with %s: got no error, want one", c.set, c.values)
		} else if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with %s: got %v, want %q in it", c.set, c.values, err, c.want)
		}
	}
}

// TestAMissingValueIsRefusedByItsName takes one value out of a good set.
func TestAMissingValueIsRefusedByItsName(t *testing.T) {
	for _, c := range []struct{ value, want string }{
		{"pepper", "pepper"}, {"verifierSealed", "verifierSealed"}, {"publicURL", "publicURL"},
		{"images.registry", "registry"},
		{"nats.url", "nats.url: is missing"},
		{"images.digests.router", "router"},
		{"images.digests.chain-signer", "images.digests.chain-signer: is missing"},
		{"tls.existingSecrets.router", "tls.existingSecrets.router: is missing"},
		{"database.existingSecrets.catalog", "database.existingSecrets.catalog: is missing"},
		{"database.existingOwnerSecrets.catalog", "database.existingOwnerSecrets.catalog: is missing"},
	} {
		without(t, "default", c.value, c.want)
	}
	without(t, "grouped", "images.digests.standalone", "images.digests.standalone: is missing")
}

// without takes a value out of a set of values and holds the error of the rest to what it must say.
func without(t *testing.T, set, value, want string) {
	t.Helper()
	values := fromYAML(t, read(t, valueSets(t)[set]))
	keys := strings.Split(value, ".")
	delete(under(values, keys[:len(keys)-1]...), keys[len(keys)-1])
	if _, err := template(t, valuesFile(t, values)); err == nil {
		t.Errorf("%s without %s: got no error, want one", set, value)
	} else if !strings.Contains(err.Error(), want) {
		t.Errorf("%s without %s: got error %v, want %q in it", set, value, err, want)
	}
}
