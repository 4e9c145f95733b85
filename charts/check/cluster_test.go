package check

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	// clusterTime bounds the whole test, and helmTime one command of helm.
	clusterTime = 12 * time.Minute
	helmTime    = 3 * time.Minute
	namespace   = "svc"
	password    = "of-the-test"
)

// owners are the logins of the services' migrations.
var owners = map[string]string{"catalog": "svc_catalog_migrate", "billing-ledger": "svc_billing_migrate",
	"chain-signer": "svc_signer_migrate", "settlement": "svc_settlement_migrate", "provider-hub": "svc_hub_migrate",
	"verifier": "svc_verifier_migrate"}

// TestClusterTakesEachSetOfValues sends what each set renders to a real API server, which
// holds it to the fields of its kinds, and the pods to the restricted profile. The kinds of
// others, of cert-manager for instance, are there without their fields.
func TestClusterTakesEachSetOfValues(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), clusterTime)
	defer cancel()
	k := startKube(ctx, t)
	k.furnish(ctx, t)
	eachSet(t, func(t *testing.T, _ string, all []object) {
		pods := 0
		for _, o := range all {
			where := k.path(ctx, t, o, namespace) + "/" + name(o) + "?dryRun=All&fieldManager=check&fieldValidation=Strict"
			if _, err := k.call(ctx, http.MethodPatch, where, o); err != nil {
				t.Errorf("%s %s: got %v, want no error", kind(o), name(o), err)
			}
			if spec := podSpec(o); spec != nil && kind(o) != "Pod" {
				pods++
				k.takesPod(ctx, t, name(o), spec)
			}
		}
		if pods < 12 {
			t.Errorf("pods that the API server was asked to take: got %d, want at least 12", pods)
		}
	})
	t.Run("and refuses a pod that is not restricted", func(t *testing.T) {
		spec := object{"containers": []object{{"name": "a", "image": "a"}}}
		if got, want := fmt.Sprint(k.makePod(ctx, "loose", spec)), `violates PodSecurity "restricted`; !strings.Contains(
			strings.ReplaceAll(got, `\`, ""), want) {
			t.Errorf("a pod without a security context: got %s, want an error with %s", got, want)
		}
	})
}

func (k *kube) makePod(ctx context.Context, name string, spec object) error {
	_, err := k.call(ctx, http.MethodPost, "/api/v1/namespaces/"+namespace+"/pods?dryRun=All&fieldValidation=Strict",
		object{"apiVersion": "v1", "kind": "Pod", "metadata": object{"name": name}, "spec": spec})
	return err
}

// takesPod has the API server take a pod of a template, as a controller would make it.
func (k *kube) takesPod(ctx context.Context, t *testing.T, name string, template object) {
	t.Helper()
	spec := maps.Clone(template)
	volumes := slices.Clone(list(spec["volumes"]))
	mounted := map[any]bool{}
	for _, volume := range volumes {
		mounted[mapping(volume)["name"]] = true
	}
	for _, container := range list(spec["containers"]) {
		for _, one := range list(mapping(container)["volumeMounts"]) {
			if volume := mapping(one)["name"]; !mounted[volume] {
				mounted[volume] = true
				// The controller of StatefulSets puts a claim here for each of volumeClaimTemplates.
				volumes = append(volumes, object{"name": volume, "persistentVolumeClaim": object{"claimName": volume}})
			}
		}
	}
	spec["volumes"] = volumes
	if err := k.makePod(ctx, name, spec); err != nil {
		t.Errorf("a pod of %s: got %v, want no error", name, err)
	}
}

// furnish makes the namespace, a class of priority that a set of values names, and the kinds of others.
func (k *kube) furnish(ctx context.Context, t *testing.T) {
	t.Helper()
	k.must(ctx, t, http.MethodPost, "/api/v1/namespaces", object{"apiVersion": "v1", "kind": "Namespace",
		"metadata": object{"name": namespace, "labels": object{"pod-security.kubernetes.io/enforce": "restricted"}}})
	k.must(ctx, t, http.MethodPost, "/apis/scheduling.k8s.io/v1/priorityclasses", object{
		"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": object{"name": "production"}, "value": 1})
	for _, one := range []struct{ group, plural, kind string }{
		{"cert-manager.io", "certificates", "Certificate"}, {"gateway.networking.k8s.io", "httproutes", "HTTPRoute"},
		{"monitoring.coreos.com", "servicemonitors", "ServiceMonitor"},
		{"monitoring.coreos.com", "prometheusrules", "PrometheusRule"},
	} {
		crd := object{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
			"metadata": object{"name": one.plural + "." + one.group, "annotations": object{
				"api-approved.kubernetes.io": "unapproved, a stand-in of a test"}},
			"spec": object{"group": one.group, "scope": "Namespaced",
				"names": object{"plural": one.plural, "kind": one.kind, "singular": strings.ToLower(one.kind)},
				"versions": []object{{"name": "v1", "served": true, "storage": true, "schema": object{
					"openAPIV3Schema": object{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}}}
		k.must(ctx, t, http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
		k.awaitKind(ctx, t, "/apis/"+one.group+"/v1/namespaces/"+namespace+"/"+one.plural)
	}
}

// awaitKind waits until the API server serves a kind of others.
func (k *kube) awaitKind(ctx context.Context, t *testing.T, path string) {
	t.Helper()
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for {
		_, err := k.call(ctx, http.MethodGet, path, nil)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: got %v, want it to be served", path, err)
		case <-again.C:
		}
	}
}

// release is an installation of the chart in a cluster, beside a real marketplace on this machine: its PostgreSQL has
// the databases of the release, and its public API stands for the release's own.
type release struct {
	*kube
	*standIn
	home, server, metrics, values string
}

// TestClusterLivesThroughARelease installs the first chart, upgrades to this one with a migration that fails half
// way and then with good ones, asks a completion, and uninstalls.
func TestClusterLivesThroughARelease(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), clusterTime)
	defer cancel()
	r := startRelease(ctx, t)
	before := r.inventory(ctx, t, namespace)
	first := firstChart(ctx, t)
	r.helm(ctx, t, "install", "market", first, "-f", first+"/ci/default-values.yaml", "-f", r.values)
	r.migrated(t, "after the installation", 1)
	old := r.images(ctx, t)

	next := []string{"upgrade", "market", chart, "-f", valueSets(t)["default"], "-f", r.values, "-f", nextImages(t)}
	broken := append(slices.Clone(next), "--set", "database.existingOwnerSecrets.catalog=catalog-database-broken")
	out, err := r.tryHelm(ctx, t, broken...)
	if err == nil {
		t.Errorf("an upgrade whose migration fails: got no error, want one: %s", out)
	}
	if want := "market-svc-migrate-catalog"; !strings.Contains(string(out), want) {
		t.Errorf("an upgrade whose migration fails: got %s, want the Job's name %s in it", out, want)
	}
	if got := r.images(ctx, t); !maps.Equal(got, old) {
		t.Errorf("images after a failed upgrade: got %v, want the old ones %v", got, old)
	}
	if got, want := r.query(t, "broken", "SELECT to_regclass('catalog.model') IS NULL"), "t"; got != want {
		t.Errorf("nothing is left of the migration that failed half way: got %s, want %s", got, want)
	}
	if got, want := r.count("market-svc-migrate-catalog"), 1+3; got != want {
		t.Errorf("runs of the migration of catalog, three of which failed: got %d, want %d", got, want)
	}

	r.helm(ctx, t, next...)
	for pod, image := range r.images(ctx, t) {
		if image == old[pod] {
			t.Errorf("%s after the upgrade: got the old image %s, want the new one", pod, image)
		}
	}
	r.helm(ctx, t, "test", "market")
	if got, want := r.count("market-svc-test"), 1; got != want {
		t.Errorf("completions that helm test asked for: got %d, want %d", got, want)
	}
	r.scales(ctx, t)
	r.helm(ctx, t, "uninstall", "market")
	if got := r.inventory(ctx, t, namespace); !slices.Equal(got, before) {
		t.Errorf("objects after the release is uninstalled: got %v, want those from before it: %v", got, before)
	}
}

// migrated finds tables in the schema of each service, which its Job has made.
func (r *release) migrated(t *testing.T, when string, runs int) {
	t.Helper()
	for service, login := range owners {
		if got := r.count("market-svc-migrate-" + service); got != runs {
			t.Errorf("runs of the migration of %s %s: got %d, want %d", service, when, got, runs)
		}
		owner := strings.TrimSuffix(login, "_migrate") + "_owner"
		if got := r.query(t, "release", "SELECT count(*) > 1 FROM pg_tables WHERE tableowner = '"+owner+"'"); got != "t" {
			t.Errorf("%s has tables %s: got %s, want t", service, when, got)
		}
	}
}

// scales finds each metric by which pods are scaled among those of the marketplace.
func (r *release) scales(ctx context.Context, t *testing.T) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.metrics, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		t.Fatal(err)
	}
	values := fromYAML(t, read(t, chart+"/values.yaml"))
	for _, service := range services() {
		metric, _ := under(values, "services", service, "autoscaling")["metric"].(string)
		if metric != "" && !strings.Contains(string(text), "# TYPE "+metric+" gauge\n") {
			t.Errorf("%s, by which pods of %s are scaled: got no such metric of a real marketplace, want it", metric, service)
		}
	}
}

// images are the images of the pods that would run, by the names of their Deployments and StatefulSets.
func (r *release) images(ctx context.Context, t *testing.T) map[string]string {
	t.Helper()
	images := map[string]string{}
	for _, plural := range []string{"deployments", "statefulsets"} {
		path := "/apis/apps/v1/namespaces/" + namespace + "/" + plural
		for _, one := range list(r.must(ctx, t, http.MethodGet, path, nil)["items"]) {
			spec := under(mapping(one), "spec", "template", "spec")
			images[name(mapping(one))] = fmt.Sprint(mapping(list(spec["containers"])[0])["image"])
		}
	}
	if got, want := len(images), len(services()); got != want {
		t.Errorf("Deployments and StatefulSets of the release: got %d, want %d", got, want)
	}
	return images
}

// nextImages is a file of values with images that are not those of the set default.
func nextImages(t *testing.T) string {
	t.Helper()
	digests := map[string]string{}
	for i, service := range services() {
		digests[service] = fmt.Sprintf("sha256:%064x", 0xabc0+i)
	}
	return valuesFile(t, object{"images": object{"digests": digests}})
}

func valuesFile(t *testing.T, values object) string {
	t.Helper()
	text, err := json.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// firstChart is the chart of the first commit that has one. A clone without that commit takes the present chart.
func firstChart(ctx context.Context, t *testing.T) string {
	t.Helper()
	git := func(args ...string) ([]byte, error) {
		return exec.CommandContext(ctx, "git", append([]string{"-C", root}, args...)...).Output()
	}
	commits, err := git("log", "--diff-filter=A", "--format=%H", "--", "charts/svc/Chart.yaml")
	all := strings.Fields(string(commits))
	if err != nil || len(all) == 0 {
		t.Logf("the commit of the first chart: got %v, so the upgrade is from the present chart", err)
		return chart
	}
	archive, err := git("archive", "--format=tar", all[len(all)-1], "charts/svc")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cmd := exec.CommandContext(ctx, "tar", "-x", "-C", dir)
	cmd.Stdin = bytes.NewReader(archive)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("tar: %v: %s", err, out)
	}
	t.Logf("the upgrade is from the chart of %s", all[len(all)-1])
	return filepath.Join(dir, "charts", "svc")
}

// tryHelm runs a command of helm in the namespace.
func (r *release) tryHelm(ctx context.Context, t *testing.T, args ...string) ([]byte, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, helmTime+time.Minute)
	defer cancel()
	args = append(args, "--namespace", namespace, "--kubeconfig", r.config, "--timeout", helmTime.String())
	cmd := exec.CommandContext(ctx, tool(t, "CHART_HELM"), args...)
	cmd.Env = []string{"HOME=" + r.home}
	return cmd.CombinedOutput()
}

func (r *release) helm(ctx context.Context, t *testing.T, args ...string) {
	t.Helper()
	if out, err := r.tryHelm(ctx, t, args...); err != nil {
		t.Fatalf("helm %v: got %v, want no error: %s", args, err, out)
	}
}

// query runs a statement in a database of the release and returns its first value.
func (r *release) query(t *testing.T, database string, statements ...string) string {
	t.Helper()
	at, err := url.Parse(r.server)
	if err != nil {
		t.Fatal(err)
	}
	at.Path = "/" + database
	args := []string{"-X", "-q", "-t", "-A", "-v", "ON_ERROR_STOP=1", "-d", at.String()}
	for _, statement := range statements {
		flag := "-c"
		if strings.HasSuffix(statement, ".sql") {
			flag = "-f"
		}
		args = append(args, flag, statement)
	}
	var out, errs bytes.Buffer
	cmd := exec.Command("psql", args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("psql in %s: %v: %s", database, err, errs.String())
	}
	return strings.TrimSpace(out.String())
}
