package providerhub_test

import (
	"context"
	"net"
	"path/filepath"
	"testing"

	"go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/devcerts"
	"svc.internal/pkg/fakeagent"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/node"
	"svc.internal/pkg/serve"
	eventsv1 "svc.internal/proto/svc/events/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
	providerhub "svc.internal/services/provider-hub"
)

const testVerdict = "01890000-0000-4000-8000-00000000000a"

func TestAnExpelReachesEveryHubAndAReversalLetsTheAgentsBackIn(t *testing.T) {
	t.Parallel()
	w := setup(t)
	m := w.active()
	first := w.hub
	here := w.dial(m, fakeagent.Options{NodeID: "node-0001"})
	w.cfg.HubID, w.cfg.JournalDir = "hub-b", t.TempDir()
	w.start()
	second := w.hub
	there := w.dial(m, fakeagent.Options{NodeID: "node-0002"})
	w.hub = first
	_, err := w.hub.verdict.Expel(t.Context(), &hubv1.ExpelRequest{ProviderId: m.id, VerdictId: testVerdict})
	must(t, err)
	for name, a := range map[string]*fakeagent.Agent{"the hub that was asked": here, "the other hub": there} {
		wait(t, "the end of the connection to "+name, a.Closed())
		if got := a.Farewell().GetCode(); got != "suspended" {
			t.Errorf(`%s says: got %q, want "suspended"`, name, got)
		}
	}
	for name, hub := range map[string]*running{"the hub that was asked": first, "the other hub": second} {
		w.hub = hub
		if _, err := w.tryDial(m, fakeagent.Options{}); err == nil {
			t.Errorf("%s lets an expelled provider in", name)
		}
	}
	w.hub = second
	_, err = w.hub.verdict.Reinstate(t.Context(), &hubv1.ReinstateRequest{ProviderId: m.id, VerdictId: testVerdict})
	must(t, err)
	w.hub = first
	back := w.dial(m, fakeagent.Options{})
	if got := back.Ack().GetStatus(); got != "active" {
		t.Errorf(`reinstated: status: got %q, want "active"`, got)
	}
}

// presences hears what the hub tells routers of its sessions.
func (w *world) presences() <-chan *eventsv1.Session {
	heard := make(chan *eventsv1.Session, 1024)
	w.t.Cleanup(w.subscribe(bus.SubjectPresence(testHub), func(data []byte) {
		p := &eventsv1.Presence{}
		must(w.t, proto.Unmarshal(data, p))
		for _, s := range p.GetSessions() {
			select {
			case heard <- s:
			default: // full: the test has ended, or will fail
			}
		}
	}))
	return heard
}

// told waits until a session of a provider is told of as ok wants.
func told(t *testing.T, what string, heard <-chan *eventsv1.Session, m member, ok func(*eventsv1.Session) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		select {
		case s := <-heard:
			if s.GetProviderId() == m.id && ok(s) {
				return
			}
		case <-ctx.Done():
			t.Fatalf("%s: was not told", what)
		}
	}
}

func TestRoutersAreToldOfReferencesAndSinceWhenAProviderIsActive(t *testing.T) {
	t.Parallel()
	w := setup(t)
	heard := w.presences()
	served := w.active()
	w.dial(served, fakeagent.Options{NodeID: "node-0001"})
	told(t, "active", heard, served, func(s *eventsv1.Session) bool {
		return s.GetActive() && s.GetActiveSince() != nil && !s.GetReference()
	})
	m := w.provider(hubv1.ProviderStatus_PROVIDER_STATUS_PENDING)
	w.dial(m, fakeagent.Options{NodeID: "node-0002"})
	told(t, "pending", heard, m, func(s *eventsv1.Session) bool {
		return !s.GetActive() && s.GetActiveSince() == nil && !s.GetReference()
	})
	for _, reference := range []bool{true, false} {
		_, err := w.hub.admin.SetReference(t.Context(), &hubv1.SetReferenceRequest{ProviderId: m.id, Reference: reference})
		must(t, err)
		told(t, "a reference or not", heard, m, func(s *eventsv1.Session) bool {
			return s.GetReference() == reference && !s.GetActive() && s.GetActiveSince() == nil
		})
	}
	w.activate(m.id)
	told(t, "activated", heard, m, func(s *eventsv1.Session) bool { return s.GetActive() && s.GetActiveSince() != nil })
}

