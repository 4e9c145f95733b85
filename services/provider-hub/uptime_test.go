package providerhub_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/fakeagent"
	hubv1 "svc.internal/proto/svc/hub/v1"
)

// record is what the database knows of connections and hubs, oldest first.
func (w *world) record() (connections, runs string) {
	w.t.Helper()
	must(w.t, w.db.QueryRow(w.t.Context(), `
		SELECT coalesce(string_agg(coalesce(ended_by, 'open'), ' ' ORDER BY epoch), '') FROM presence_interval`).Scan(
		&connections))
	must(w.t, w.db.QueryRow(w.t.Context(), `
		SELECT coalesce(string_agg(CASE WHEN ended IS NULL THEN 'runs' ELSE 'ended' END, ' ' ORDER BY incarnation), '')
		FROM hub_run`).Scan(&runs))
	return connections, runs
}

// brief is surely shorter than what counts of a connection that its node gives up,
// five seconds by the hub's clock.
const brief = 3 * time.Second

func (w *world) recorded(connections, runs string) {
	w.t.Helper()
	w.eventually("the record of presence", func() error {
		if c, r := w.record(); c != connections || r != runs {
			return fmt.Errorf("connections %q, runs %q; want %q and %q", c, r, connections, runs)
		}
		return nil
	})
}

func TestAStopOfTheHubIsRecordedAsThePlatforms(t *testing.T) {
	w := setup(t)
	m := w.active()
	a := w.dial(m, fakeagent.Options{})
	w.recorded("open", "runs")
	w.halt(w.hub)
	wait(t, "the end of the socket", a.Closed())
	if c, r := w.record(); c != "platform" {
		t.Errorf(`after the stop: connections: got %q, want "platform"`, c)
	} else if r != "ended" {
		t.Errorf(`after the stop: r of w.record(): got %q, want "ended"`, r)
	}
	w.start()
	began := time.Now()
	b := w.dial(m, fakeagent.Options{})
	w.recorded("platform open", "ended runs")
	b.Kill()
	if time.Since(began) < brief {
		w.recorded("platform", "ended runs")
	} else {
		w.eventually("the end of the connection is recorded", func() error {
			if c, _ := w.record(); c == "platform open" {
				return errors.New("it is not")
			}
			return nil
		})
	}
	got, err := w.hub.admin.GetProviderDetail(t.Context(), &hubv1.GetProviderDetailRequest{ProviderId: m.id})
	switch {
	case err != nil:
		t.Errorf("got the error %v, want none", err)
	case got.GetProvider().GetUptime_30D() < 0.5:
		t.Errorf("detail: got.GetProvider().GetUptime_30D(): got %v, want at least 0.5", got.GetProvider().GetUptime_30D())
	case len(got.GetNodes()) != 1:
		t.Errorf("detail: len(got.GetNodes()): got %d, want 1, in %v", len(got.GetNodes()), got)
	case got.GetNodes()[0].GetOnline():
		t.Error("detail: got.GetNodes()[0].GetOnline(): got true, want false")
	}
	list, err := w.hub.admin.ListProviders(t.Context(), &hubv1.ListProvidersRequest{})
	switch {
	case err != nil:
		t.Errorf("got the error %v, want none", err)
	case len(list.GetList()) != 1:
		t.Errorf("len(list.GetList()): got %d, want 1, in %v", len(list.GetList()), list)
	case list.GetList()[0].GetOnline():
		t.Error("list.GetList()[0].GetOnline(): got true, want false")
	case !strings.HasPrefix(list.GetList()[0].GetName(), "Farm"):
		t.Errorf(`list.GetList()[0].GetName(): got %q, want the prefix "Farm"`, list.GetList()[0].GetName())
	}
}
