package check

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	// kubeStart bounds how long the API server may take to become ready, processStop the end of a process,
	// and maxAnswer what is read of an answer, in bytes.
	kubeStart   = 3 * time.Minute
	processStop = time.Minute
	maxAnswer   = 32 << 20
)

// kube is a real API server of Kubernetes with etcd behind it. It has no controllers and no kubelet.
type kube struct {
	url, token, config string
	client             *http.Client
	resources          map[string][]resource
}

// resource is a kind of object, as the API server describes it.
type resource struct {
	Name       string   `json:"name"`
	Kind       string   `json:"kind"`
	Namespaced bool     `json:"namespaced"`
	Verbs      []string `json:"verbs"`
}

// startProcess starts a program and ends it with the test. A failed test shows the end of its output.
func startProcess(t *testing.T, environ []string, program string, args ...string) {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), filepath.Base(program)+".log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = environ, log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // a process that has ended says so below
		killer := time.AfterFunc(processStop, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait() // its exit code says only that it was stopped
		killer.Stop()
		_ = log.Close() // nothing is written any more
		if t.Failed() {
			text := read(t, log.Name())
			t.Logf("%s: %s", filepath.Base(program), text[max(0, len(text)-4000):])
		}
	})
}

func freePort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }() // nobody has connected
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// startKube starts etcd and the API server on loopback.
func startKube(ctx context.Context, t *testing.T) *kube {
	t.Helper()
	programs := tool(t, "CHART_KUBE")
	dir := mounts(t.TempDir())
	dir.certify(t, "tls", "localhost")
	at := func(path string) string { return filepath.Join(string(dir), path) }
	store, peer, port := "http://127.0.0.1:"+freePort(t), "http://127.0.0.1:"+freePort(t), freePort(t)
	startProcess(t, nil, filepath.Join(programs, "server"), "--data-dir", at("etcd"), "--listen-client-urls", store,
		"--advertise-client-urls", store, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
		"--initial-cluster", "default="+peer, "--log-level", "warn", "--unsafe-no-fsync")
	k := &kube{url: "https://127.0.0.1:" + port, token: "operator-of-the-test", config: at("kubeconfig"),
		resources: map[string][]resource{}}
	dir.write(t, "tokens.csv", []byte(k.token+",operator,1,system:masters\n"))
	dir.write(t, "kubeconfig", []byte(fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: test
contexts: [{name: test, context: {cluster: test, user: test}}]
clusters: [{name: test, cluster: {server: "%s", tls-server-name: localhost, certificate-authority: "%s"}}]
users: [{name: test, user: {token: %s}}]
`, k.url, at("tls/ca.crt"), k.token)))
	startProcess(t, nil, filepath.Join(programs, "kube-apiserver"), "--etcd-servers", store,
		"--bind-address", "127.0.0.1", "--secure-port", port, "--cert-dir", at("certs"),
		"--tls-cert-file", at("tls/tls.crt"), "--tls-private-key-file", at("tls/tls.key"),
		"--token-auth-file", at("tokens.csv"), "--authorization-mode", "RBAC",
		"--service-account-issuer", "https://localhost", "--service-account-key-file", at("tls/tls.key"),
		"--service-account-signing-key-file", at("tls/tls.key"), "--service-cluster-ip-range", "10.0.0.0/24",
		// Nobody makes service accounts where no controller runs.
		"--disable-admission-plugins", "ServiceAccount", "--endpoint-reconciler-type", "none")
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(read(t, at("tls/ca.crt")))
	k.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{
		RootCAs: roots, ServerName: "localhost", MinVersion: tls.VersionTLS12}}}
	t.Cleanup(k.client.CloseIdleConnections)
	k.await(ctx, t)
	return k
}

// await waits until the API server says that it is ready.
func (k *kube) await(ctx context.Context, t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, kubeStart)
	defer cancel()
	again := time.NewTicker(200 * time.Millisecond)
	defer again.Stop()
	for {
		_, err := k.call(ctx, http.MethodGet, "/readyz", nil)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("the API server: got %v for %v, want it to be ready", err, kubeStart)
		case <-again.C:
		}
	}
}

func (k *kube) request(ctx context.Context, method, path string, body any) (*http.Response, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, k.url+path, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+k.token)
	req.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		req.Header.Set("Content-Type", "application/apply-patch+yaml")
	}
	return k.client.Do(req)
}

// call returns what the API server answers, and an error for what it refuses.
func (k *kube) call(ctx context.Context, method, path string, body any) (_ object, err error) {
	resp, err := k.request(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= http.StatusBadRequest {
		return nil, fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, text)
	}
	answer := object{}
	if json.Unmarshal(text, &answer) != nil {
		return nil, nil // /readyz answers with a word
	}
	return answer, nil
}

// must is call for what the test itself needs.
func (k *kube) must(ctx context.Context, t *testing.T, method, path string, body any) object {
	t.Helper()
	answer, err := k.call(ctx, method, path, body)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// known are the kinds of a group and version: "v1" or "apps/v1".
func (k *kube) known(ctx context.Context, t *testing.T, version string) []resource {
	t.Helper()
	if _, ok := k.resources[version]; !ok {
		text, err := json.Marshal(k.must(ctx, t, http.MethodGet, prefix(version), nil)["resources"])
		if err != nil {
			t.Fatal(err)
		}
		var all []resource
		if err := json.Unmarshal(text, &all); err != nil {
			t.Fatal(err)
		}
		k.resources[version] = slices.DeleteFunc(all, func(r resource) bool { return strings.Contains(r.Name, "/") })
	}
	return k.resources[version]
}

func prefix(version string) string {
	if strings.Contains(version, "/") {
		return "/apis/" + version
	}
	return "/api/" + version
}

// path is where the objects of an object's kind are in a namespace. The chart has no object outside of its namespace.
func (k *kube) path(ctx context.Context, t *testing.T, o object, namespace string) string {
	t.Helper()
	version, _ := o["apiVersion"].(string)
	for _, r := range k.known(ctx, t, version) {
		if r.Kind == kind(o) && r.Namespaced {
			return prefix(version) + "/namespaces/" + namespace + "/" + r.Name
		}
	}
	t.Fatalf("%s %s: got no kind of %s in namespaces, want one", kind(o), name(o), version)
	return ""
}

// inventory are the names of all objects in a namespace, with their kinds.
func (k *kube) inventory(ctx context.Context, t *testing.T, namespace string) []string {
	t.Helper()
	versions := []string{"v1"}
	for _, one := range list(k.must(ctx, t, http.MethodGet, "/apis", nil)["groups"]) {
		versions = append(versions, fmt.Sprint(under(mapping(one), "preferredVersion")["groupVersion"]))
	}
	var names []string
	for _, version := range versions {
		for _, r := range k.known(ctx, t, version) {
			if !r.Namespaced || !slices.Contains(r.Verbs, "list") {
				continue
			}
			path := prefix(version) + "/namespaces/" + namespace + "/" + r.Name
			for _, one := range list(k.must(ctx, t, http.MethodGet, path, nil)["items"]) {
				names = append(names, r.Kind+" "+name(mapping(one)))
			}
		}
	}
	slices.Sort(names)
	return names
}
