package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"

	"svc.internal/deploy/images/image"
	"svc.internal/deploy/images/program"
)

const (
	composeFile   = "../compose.yaml"
	variablesList = "../../pkg/config/variables.txt"
	// filesVolume has a folder for each container.
	filesVolume = "files"
	// minGrace is what a container may take to end: a hub lets streams end for two minutes.
	minGrace = 150 * time.Second
)

// secretSettings are the variables whose values are files.
var secretSettings = []string{"DATABASE_URL", "DATABASE_OWNER_URL", "SVC_PEPPER", "SVC_ADMIN_TOKENS",
	"SVC_MACHINE_TOKENS", "SVC_PROVIDER_KEY"}

// compose loads the text of a compose file as Compose does, all profiles of it, with the
// variables that images.env has.
func compose(ctx context.Context, text []byte) (*types.Project, error) {
	return composeIn(ctx, text, types.Mapping{})
}

// composeIn is compose with variables of whoever starts the fleet.
func composeIn(ctx context.Context, text []byte, environment types.Mapping) (*types.Project, error) {
	digest := "@sha256:" + strings.Repeat("0", 64)
	environment["POSTGRES_IMAGE"] = "postgres:15" + digest
	for _, name := range program.Names() {
		environment[variable(name)] = "svc.internal/" + name + ":test" + digest
	}
	details := types.ConfigDetails{
		WorkingDir: "..", Environment: environment,
		ConfigFiles: []types.ConfigFile{{Filename: composeFile, Content: text}},
	}
	return loader.LoadWithContext(ctx, details, loader.WithProfiles([]string{"*"}))
}

