//go:build rehearsal

package worst

import (
	"os"
	"testing"
	"time"

	"svc.internal/services/proving/internal/fleet"
	"svc.internal/services/proving/internal/trial"
)

// A hub's volume is lost, with the usage and the receipts that the hub had not published. Its gateways
// live, or one of them is lost at the same moment, and the agents live: what they know is enough.
func TestAHubsVolumeAloneCostsNothing(t *testing.T) {
	m := trial.StartFleet(t, soon)
	a := audit(t, m, m.WSURLs()...)
	gateway := a.fleet.Replicas(fleet.Gateway)[0]
	for _, hub := range a.fleet.Replicas(fleet.Hub) {
		for _, also := range [][]string{nil, {gateway}} {
			a.settlesMore(t, "requests are settled", 50)
			began := time.Now()
			a.kill(t, append(also, hub)...)
			if err := os.RemoveAll(a.fleet.JournalDir(hub)); err != nil {
				t.Fatal(err)
			}
			a.start(t, append(also, hub)...)
			a.answersMore(t, "calls are answered", 50, began)
			_, failed, _, _ := a.since(began)
			t.Logf("%d calls failed after %s was lost with its volume, and with it %v", failed, hub, also)
		}
	}
	a.sound(t)
}
