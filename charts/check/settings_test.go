package check

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// samples are contents of the files of secrets that the sets of values name.
func samples() map[string]string {
	hexDigits := strings.Repeat("5a", 32)
	return map[string]string{
		"database/url": "postgresql://svc_login:secret@db.example.com:5432/marketplace?sslmode=verify-full",
		"nats/url":     "tls://nats.example.com:4222", "sealed/sealed.json": "{}",
		"secrets/hub.pepper": hexDigits, "secrets/billing.pepper": hexDigits,
		"secrets/billing.card.stripe_key":     "rk_test_0123456789",
		"secrets/billing.card.webhook_secret": "whsec_0123456789abcdef",
		"secrets/gateway.machine_tokens":      "backup:viewer:" + hexDigits,
	}
}

// mounts is a folder in the place of /etc/svc of a pod.
type mounts string

func newMounts(t *testing.T) mounts {
	t.Helper()
	dir := mounts(t.TempDir())
	for path, content := range samples() {
		dir.write(t, path, []byte(content))
	}
	dir.certify(t, "database-ca", "database")
	return dir
}

func (m mounts) write(t *testing.T, path string, content []byte) {
	t.Helper()
	path = filepath.Join(string(m), filepath.FromSlash(path))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// certify makes a certificate for names that signs itself, as files in a folder.
func (m mounts) certify(t *testing.T, folder string, names ...string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: names[0]}, DNSNames: names,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, leaf, leaf, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	m.write(t, folder+"/tls.crt", cert)
	m.write(t, folder+"/ca.crt", cert)
	m.write(t, folder+"/tls.key", pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private}))
}

// place puts the folder in the place of a pod's.
func (m mounts) place(text string) string {
	return strings.ReplaceAll(text, "/etc/svc/", string(m)+"/")
}

// fields are what the cluster says of a pod.
func fields(ipv6 bool) map[string]string {
	ip := "10.1.2.3"
	if ipv6 {
		ip = "fd00::3"
	}
	return map[string]string{"metadata.labels['apps.kubernetes.io/pod-index']": "0", "status.podIP": ip}
}

// environment is what a container's program gets: a variable may name one before it.
func environment(t *testing.T, container map[string]any, of map[string]string) []string {
	t.Helper()
	known := map[string]string{}
	var environ []string
	for _, one := range list(container["env"]) {
		variable := mapping(one)
		name, _ := variable["name"].(string)
		value, _ := variable["value"].(string)
		if from, _ := under(variable, "valueFrom", "fieldRef")["fieldPath"].(string); from != "" {
			if value = of[from]; value == "" {
				t.Errorf("%s: got the field %s, want one that a pod has", name, from)
			}
		}
		for other, content := range known {
			value = strings.ReplaceAll(value, "$("+other+")", content)
		}
		known[name] = value
		environ = append(environ, name+"="+value)
	}
	return environ
}

// TestEachProgramAcceptsWhatTheChartRendersForIt runs each program's -check on its settings
// and environment, with files in the place of Secrets.
func TestEachProgramAcceptsWhatTheChartRendersForIt(t *testing.T) {
	eachSet(t, func(t *testing.T, set string, all []object) {
		checked := 0
		for _, o := range all {
			if !isServing(o) {
				continue
			}
			for _, one := range list(podSpec(o)["containers"]) {
				checked += len(servicesOf(o))
				accepts(t, servicesOf(o), mapping(one), configOf(all, o), environment(t, mapping(one), fields(set == "ha")))
			}
		}
		if want := map[bool]int{true: 7, false: 8}[set == "minimal"]; checked != want {
			t.Errorf("services whose settings were checked: got %d, want %d", checked, want)
		}
	})
}

// accepts runs the program of a container with the container's own arguments.
func accepts(t *testing.T, services []string, container map[string]any, config string, environ []string) {
	t.Helper()
	dir := newMounts(t)
	for hub := range 3 {
		dir.certify(t, fmt.Sprintf("tls/hub-%d", hub), certified(services, hub)...)
	}
	dir.certify(t, "tls", services...)
	dir.write(t, "config/config.yaml", []byte(dir.place(config)))
	var args []string
	for _, arg := range list(container["args"]) {
		args = append(args, dir.place(fmt.Sprint(arg)))
	}
	name := fmt.Sprint(container["name"])
	in := make([]string, len(environ))
	for i, variable := range environ {
		in[i] = dir.place(variable)
	}
	cmd := exec.Command(program(t, name), append(args, "-check")...)
	cmd.Env = in
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s %v -check: got %v, want no error: %s\n%s", name, args, err, out, config)
	}
	for service, tool := range map[string]string{
		"billing-ledger": "verify", "settlement": "verify", "provider-hub": "peppers",
	} {
		if slices.Contains(services, service) {
			reaches(t, program(t, service), tool, in)
		}
	}
}

// reaches checks that a tool finds in the environment of its pod the database that the pod uses.
func reaches(t *testing.T, program, tool string, environ []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, tool)
	cmd.Env = environ
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Errorf("%s %s: got no error, want one, because no server is there: %s", program, tool, out)
	}
	if !strings.Contains(string(out), "db.example.com") {
		t.Errorf("%s %s: got %q, want an error that names db.example.com", program, tool, out)
	}
}
