package check

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// mountedFiles are the paths of the files that a container has of volumes. A volume whose
// files nobody lists, as of a ConfigMap or of a Secret of cert-manager, counts with those
// that it must have.
func mountedFiles(spec, container map[string]any) []string {
	volumes := map[string]map[string]any{}
	for _, one := range list(spec["volumes"]) {
		volume := mapping(one)
		volumes[fmt.Sprint(volume["name"])] = volume
	}
	var files []string
	for _, one := range list(container["volumeMounts"]) {
		mount := mapping(one)
		at, _ := mount["mountPath"].(string)
		volume := volumes[fmt.Sprint(mount["name"])]
		sources := []any{volume}
		if projected := under(volume, "projected"); projected != nil {
			sources = list(projected["sources"])
		}
		for _, source := range sources {
			files = append(files, filesOf(at, mapping(source))...)
		}
	}
	return files
}

func filesOf(at string, volume map[string]any) []string {
	secret := under(volume, "secret")
	switch {
	case volume["configMap"] != nil:
		return []string{at + "/config.yaml"}
	case secret != nil && secret["items"] == nil:
		return []string{at + "/tls.crt", at + "/tls.key", at + "/ca.crt"}
	}
	var files []string
	for _, one := range list(secret["items"]) {
		files = append(files, at+"/"+fmt.Sprint(mapping(one)["path"]))
	}
	return files
}

var fileOfPod = regexp.MustCompile(`/etc/svc/[-./\w]+`)

// TestEachFileThatASettingNamesIsMounted compares the paths in settings, arguments and
// variables with what the volumes hold.
func TestEachFileThatASettingNamesIsMounted(t *testing.T) {
	eachSet(t, func(t *testing.T, set string, all []object) {
		named := 0
		for _, o := range all {
			spec := podSpec(o)
			for _, one := range list(spec["containers"]) {
				container := mapping(one)
				service, _ := container["name"].(string)
				texts := []string{fmt.Sprint(container["args"])}
				if isServing(o) {
					if configOf(all, o) == "" {
						t.Errorf("%s %s: got no settings, want some", kind(o), name(o))
					}
					texts = append(texts, configOf(all, o))
				}
				if service != "postgresql" {
					texts = append(texts, environment(t, container, fields(set == "ha"))...)
				}
				files := mountedFiles(spec, container)
				for _, file := range fileOfPod.FindAllString(strings.Join(texts, "\n"), -1) {
					named++
					if !slices.Contains(files, path.Clean(file)) {
						t.Errorf("%s %s names %s: got no such file in its volumes, want one of %v", kind(o), name(o), file, files)
					}
				}
			}
		}
		if named < 20 {
			t.Errorf("files that settings name: got %d, want at least 20", named)
		}
	})
}

// TestEachCertificateHasTheNamesOfItsProcess compares the certificates that cert-manager is
// asked for with the identities that services expect.
func TestEachCertificateHasTheNamesOfItsProcess(t *testing.T) {
	for _, set := range []string{"platform", "ha", "grouped"} {
		all := render(t, valueSets(t)[set])
		certificates := map[string]string{}
		for _, o := range all {
			if kind(o) == "Certificate" {
				spec := under(o, "spec")
				certificates[fmt.Sprint(spec["secretName"])] = fmt.Sprint(spec["dnsNames"])
			}
		}
		used := 0
		for _, o := range all {
			if !isServing(o) {
				continue
			}
			for hub, secret := range tlsSecrets(podSpec(o)) {
				used++
				want := fmt.Sprint(certified(servicesOf(o), hub))
				if got := certificates[secret]; got != want {
					t.Errorf("%s: names in the certificate of %s: got %s, want %s", set, secret, got, want)
				}
			}
		}
		if used != len(certificates) {
			t.Errorf("%s: certificates that pods use: got %d, want all %d", set, used, len(certificates))
		}
	}
}

// certified are the names in the certificate of a pod's process. Those of a hub come first, because NATS takes a client
// for the user that its certificate names first.
func certified(services []string, hub int) []string {
	if !slices.Contains(services, "provider-hub") {
		return services
	}
	names := []string{"provider-hub", fmt.Sprintf("hub-%d.provider-hub", hub)}
	for _, service := range services {
		if service != "provider-hub" {
			names = append(names, service)
		}
	}
	return names
}

// TestServicesBesideAHubNeedNoCertificateOfTheirOwn renders a pod of several services with Secrets that somebody made.
func TestServicesBesideAHubNeedNoCertificateOfTheirOwn(t *testing.T) {
	for _, o := range render(t, together(t, "default")) {
		if slices.Contains(servicesOf(o), "provider-hub") && isServing(o) {
			if got, want := fmt.Sprint(tlsSecrets(podSpec(o))), "[hub-0-tls hub-1-tls]"; got != want {
				t.Errorf("certificates of the pod: got %s, want %s", got, want)
			}
			return
		}
	}
	t.Error("a pod of the hub: got none, want one")
}

// together is a set of values with gateway, hub and router in one pod, without what such a pod does not need.
func together(t *testing.T, set string) string {
	t.Helper()
	values := fromYAML(t, read(t, valueSets(t)[set]))
	grouped := fromYAML(t, read(t, valueSets(t)["grouped"]))
	values["pods"] = grouped["pods"]
	delete(under(values, "tls", "existingSecrets"), "router")
	delete(under(values, "tls", "existingSecrets"), "edge-gateway")
	if digests := under(values, "images", "digests"); digests != nil {
		delete(digests, "router")
		digests["standalone"] = under(grouped, "images", "digests")["standalone"]
	}
	return valuesFile(t, values)
}

// tlsSecrets are the Secrets of a pod's certificates; those of hubs stand by their index.
func tlsSecrets(spec map[string]any) []string {
	var secrets []string
	for _, one := range list(spec["volumes"]) {
		volume := mapping(one)
		if volume["name"] != "tls" {
			continue
		}
		if secret := under(volume, "secret"); secret != nil {
			return []string{fmt.Sprint(secret["secretName"])}
		}
		for _, source := range list(under(volume, "projected")["sources"]) {
			secrets = append(secrets, fmt.Sprint(under(mapping(source), "secret")["name"]))
		}
	}
	return secrets
}
