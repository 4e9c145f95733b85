package check

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// tool returns the path of a program that an environment variable names.
func tool(t *testing.T, variable string) string {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" {
		t.Skip(variable + " is not set: make chart-check sets it")
	}
	return path
}

// object is a rendered object.
type object = map[string]any

// render renders the chart with files of values, in their order.
func render(t *testing.T, files ...string) []object {
	t.Helper()
	text, err := template(t, files...)
	if err != nil {
		t.Fatalf("helm template: %v", err)
	}
	return objects(t, text)
}

func template(t *testing.T, files ...string) ([]byte, error) {
	t.Helper()
	args := []string{"template", "market", chart, "--namespace", "svc", "--kube-version", "1.30.0"}
	for _, file := range files {
		args = append(args, "-f", file)
	}
	cmd := exec.Command(tool(t, "CHART_HELM"), args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return nil, errors.Join(err, errors.New(errs.String()))
	}
	return out.Bytes(), nil
}

func objects(t *testing.T, text []byte) []object {
	t.Helper()
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var all []object
	for {
		one := object{}
		err := decoder.Decode(&one)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(one) > 0 {
			all = append(all, one)
		}
	}
}

func kind(o object) string { text, _ := o["kind"].(string); return text }

func name(o object) string { text, _ := under(o, "metadata")["name"].(string); return text }

func list(value any) []any { all, _ := value.([]any); return all }

func mapping(value any) map[string]any { one, _ := value.(map[string]any); return one }

// podSpec is the spec of an object's pods, nil for an object without pods.
func podSpec(o object) map[string]any {
	switch kind(o) {
	case "Deployment", "StatefulSet", "Job":
		return under(o, "spec", "template", "spec")
	case "Pod":
		return under(o, "spec")
	}
	return nil
}

// isServing reports whether an object has pods of services.
func isServing(o object) bool {
	return (kind(o) == "Deployment" || kind(o) == "StatefulSet") && len(servicesOf(o)) > 0
}

// servicesOf are the services of an object's pods, in the order in which the chart shows them.
func servicesOf(o object) []string {
	labels, found := under(o, "spec", "template", "metadata", "labels"), []string{}
	for _, service := range services() {
		if labels["svc.internal/"+service] != nil {
			found = append(found, service)
		}
	}
	return found
}

// configOf is the file of settings that an object's pods mount, "" for pods without one.
func configOf(all []object, o object) string {
	mounted := ""
	for _, volume := range list(podSpec(o)["volumes"]) {
		if mapping(volume)["name"] == "config" {
			mounted, _ = under(mapping(volume), "configMap")["name"].(string)
		}
	}
	for _, one := range all {
		if kind(one) == "ConfigMap" && name(one) == mounted {
			text, _ := under(one, "data")["config.yaml"].(string)
			return text
		}
	}
	return ""
}

func eachSet(t *testing.T, check func(t *testing.T, set string, all []object)) {
	t.Helper()
	for set, path := range valueSets(t) {
		t.Run(set, func(t *testing.T) { check(t, set, render(t, path)) })
	}
}

func TestHelmFindsNoFault(t *testing.T) {
	for set, path := range valueSets(t) {
		cmd := exec.Command(tool(t, "CHART_HELM"), "lint", "--strict", chart, "-f", path)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("helm lint --strict with %s: got %v, want no error: %s", set, err, out)
		}
	}
}

// foreign are the groups of objects of others, for which kubectl-validate has no schemas.
var foreign = []string{"cert-manager.io/", "monitoring.coreos.com/", "gateway.networking.k8s.io/"}

func TestKubernetesTakesEachObject(t *testing.T) {
	validate := tool(t, "CHART_VALIDATE")
	eachSet(t, func(t *testing.T, _ string, all []object) {
		dir := t.TempDir()
		written := 0
		for _, o := range all {
			version, _ := o["apiVersion"].(string)
			if strings.HasPrefix(version, foreign[0]) || strings.HasPrefix(version, foreign[1]) ||
				strings.HasPrefix(version, foreign[2]) {
				continue
			}
			text, err := yaml.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			written++
			file := filepath.Join(dir, kind(o)+"-"+name(o)+".yaml")
			if err := os.WriteFile(file, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if written < 20 {
			t.Errorf("objects that are validated: got %d, want at least 20", written)
		}
		if out, err := exec.Command(validate, dir).CombinedOutput(); err != nil {
			t.Errorf("kubectl-validate: got %v, want no error: %s", err, faults(out))
		}
	})
}

// faults are the lines of kubectl-validate but those on good files.
func faults(out []byte) string {
	var kept []string
	for line := range strings.Lines(string(out)) {
		if !strings.Contains(line, "OK") && strings.TrimSpace(line) != "" {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}
