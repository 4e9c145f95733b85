package verification

import (
	"context"
	"net/http"
	"testing"

	"svc.internal/pkg/fakeagent"
	"svc.internal/services/proving/internal/cheat"
	"svc.internal/services/proving/internal/trial"
)

// joinV1 is join for an agent of dialect v1, as it is.
func (l *laboratory) joinV1(t testing.TB, name string, engine http.Handler, model string) *seat {
	t.Helper()
	p := l.account(t, name)
	a := fakeagent.StartV1(fakeagent.V1Options{
		URL: l.m.WSURL(), ServiceURL: l.m.Base(), Key: p.Key, NodeName: name, Models: []string{model},
		LocalModel: cheat.Model, ContextLength: window, Handler: cheat.V1(engine),
	})
	t.Cleanup(a.Stop)
	ctx, cancel := context.WithTimeout(t.Context(), trial.Patience)
	defer cancel()
	if err := a.AwaitRegistered(ctx); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return &seat{Provider: p, leave: a.Stop}
}
