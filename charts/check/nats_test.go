package check

import (
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// user is a line of the rendered configuration of NATS that names a user, with the lines of its rights.
var user = regexp.MustCompile(`\{user: "([^"]+)", permissions: \{\s+` +
	`publish: \{allow: (\[[^\]]*\])\}\s+subscribe: \{allow: (\[[^\]]*\])\}`)

// natsUsers are the users of the server of development.nats, each with what it may do.
func natsUsers(t *testing.T, all []object) (users map[string]string, config string) {
	t.Helper()
	users = map[string]string{}
	for _, o := range all {
		if kind(o) == "ConfigMap" && strings.HasSuffix(name(o), "-nats") {
			config, _ = under(o, "data")["nats.conf"].(string)
		}
	}
	for _, found := range user.FindAllStringSubmatch(config, -1) {
		users[found[1]] = found[2] + " " + found[3]
	}
	return users, config
}

// TestAHubOfAPodWithSeveralServicesMayDoOnNATSWhatEachOfThemMay compares the users of both forms. NATS takes the
// process for its hub, so that router and edge-gateway are no users then.
func TestAHubOfAPodWithSeveralServicesMayDoOnNATSWhatEachOfThemMay(t *testing.T) {
	apart, _ := natsUsers(t, render(t, valueSets(t)["development"]))
	grouped, config := natsUsers(t, render(t, together(t, "development")))
	var names []string
	for name := range grouped {
		names = append(names, name)
	}
	slices.Sort(names)
	if want := []string{"billing-ledger", "hub-0.provider-hub", "settlement", "verifier"}; !slices.Equal(names, want) {
		t.Errorf("users: got %v, want %v", names, want)
	}
	rights := func(text string) []string { return strings.FieldsFunc(text, func(r rune) bool { return r == ',' }) }
	for _, one := range []string{"hub-0.provider-hub", "router", "edge-gateway"} {
		if apart[one] == "" {
			t.Fatalf("user %s of separate pods: got none, want one", one)
		}
		publish, subscribe, _ := strings.Cut(strings.Trim(apart[one], "[]"), "] [")
		allPublish, allSubscribe, _ := strings.Cut(strings.Trim(grouped["hub-0.provider-hub"], "[]"), "] [")
		for _, right := range rights(publish) {
			if !slices.Contains(rights(allPublish), right) {
				t.Errorf("what the hub may publish: got no %s of %s, want it", right, one)
			}
		}
		for _, right := range rights(subscribe) {
			if !slices.Contains(rights(allSubscribe), right) {
				t.Errorf("what the hub may subscribe to: got no %s of %s, want it", right, one)
			}
		}
	}
	takesNATS(t, config)
}

// takesNATS has the server check a configuration.
func takesNATS(t *testing.T, config string) {
	t.Helper()
	dir := newMounts(t)
	dir.certify(t, "tls", "nats")
	config = strings.ReplaceAll(config, "/etc/nats/", string(dir)+"/")
	config = strings.ReplaceAll(config, `"/data"`, fmt.Sprintf("%q", t.TempDir()))
	dir.write(t, "nats.conf", []byte(config))
	out, err := exec.Command(program(t, "nats-server"), "-t", "-c", string(dir)+"/nats.conf").CombinedOutput()
	if err != nil {
		t.Errorf("nats-server -t: got %v, want no error: %s", err, out)
	}
}
