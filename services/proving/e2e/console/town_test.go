package console

import (
	"slices"
	"testing"

	"svc.internal/pkg/fakeengine"
	"svc.internal/services/proving/internal/trial"
)

// TestProvidersGetThroughInABrowser runs the browser's tests of how providers get through what blocks them, on a
// marketplace with chains. CONSOLE_TESTS=town chooses it alone.
func TestProvidersGetThroughInABrowser(t *testing.T) {
	if testing.Short() || len(chosen()) > 0 && !slices.Contains(chosen(), town) {
		t.Skip("it takes minutes, and was not chosen")
	}
	chromium := needBrowser(t)
	c := trial.StartTown(t, trial.Dir(t), append(visited(), "SVC_HUB_DEVELOPMENT_ENDPOINTS=true")...)
	engine := fakeengine.New(t)
	engine.Script(trial.Dear, fakeengine.Behaviour{})
	// The flows follow each other, so the first one that fails ends them.
	browse(t, c.Market, []string{"e2e/" + town + "/", "--bail", "1"},
		"CHROMIUM="+chromium, "SVC_ENGINE_URL="+engine.URL+"/v1", "SVC_MODEL="+trial.Dear,
		"SVC_INVITATION_TOWN="+invitation(t, c.Market, "town.admin"))
}
