//go:build rehearsal

package worst

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"
	"time"

	"svc.internal/services/proving/internal/fleet"
	"svc.internal/services/proving/internal/trial"
)

// copies runs NATS as a cluster of three servers.
func copies(c *fleet.Config) { c.Replicas[fleet.NATS] = 3 }

// stream is what a NATS server says of a stream.
type stream struct {
	Name    string
	Cluster struct {
		Leader   string
		Replicas []struct {
			Name    string
			Current bool
			Offline bool
		}
	}
	State struct{ Messages int64 }
}

// streams asks the NATS servers that run for the streams, and returns what the leader of each says.
func (a *audited) streams(t *testing.T) map[string]stream {
	t.Helper()
	led := map[string]stream{}
	for _, name := range a.fleet.Replicas(fleet.NATS) {
		if a.fleet.Pid(name) == 0 {
			continue
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
			a.fleet.AdminURL(name)+"/jsz?accounts=true&streams=true", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			continue // it has just started
		}
		var said struct {
			Accounts []struct {
				Streams []stream `json:"stream_detail"`
			} `json:"account_details"`
		}
		err = json.NewDecoder(resp.Body).Decode(&said)
		if closeErr := resp.Body.Close(); err != nil || closeErr != nil {
			continue
		}
		for _, account := range said.Accounts {
			for _, s := range account.Streams {
				if s.Cluster.Leader == name {
					led[s.Name] = s
				}
			}
		}
	}
	return led
}

// leader waits until USAGE has a leader that runs, and returns its name.
func (a *audited) leader(t *testing.T) (name string) {
	t.Helper()
	trial.Until(t, "USAGE has a leader", func() bool {
		name = a.streams(t)["USAGE"].Cluster.Leader
		return name != "" && a.fleet.Pid(name) != 0
	})
	return name
}

// whole waits until each stream has three copies that are up to date.
func (a *audited) whole(t *testing.T) {
	t.Helper()
	trial.Until(t, "each stream has three copies", func() bool {
		led := a.streams(t)
		for _, s := range led {
			current := 1
			for _, r := range s.Cluster.Replicas {
				if r.Current && !r.Offline {
					current++
				}
			}
			if current != 3 {
				return false
			}
		}
		return len(led) >= 3
	})
}

// kill kills processes at once.
func (a *audited) kill(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := a.fleet.Kill(name); err != nil {
			t.Fatal(err)
		}
	}
}

// start starts processes together and waits until all of them can serve.
func (a *audited) start(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := a.fleet.Launch(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.fleet.WaitReady(t.Context(), names...); err != nil {
		t.Fatal(err)
	}
}

// One of three servers costs nothing, also where it leads USAGE and comes back with an empty disk.
// Without a second one nothing is published, and all of it is when one of the two is back.
func TestNATSServersOfThreeAreLost(t *testing.T) {
	m := trial.StartFleet(t, soon, copies)
	a := audit(t, m, m.WSURLs()...)
	a.settlesMore(t, "requests are settled", 100)
	a.whole(t)

	lost := a.leader(t)
	t.Logf("%s leads USAGE", lost)
	began := time.Now()
	a.kill(t, lost)
	if err := a.fleet.WipeNATS(lost); err != nil {
		t.Fatal(err)
	}
	a.answersMore(t, "calls are answered without the server", 100, began)
	a.settlesMore(t, "requests are settled without the server", 100)
	if _, failed, _, _ := a.since(began); failed != 0 {
		t.Errorf("calls that failed while %s was away: got %d, want none", lost, failed)
	}
	a.start(t, lost)
	a.whole(t)

	lost = a.leader(t)
	servers := a.fleet.Replicas(fleet.NATS)
	other := servers[(slices.Index(servers, lost)+1)%len(servers)]
	began = time.Now()
	a.kill(t, lost, other)
	a.answersMore(t, "calls are answered with one server of three", 100, began)
	trial.Until(t, "nothing more is settled while calls are answered", func() bool {
		before, now := len(a.disk.lines(t)), time.Now()
		a.answersMore(t, "calls are answered", 50, now)
		return len(a.disk.lines(t)) == before
	})
	trial.Until(t, "usage waits in a hub", func() bool {
		return slices.ContainsFunc(a.fleet.Replicas(fleet.Hub), func(hub string) bool {
			waits, _ := a.waiting(t.Context(), hub)
			return waits
		})
	})
	began = time.Now()
	a.start(t, other)
	a.settlesMore(t, "requests are settled with two servers", 100)
	t.Logf("100 requests were settled %v after the second server was back", time.Since(began).Round(time.Millisecond))
	a.start(t, lost)
	a.whole(t)
	a.sound(t)
}
