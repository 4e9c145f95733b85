package check

import (
	"regexp"
	"slices"
	"testing"
)

// TestLinksIntoTheConsoleLeadToItsPages holds the addresses that letters have, and to which browsers are
// sent, to the routes of the console.
func TestLinksIntoTheConsoleLeadToItsPages(t *testing.T) {
	pages := []string{}
	for _, m := range regexp.MustCompile(`page\('(/[^':*]*)'`).FindAllSubmatch(
		read(t, "services/console/src/app/routes.tsx"), -1) {
		pages = append(pages, string(m[1]))
	}
	link := regexp.MustCompile(`/app(/[a-z/-]*)`)
	for path, want := range map[string][]string{
		"services/billing-ledger/internal/mail/compose.go":     {"/confirm", "/password"},
		"services/edge-gateway/internal/providerapi/openid.go": {"/", "/settings", "/sign-in"},
	} {
		found := []string{}
		for _, m := range link.FindAllSubmatch(read(t, path), -1) {
			found = append(found, string(m[1]))
		}
		for _, to := range found {
			if !slices.Contains(pages, to) {
				t.Errorf("%s: /app%s: got no page of the console, want one", path, to)
			}
		}
		for _, to := range want {
			if !slices.Contains(found, to) {
				t.Errorf("%s: got no link to /app%s, want one", path, to)
			}
		}
	}
}
