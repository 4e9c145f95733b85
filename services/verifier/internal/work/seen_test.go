package work

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/services/verifier/internal/ladder"
	"svc.internal/services/verifier/internal/offers"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/standing"
	"svc.internal/services/verifier/internal/store/storetest"
)

// listed is a catalog with the models of a set.
type listed map[string]bool

func (l listed) Find(id string) (Model, bool) { return Model{Active: true, Window: 1024}, l[id] }

// A provider that names hundreds of models that nobody can ask for would fill its report, in
// which the routers then miss the model that is served.
func TestAModelThatTheCatalogDoesNotHaveGetsNoStanding(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	provider := storetest.Provider(t)
	session := offers.Session{Provider: provider, Node: "n", Epoch: 1, Models: []offers.Model{{ID: "real", Healthy: true}}}
	for n := range 100 {
		session.Models = append(session.Models, offers.Model{ID: fmt.Sprint("a name ", n), Healthy: true})
	}
	view := offers.New()
	view.Apply(offers.Report{Hub: "h", Incarnation: 1, Address: "h:1", Revision: 1, Sessions: []offers.Session{session}},
		time.Now())
	log, catalog := slog.New(slog.DiscardHandler), listed{}
	m := &Mover{Store: e.Stores[0], Limits: ladder.DemoThresholds(), Offers: view, Models: catalog,
		Book: NewBook(e.Stores[0]), Log: log, Changed: func(ids.ProviderID) {},
		Observer: Observer{Moved: func(context.Context, probe.Offer, standing.Event, standing.Outcome) {}}}
	seen := &Seen{Store: e.Stores[0], Mover: m, Offers: view, Log: log}
	for _, want := range []int{0, 1} {
		if err := seen.Pass(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		report, err := Reports{Store: e.Stores[0]}.Report(t.Context(), provider)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(report.Opinions); got != want {
			t.Errorf("opinions with %d models in the catalog: got %d, want %d", len(catalog), got, want)
		}
		catalog["real"] = true
	}
}