// TestOnlyTheVerifierJudgesAndOnlySettlementSpeaksOfCollateral serves the hub as a
// process does, with certificates.
func TestOnlyTheVerifierJudgesAndOnlySettlementSpeaksOfCollateral(t *testing.T) {
	t.Parallel()
	w := setup(t)
	m := w.active()
	callers := append(node.Names(), node.Verifier)
	dir := t.TempDir()
	leaves := make([]devcerts.Leaf, len(callers))
	for i, name := range callers {
		leaves[i] = devcerts.Leaf{File: name, Services: []string{name}}
	}
	must(t, devcerts.Write(dir, leaves...))
	credentials := func(name string) *serve.Credentials {
		c, err := serve.LoadCredentials(serve.TLSFiles{Cert: devcerts.CertFile(dir, name), Key: devcerts.KeyFile(dir, name),
			CA: filepath.Join(dir, devcerts.CAFile)}, w.log)
		must(t, err)
		return c
	}
	in, err := serve.NewInterceptors(w.log, noop.NewMeterProvider(), tracenoop.NewTracerProvider())
	must(t, err)
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	cfg := serve.GRPCConfig{Interceptors: in, Credentials: credentials(node.ProviderHub),
		Callers: providerhub.Spec(testHub).Callers}
	go func() { ended <- serve.GRPC(ctx, lis, cfg, w.hub.service.Register) }()
	t.Cleanup(func() {
		stop()
		must(t, <-ended)
	})
	for _, caller := range callers {
		conn, err := serve.Dial(serve.Target{Service: node.ProviderHub, Addresses: []string{lis.Addr().String()}}, in,
			credentials(caller))
		must(t, err)
		t.Cleanup(func() { must(t, conn.Close()) })
		verdicts, deposits := hubv1.NewVerdictServiceClient(conn), hubv1.NewProviderCollateralServiceClient(conn)
		for _, call := range []struct {
			name, allowed string
			do            func(context.Context) error
		}{
			{"ReportBenchmark", node.Verifier, func(ctx context.Context) error {
				_, err := verdicts.ReportBenchmark(ctx, &hubv1.ReportBenchmarkRequest{ProviderId: m.id, Revision: 1},
					grpc.WaitForReady(true))
				return err
			}},
			{"Expel", node.Verifier, func(ctx context.Context) error {
				_, err := verdicts.Expel(ctx, &hubv1.ExpelRequest{ProviderId: m.id, VerdictId: testVerdict})
				return err
			}},
			{"Reinstate", node.Verifier, func(ctx context.Context) error {
				_, err := verdicts.Reinstate(ctx, &hubv1.ReinstateRequest{ProviderId: m.id, VerdictId: testVerdict})
				return err
			}},
			{"SetCollateral", node.Settlement, func(ctx context.Context) error {
				_, err := deposits.SetCollateral(ctx, &hubv1.SetCollateralRequest{ProviderId: m.id, Revision: 1})
				return err
			}},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			err := call.do(ctx)
			cancel()
			switch {
			case caller == call.allowed && err != nil:
				t.Errorf("%s by %s: got the error %v, want none", call.name, caller, err)
			case caller != call.allowed && !fault.Is(err, fault.CallerNotAllowed):
				t.Errorf("%s by %s: got the error %v, want the reason %v", call.name, caller, err, fault.CallerNotAllowed)
			}
		}
	}
}
