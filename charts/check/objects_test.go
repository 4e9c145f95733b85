package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// TestEachPodIsRestricted holds every pod, hooks and servers of development too, to the
// restricted profile and to images by digest.
func TestEachPodIsRestricted(t *testing.T) {
	eachSet(t, func(t *testing.T, set string, all []object) {
		for _, o := range all {
			spec := podSpec(o)
			if spec == nil {
				continue
			}
			where := kind(o) + " " + name(o)
			expect(t, where+": automountServiceAccountToken", spec["automountServiceAccountToken"], false)
			expect(t, where+": runAsNonRoot", under(spec, "securityContext")["runAsNonRoot"], true)
			expect(t, where+": runAsUser", under(spec, "securityContext")["runAsUser"], 65532)
			expect(t, where+": seccompProfile", under(spec, "securityContext", "seccompProfile")["type"], "RuntimeDefault")
			for _, one := range list(spec["containers"]) {
				container := mapping(one)
				security := under(container, "securityContext")
				expect(t, where+": readOnlyRootFilesystem", security["readOnlyRootFilesystem"], true)
				expect(t, where+": allowPrivilegeEscalation", security["allowPrivilegeEscalation"], false)
				expect(t, where+": dropped capabilities", fmt.Sprint(under(security, "capabilities")["drop"]), "[ALL]")
				expect(t, where+": has a limit of memory", under(container, "resources", "limits")["memory"] != nil, true)
				image, _ := container["image"].(string)
				expect(t, where+": has an image by digest", set == "development" || strings.Contains(image, "@sha256:"), true)
			}
		}
	})
}

func expect(t *testing.T, what string, got, want any) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// TestTheChartHasNoSecret finds no Secret, so that no password has a default or lies in the
// release's own record.
func TestTheChartHasNoSecret(t *testing.T) {
	eachSet(t, func(t *testing.T, _ string, all []object) {
		for _, o := range all {
			if kind(o) == "Secret" {
				t.Errorf("%s: got a Secret, want none", name(o))
			}
		}
	})
}

// TestARollOutTakesNothingAway reads how pods are replaced.
func TestARollOutTakesNothingAway(t *testing.T) {
	eachSet(t, func(t *testing.T, set string, all []object) {
		for _, o := range all {
			switch kind(o) {
			case "Deployment":
				rolling := under(o, "spec", "strategy", "rollingUpdate")
				expect(t, name(o)+": maxUnavailable", rolling["maxUnavailable"], 0)
				expect(t, name(o)+": maxSurge", rolling["maxSurge"], 1)
			case "PodDisruptionBudget":
				expect(t, name(o)+": maxUnavailable", under(o, "spec")["maxUnavailable"], 1)
			}
		}
		// Three services of one process stop one after another.
		want := map[string]int{"default": 265, "ha": 1430, "grouped": 576}[set]
		for _, o := range all {
			if want > 0 && isServing(o) && slices.Contains(servicesOf(o), "edge-gateway") {
				expect(t, name(o)+": terminationGracePeriodSeconds", podSpec(o)["terminationGracePeriodSeconds"], want)
			}
		}
	})
}

// TestThePublicIsNotLedToOperators finds what leads the public to a Service.
func TestThePublicIsNotLedToOperators(t *testing.T) {
	eachSet(t, func(t *testing.T, _ string, all []object) {
		for _, o := range all {
			switch kind(o) {
			case "Ingress", "HTTPRoute":
				if strings.Contains(fmt.Sprint(o["spec"]), "-operator") {
					t.Errorf("%s %s: got a way to the operators' API, want none", kind(o), name(o))
				}
			case "Service":
				if strings.HasSuffix(name(o), "-operator") {
					expect(t, name(o)+": type", under(o, "spec")["type"], "ClusterIP")
				}
			}
		}
	})
}

// TestThePoliciesAllowExactlyTheCallsOfTheServices compares the rules of both ends with
// files/callers.yaml, which services/standalone holds to the services' own lists.
func TestThePoliciesAllowExactlyTheCallsOfTheServices(t *testing.T) {
	callers := map[string][]string{}
	for _, one := range list(fromYAML(t, read(t, chart+"/files/callers.yaml"))["services"]) {
		service := mapping(one)
		name, _ := service["name"].(string)
		for _, caller := range list(service["callers"]) {
			callers[name] = append(callers[name], fmt.Sprint(caller))
		}
	}
	eachSet(t, func(t *testing.T, set string, all []object) {
		want := map[string]bool{}
		for service, from := range callers {
			for _, caller := range from {
				if set != "minimal" || service != "chain-signer" {
					want[caller+" to "+service] = true
				}
			}
		}
		in, out := map[string]bool{}, map[string]bool{}
		for _, o := range all {
			if kind(o) != "NetworkPolicy" {
				continue
			}
			self := selected(under(o, "spec", "podSelector"))
			for _, other := range reached(under(o, "spec"), "ingress", "from") {
				in[other+" to "+self] = true
			}
			for _, other := range reached(under(o, "spec"), "egress", "to") {
				out[self+" to "+other] = true
			}
		}
		if set == "minimal" {
			want = map[string]bool{} // it has no policies
		}
		for end, got := range map[string]map[string]bool{"ingress": in, "egress": out} {
			if !maps.Equal(got, want) {
				t.Errorf("calls that %s allows: got %v, want %v", end, slices.Sorted(maps.Keys(got)),
					slices.Sorted(maps.Keys(want)))
			}
		}
	})
}

// selected is the service whose pods a selector names.
func selected(selector map[string]any) string {
	for label := range under(selector, "matchLabels") {
		if service, ok := strings.CutPrefix(label, "svc.internal/"); ok {
			return service
		}
	}
	return ""
}

// reached are the services at the other end of the rules for gRPC.
func reached(spec map[string]any, direction, end string) []string {
	var found []string
	for _, one := range list(spec[direction]) {
		rule := mapping(one)
		if !strings.Contains(fmt.Sprint(rule["ports"]), "port:9000") {
			continue
		}
		for _, peer := range list(rule[end]) {
			found = append(found, selected(under(mapping(peer), "podSelector")))
		}
	}
	return found
}

// TestEverythingIsDeniedFirst finds the policy that selects each pod of the release and
// allows nothing.
func TestEverythingIsDeniedFirst(t *testing.T) {
	all := render(t, valueSets(t)["default"])
	at := slices.IndexFunc(all, func(o object) bool {
		return kind(o) == "NetworkPolicy" && strings.HasSuffix(name(o), "-deny")
	})
	if at < 0 {
		t.Fatal("a policy that denies: got none, want one")
	}
	spec := under(all[at], "spec")
	expect(t, "types", fmt.Sprint(spec["policyTypes"]), "[Ingress Egress]")
	expect(t, "has rules", spec["ingress"] != nil || spec["egress"] != nil, false)
	selector := under(spec, "podSelector", "matchLabels")
	for _, o := range all {
		labels := under(o, "spec", "template", "metadata", "labels")
		if podSpec(o) == nil || kind(o) == "Pod" {
			continue
		}
		for label, value := range selector {
			expect(t, kind(o)+" "+name(o)+": "+label, labels[label], value)
		}
	}
}