func composeText(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(composeFile)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// fleetOf is the tree's compose file.
func fleetOf(t *testing.T) *types.Project {
	t.Helper()
	fleet, err := compose(t.Context(), []byte(composeText(t)))
	if err != nil {
		t.Fatal(err)
	}
	return fleet
}

// once reports whether a container ends by itself.
func once(s types.ServiceConfig) bool { return s.Restart == types.RestartPolicyNo }

// faults returns what is wrong with a fleet. known are the variables that programs read.
func faults(fleet *types.Project, known []string) []string {
	var found []string
	for _, name := range slices.Sorted(maps.Keys(fleet.Services)) {
		s := fleet.Services[name]
		all := slices.Concat(hardening(s), life(fleet, s), settings(s, known), files(s), order(fleet, s))
		for _, fault := range all {
			found = append(found, name+": "+fault)
		}
	}
	return append(found, missing(fleet)...)
}

// rules are claims, and whether each of them holds.
type rules map[string]bool

// broken are the claims that do not hold.
func (r rules) broken() []string {
	var found []string
	for _, claim := range slices.Sorted(maps.Keys(r)) {
		if !r[claim] {
			found = append(found, claim)
		}
	}
	return found
}

// hardening returns what lets a container do more than it needs.
func hardening(s types.ServiceConfig) []string {
	claims := rules{
		"user is " + image.User:      s.User == image.User,
		"read_only is true":          s.ReadOnly,
		"cap_drop is ALL":            slices.Equal(s.CapDrop, []string{"ALL"}),
		"there is no cap_add":        len(s.CapAdd) == 0,
		"it is not privileged":       !s.Privileged,
		"new privileges are refused": slices.Contains(s.SecurityOpt, "no-new-privileges:true"),
		"pids_limit is set":          s.PidsLimit > 0,
		"the log is bounded":         s.Logging != nil && s.Logging.Options["max-size"] != "",
		"the image has a digest":     strings.Contains(s.Image, "@sha256:"),
	}
	for _, port := range s.Ports {
		claims["port "+port.Published+" is on loopback"] = port.HostIP == "127.0.0.1"
	}
	return claims.broken()
}

// life returns what is wrong with how a container starts and ends.
func life(fleet *types.Project, s types.ServiceConfig) []string {
	if once(s) {
		awaited := false
		for _, other := range fleet.Services {
			awaited = awaited || other.DependsOn[s.Name].Condition == types.ServiceConditionCompletedSuccessfully
		}
		return rules{"somebody waits for its end": awaited}.broken()
	}
	return rules{
		"healthcheck is set":  s.HealthCheck != nil && !s.HealthCheck.Disable && len(s.HealthCheck.Test) > 1,
		"it is restarted":     s.Restart == types.RestartPolicyUnlessStopped,
		"it may end in 150 s": s.StopGracePeriod != nil && time.Duration(*s.StopGracePeriod) >= minGrace,
		"it is asked without a shell": s.HealthCheck == nil || len(s.HealthCheck.Test) == 0 ||
			s.HealthCheck.Test[0] == "CMD",
	}.broken()
}

// settings returns the variables that no program reads, and secrets that are no files.
func settings(s types.ServiceConfig, known []string) []string {
	claims := rules{}
	for name, value := range s.Environment {
		own := strings.HasPrefix(name, "SVC_") || strings.HasPrefix(name, "DATABASE_")
		claims["a program reads "+name] = !own || slices.Contains(known, name)
		claims[name+" is a file"] = !slices.Contains(secretSettings, name) || value != nil &&
			strings.HasPrefix(*value, "file:")
	}
	return claims.broken()
}

// files returns what is wrong with the secrets that a container sees: it sees the folder
// with its own name. fleetfiles alone sees all, and writes them.
func files(s types.ServiceConfig) []string {
	claims := rules{}
	for _, volume := range s.Volumes {
		if volume.Source != filesVolume || volume.Target == image.StateDir && once(s) &&
			strings.Contains(s.Image, program.Support) {
			continue
		}
		folder := ""
		if volume.Volume != nil {
			folder = volume.Volume.Subpath
		}
		own := folder == s.Name || folder == s.Name+"-init" || s.Name == "logins" && folder == "fleetfiles"
		claims["the files at "+volume.Target+" are its own"] = own
		claims["the files at "+volume.Target+" are read-only"] = volume.ReadOnly
	}
	return claims.broken()
}

// order returns what a container does not wait for.
func order(fleet *types.Project, s types.ServiceConfig) []string {
	claims := rules{}
	if s.Environment["DATABASE_URL"] != nil {
		migration := s.Name + "-migrate"
		claims["it waits for its migrations"] =
			s.DependsOn[migration].Condition == types.ServiceConditionCompletedSuccessfully
		claims["its migrations have its image"] = fleet.Services[migration].Image == s.Image
		claims["its migrations migrate"] = slices.Equal(fleet.Services[migration].Command, []string{"migrate"})
	}
	if s.Environment["DATABASE_OWNER_URL"] != nil {
		claims["it waits for the logins"] = s.DependsOn["logins"].Condition ==
			types.ServiceConditionCompletedSuccessfully
	}
	if s.Environment["SVC_NATS_URL"] != nil {
		claims["it waits for NATS"] = s.DependsOn["nats"].Condition == types.ServiceConditionHealthy
	}
	if peers := s.Environment["SVC_PEERS"]; peers != nil {
		for peer := range strings.SplitSeq(*peers, ",") {
			_, at, _ := strings.Cut(peer, "=dns:///")
			host, _, _ := strings.Cut(at, ":")
			_, there := fleet.Services[host]
			claims["the peer "+peer+" is a container"] = there
		}
	}
	return claims.broken()
}

// missing returns the images of the tree that no container is made of. A fleet on one machine runs each service by
// itself, so that it has no container of Group.
func missing(fleet *types.Project) []string {
	claims := rules{}
	for _, name := range program.Names() {
		if name == program.Group {
			continue
		}
		claims["there is "+name] = false
		for _, s := range fleet.Services {
			if strings.HasPrefix(s.Image, "svc.internal/"+name+":") {
				claims["there is "+name] = true
			}
		}
	}
	for _, name := range program.Services() {
		s, there := fleet.Services[name]
		claims["there is the service "+name] = there && strings.HasPrefix(s.Image, "svc.internal/"+name+":")
	}
	return claims.broken()
}

// knownVariables are the variables that the tree's programs read.
func knownVariables(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(variablesList)
	if err != nil {
		t.Fatal(err)
	}
	return append(strings.Fields(string(text)), "DATABASE_URL", "DATABASE_OWNER_URL")
}

func TestTheComposeFileIsAWholeFleet(t *testing.T) {
	for _, fault := range faults(fleetOf(t), knownVariables(t)) {
		t.Errorf("not true of %s", fault)
	}
}

// A rule that finds nothing would let everything pass.
func TestAPlantedFaultOfTheComposeFileIsFound(t *testing.T) {
	text, known := composeText(t), knownVariables(t)
	for _, plant := range []struct{ old, becomes, says string }{
		{`user: "65532:65532"`, `user: "0:0"`, "user is 65532:65532"},
		{"read_only: true\n  cap_drop", "read_only: false\n  cap_drop", "read_only is true"},
		{"cap_drop: [ALL]", "cap_drop: [NET_RAW]", "cap_drop is ALL"},
		{"cap_drop: [ALL]", "cap_drop: [ALL]\n  cap_add: [NET_ADMIN]", "there is no cap_add"},
		{"cap_drop: [ALL]", "cap_drop: [ALL]\n  privileged: true", "it is not privileged"},
		{"no-new-privileges:true", "no-new-privileges:false", "new privileges are refused"},
		{"  pids_limit: 1024\n", "", "pids_limit is set"},
		{"{max-size: 16m, ", "{", "the log is bounded"},
		{"test: [CMD, /bin/router, ready]", "disable: true", "router: healthcheck is set"},
		{"restart: unless-stopped", "restart: always", "it is restarted"},
		{"stop_grace_period: 160s", "stop_grace_period: 10s", "it may end in 150 s"},
		{"[CMD, /bin/router, ready]", "[CMD-SHELL, /bin/router ready]", "router: it is asked without a shell"},
		{"SVC_HUB_ID: hub-1", "SVC_HUB_IDS: hub-1", "a program reads SVC_HUB_IDS"},
		{"SVC_PEPPER: file:/etc/svc/pepper", "SVC_PEPPER: secret", "SVC_PEPPER is a file"},
		{"{subpath: router}", "{subpath: settlement}", "router: the files at /etc/svc are its own"},
		{"read_only: true, volume: {subpath: router}", "volume: {subpath: router}",
			"router: the files at /etc/svc are read-only"},
		{"catalog-migrate: {condition: service_completed_successfully}", "catalog-migrate: {condition: service_started}",
			"catalog: it waits for its migrations"},
		{"command: [migrate]", "command: [-check]", "catalog: its migrations migrate"},
		{"logins: {condition: service_completed_successfully}", "logins: {condition: service_started}",
			"catalog-migrate: it waits for the logins"},
		{"nats: {condition: service_healthy}", "nats: {condition: service_started}", "router: it waits for NATS"},
		{"catalog=dns:///catalog:9000,provider-hub", "catalog=dns:///catalogue:9000,provider-hub", "is a container"},
		{"image: ${ROUTER_IMAGE:?make images writes it to .bin/images/images.env}", "image: router:1",
			"there is router"},
		{"127.0.0.1:8082:8082", "${PUBLISH:-0.0.0.0}:8082:8082", "port 8082 is on loopback"},
		{"${POSTGRES_IMAGE:?name the official image of PostgreSQL by its digest}", "postgres:15",
			"postgres: the image has a digest"},
	} {
		changed := strings.Replace(text, plant.old, plant.becomes, 1)
		if changed == text {
			t.Errorf("%q is not in the file: this test plants nothing", plant.old)
			continue
		}
		fleet, err := compose(t.Context(), []byte(changed))
		if err != nil {
			t.Errorf("%q: got the error %v, want a file that loads", plant.becomes, err)
			continue
		}
		if found := strings.Join(faults(fleet, known), "\n"); !strings.Contains(found, plant.says) {
			t.Errorf("%q: got %q, want %q in it", plant.becomes, found, plant.says)
		}
	}
}

// hostsOf are the addresses at which the ports of a fleet are published.
func hostsOf(t *testing.T, text string, publish string) map[string]string {
	t.Helper()
	fleet, err := composeIn(t.Context(), []byte(text), types.Mapping{"PUBLISH": publish})
	if err != nil {
		t.Fatal(err)
	}
	hosts := map[string]string{}
	for _, service := range fleet.Services {
		for _, port := range service.Ports {
			hosts[port.Published] = port.HostIP
		}
	}
	return hosts
}

func TestPublishOpensThePublicPortsAndNeverTheOperators(t *testing.T) {
	const everywhere = "0.0.0.0"
	text := composeText(t)
	want := map[string]string{"8080": everywhere, "8081": everywhere, "8082": "127.0.0.1"}
	if got := hostsOf(t, text, everywhere); !maps.Equal(got, want) {
		t.Errorf("published ports: got %v, want %v", got, want)
	}
	planted := strings.Replace(text, "127.0.0.1:8082:8082", "${PUBLISH:-127.0.0.1}:8082:8082", 1)
	if got := hostsOf(t, planted, everywhere); maps.Equal(got, want) {
		t.Error("a port of operators that follows PUBLISH: got no difference, want one")
	}
}

func TestAComposeFileWithAnUnknownKeyOrWithoutItsImagesIsRefused(t *testing.T) {
	text := composeText(t)
	for _, plant := range []struct{ old, becomes, says string }{
		{"  cap_drop: [ALL]", "  cap_drops: [ALL]", "cap_drops"},
		{"stop_grace_period: 160s", "stop_grace_period: soon", "stop_grace_period"},
		{"volumes:\n  files:\n", "volumes:\n", "files"},
		{"ROUTER_IMAGE", "NO_IMAGE", "make images"},
	} {
		changed := strings.Replace(text, plant.old, plant.becomes, 1)
		if changed == text {
			t.Errorf("%q is not in the file: this test plants nothing", plant.old)
		}
		if _, err := compose(t.Context(), []byte(changed)); err == nil {
			t.Errorf("%q: got no error, want one", plant.becomes)
		} else if !strings.Contains(err.Error(), plant.says) {
			t.Errorf("%q: got the error %q, want %q in it", plant.becomes, err, plant.says)
		}
	}
}

// reads are the variables that a service's program reads, which -print shows.
func reads(t *testing.T, root, name string) []string {
	t.Helper()
	out, err := start(t, ofHost(t, name), root, nil, "-print")
	if err != nil {
		t.Fatalf("got the error %v, want none: %s", err, out)
	}
	var found []string
	for line := range strings.Lines(out) {
		if _, name, ok := strings.Cut(strings.TrimSpace(line), "# "); ok {
			found = append(found, name)
		}
	}
	return found
}

// ownFiles makes the files of all containers by the tree's own image, as the container
// files does, and returns their folder.
func ownFiles(t *testing.T, fleet *types.Project) string {
	t.Helper()
	root, of := rootDir(t), ofHost(t, program.Support)
	extract(t, of, root)
	out, err := start(t, of, root, nil, fleet.Services["files"].Command...)
	if err != nil {
		t.Fatalf("got the error %v, want none: %s", err, out)
	}
	return filepath.Join(root, filepath.FromSlash(image.StateDir))
}

// giveFiles puts a container's own folder where the container has it, with a database's URL,
// which logins would write.
func giveFiles(t *testing.T, from, root string) {
	t.Helper()
	to := filepath.Join(root, "etc", "svc")
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	at := "postgres://user:word@postgres:5432/marketplace?sslmode=verify-full&sslrootcert=/etc/svc/ca.pem\n"
	if err := os.WriteFile(filepath.Join(to, "database-url"), []byte(at), 0o600); err != nil {
		t.Fatal(err)
	}
	give(t, to)
}

// give makes a folder and what is in it the property of the images' user.
func give(t *testing.T, dir string) {
	t.Helper()
	if os.Getuid() != 0 {
		return // the user namespace makes this user the images' user
	}
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, 65532, 65532)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Each service's own program accepts the settings that the compose file gives it, with the
// files that the compose file makes, and reads every variable of them.
func TestTheServicesAcceptTheSettingsOfTheComposeFile(t *testing.T) {
	written(t)
	fleet := fleetOf(t)
	made := ownFiles(t, fleet)
	for _, name := range program.Services() {
		t.Run(name, func(t *testing.T) {
			root, of, s := rootDir(t), ofHost(t, name), fleet.Services[name]
			extract(t, of, root)
			giveFiles(t, filepath.Join(made, name), root)
			known := reads(t, root, name)
			var environ []string
			for variable, value := range s.Environment {
				environ = append(environ, fmt.Sprintf("%s=%s", variable, *value))
				if !slices.Contains(known, variable) {
					t.Errorf("%s: the program does not read it", variable)
				}
			}
			out, err := start(t, of, root, environ, "-check")
			if err != nil {
				t.Errorf("got the error %v, want none: %s", err, out)
			}
		})
	}
}
