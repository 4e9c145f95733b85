package attack

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/config"
	"svc.internal/pkg/pgtest"
	provideragent "svc.internal/services/provider-agent"
	"svc.internal/services/proving/internal/fleet"
	"svc.internal/services/proving/internal/trial"
)

// operators are the holes of what operators and machines are trusted with.
func operators() []Case {
	return []Case{
		{Hole: "F14", Name: "admin_on_the_public_listener", Before: "200 with the token, and guesses without end",
			Run: adminInPublic},
		{Hole: "F16", Name: "one_login_reads_the_ledger", Before: "a superuser, all schemas", Form: fleetForm, Run: oneLogin},
		{Hole: "F18", Name: "leaked_key_redirects_earnings", Before: "earnings go to the thief at once", Run: leakedKey},
		{Hole: "F18", Name: "confirmed_by_another_user", Before: "there was nothing to confirm", Run: confirmedByAnother},
		{Hole: "F18", Name: "replaced_before_it_is_confirmed", Before: "there was nothing to confirm", Run: replacedBefore},
		{Hole: "F24", Name: "pprof_off_loopback", Before: "profiles for the network", Form: standaloneForm, Run: profiles},
		{Hole: "F25", Name: "key_over_plain_websocket", Before: "the key crosses the network in the clear",
			Form: standaloneForm, Run: plainSocket},
		{Hole: "F26", Name: "test_database_without_password", Before: "superuser for every local process",
			Form: standaloneForm, Run: trustingDatabase},
	}
}

func adminInPublic(t testing.TB, s *stage) Outcome {
	token := s.Env["SVC_ADMIN_TOKEN"]
	_, _, unknown := trial.CallAt(t, s.Bases()[0], http.MethodGet, "/api/v1/never-there", token, "")
	got := ""
	for _, path := range []string{"/api/v1/admin/providers", "/api/v1/admin/reconciliation",
		"/api/v1/admin/held-earnings"} {
		for _, key := range []string{token, ""} {
			status, _, body := trial.CallAt(t, s.Bases()[0], http.MethodGet, path, key, "")
			got = fmt.Sprint(status)
			if status != http.StatusNotFound || trial.ErrorCode(body) != trial.ErrorCode(unknown) {
				t.Errorf("%s on the public listener: got %d %s, want 404 as of a route that never was", path, status,
					trial.ErrorCode(body))
			}
		}
	}
	return Outcome{Got: got, Paid: "nothing", Harm: "none"}
}

func oneLogin(t testing.TB, s *stage) Outcome {
	rooms := map[string]string{fleet.Billing: "billing.wallet", fleet.Hub: "hub.provider_key",
		fleet.Settlement: "settlement.earning_line", fleet.Catalog: "catalog.model"}
	read := 0
	for service, at := range logins(t, s.Fleet()) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		conn, err := pgx.Connect(ctx, at)
		if err != nil {
			cancel()
			t.Errorf("the login of %s: %v", service, err)
			continue
		}
		var super bool
		if err := conn.QueryRow(ctx,
			`SELECT rolsuper OR rolcreaterole OR rolbypassrls FROM pg_roles WHERE rolname = current_user`).Scan(
			&super); err != nil || super {
			t.Errorf("%s: got a login that is a superuser (%v), want none", service, err)
		}
		for owner, table := range rooms {
			var n int
			err := conn.QueryRow(ctx, "SELECT count(*) FROM "+table).Scan(&n)
			switch {
			case owner == service && err != nil:
				t.Errorf("%s: its own %s: %v", service, table, err)
			case owner != service && err == nil:
				read++
				t.Errorf("%s: got %d rows of %s, want permission denied", service, n, table)
			}
		}
		_ = conn.Close(ctx)
		cancel()
	}
	return Outcome{Got: fmt.Sprintf("%d tables of others", read), Paid: "nothing", Harm: "none"}
}

// thief is the address to which the holder of another's key wants earnings to go, and
// honest the provider's own.
const (
	thief  = "0x8617E340B3D01FA5F11F306F4090FD50E238070D"
	honest = "0x52908400098527886E0F7030069857D2E4169EE7"
)

// leakedKey has only a provider's key, and wants its earnings.
func leakedKey(t testing.TB, s *stage) Outcome {
	p := s.Provider(t, s.title())
	status, _, body := s.Call(t, http.MethodPut, "/api/v1/provider/me", p.Key, `{"beneficiary_address":"`+thief+`"}`)
	if status != http.StatusOK {
		t.Errorf("existing agents need 200: got %d, want 200 (body is %s)", status, body)
	}
	at, _ := trial.At(s.Admin(t, http.MethodGet, "/api/v1/admin/providers/"+p.ID, ""), "provider",
		"beneficiary_address").(string)
	if strings.EqualFold(at, thief) {
		t.Errorf("got the earnings at %s with a key alone, want a proposal that waits", at)
	}
	_, _, told := s.Call(t, http.MethodGet, "/api/v1/provider/status", p.Key, "")
	if warning, _ := trial.Decode(t, told)["warning"].(string); warning == "" {
		t.Errorf("got no warning in the provider's status, want one that names the proposal")
	}
	return Outcome{Got: "earnings at " + at, Paid: "nothing", Harm: "the owner is warned"}
}

// farm is a user's provider account.
type farm struct{ session, id, key string }

func (s *stage) farm(t testing.TB) farm {
	t.Helper()
	_, user := s.signUp(t)
	session := trial.Text(t, user, "token")
	status, answer := s.call(t, http.MethodPost, "/api/v1/consumer/upgrade-to-provider", session,
		`{"name":"GPUs","wallet_address":""}`)
	if status != http.StatusCreated {
		t.Fatalf("upgrade: got %d %s, want 201", status, answer)
	}
	upgraded := trial.Decode(t, []byte(answer))
	return farm{session, trial.Text(t, upgraded, "provider_id"), trial.Text(t, upgraded, "provider_api_key")}
}

const proposalsPath = "/api/v1/user/me/provider-proposals"

// propose proposes with the key alone where earnings go.
func (s *stage) propose(t testing.TB, f farm, to string) (proposalID string) {
	t.Helper()
	status, answer := s.call(t, http.MethodPut, "/api/v1/provider/me", f.key, `{"beneficiary_address":"`+to+`"}`)
	if status != http.StatusOK {
		t.Fatalf("propose: got %d %s, want 200", status, answer)
	}
	list, _ := trial.Decode(t, []byte(answer))["proposals"].([]any)
	if len(list) != 1 {
		t.Fatalf("got the proposals %v, want one", list)
	}
	return trial.Text(t, list[0], "proposal_id")
}

// paid is the address of a provider's earnings, as operators see it.
func (s *stage) paid(t testing.TB, f farm) string {
	t.Helper()
	at, _ := trial.At(s.Admin(t, http.MethodGet, "/api/v1/admin/providers/"+f.id, ""), "provider",
		"beneficiary_address").(string)
	return at
}

// confirmedByAnother has a provider's key and a session of an account of its own.
func confirmedByAnother(t testing.TB, s *stage) Outcome {
	victim, other := s.farm(t), s.farm(t)
	id := s.propose(t, victim, thief)
	for _, credential := range []string{other.session, other.key, victim.key, ""} {
		for _, method := range []string{http.MethodPost, http.MethodDelete} {
			if status, answer := s.call(t, method, proposalsPath+"/"+id, credential, ""); status < http.StatusBadRequest {
				t.Errorf("%s with another's credential: got %d %s, want a refusal", method, status, answer)
			}
		}
	}
	at := s.paid(t, victim)
	if at != "" {
		t.Errorf("got the earnings at %s, want a proposal that waits for its user", at)
	}
	if status, answer := s.call(t, http.MethodPost, proposalsPath+"/"+id, victim.session, ""); status != http.StatusOK ||
		!strings.EqualFold(s.paid(t, victim), thief) {
		t.Errorf("the user's own word: got %d %s, want 200 and the address", status, answer)
	}
	return Outcome{Got: "earnings at " + at, Paid: "nothing", Harm: "none"}
}

// replacedBefore replaces the proposal that a user has read with a proposal of its own
// address, before the user confirms.
func replacedBefore(t testing.TB, s *stage) Outcome {
	victim := s.farm(t)
	read := s.propose(t, victim, honest)
	other := s.propose(t, victim, thief)
	status, answer := s.call(t, http.MethodPost, proposalsPath+"/"+read, victim.session, "")
	if status != http.StatusNotFound {
		t.Errorf("got %d %s for a proposal that was replaced, want 404", status, answer)
	}
	at := s.paid(t, victim)
	if at != "" || other == read {
		t.Errorf("got the earnings at %s, want them nowhere", at)
	}
	if status, answer := s.call(t, http.MethodDelete, proposalsPath+"/"+other, victim.session,
		""); status != http.StatusOK {
		t.Errorf("the user refuses it: got %d %s, want 200", status, answer)
	}
	return Outcome{Got: fmt.Sprintf("%d, earnings at %s", status, at), Paid: "nothing", Harm: "none"}
}

// profiles asks for profiles at an address of this machine that is not loopback.
func profiles(t testing.TB, s *stage) Outcome {
	at := outerAddress()
	if at == "" {
		t.Skip("this machine has no address but loopback")
	}
	lis, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(lis.Addr().String())
	lis.Close()
	if err != nil {
		t.Fatal(err)
	}
	trial.StartPart(t, "router", "SVC_METRICS_ADDR=0.0.0.0:"+port, "SVC_GRPC_ADDR=127.0.0.1:0",
		"SVC_NATS_ADDR=127.0.0.1:0", "SVC_PEERS=catalog=127.0.0.1:1,billing-ledger=127.0.0.1:1,provider-hub=127.0.0.1:1")
	var status int
	trial.Until(t, "metrics answer", func() bool {
		resp, err := http.Get("http://" + net.JoinHostPort(at, port) + "/metrics") //nolint:noctx // bounded by Until
		if err != nil {
			return false
		}
		resp.Body.Close()
		return true
	})
	resp, err := http.Get("http://" + net.JoinHostPort(at, port) + "/debug/pprof/heap") //nolint:noctx // it is local
	if err == nil {
		status = resp.StatusCode
		resp.Body.Close()
	}
	if status == http.StatusOK {
		t.Errorf("got a heap profile at %s, want it on loopback alone", at)
	}
	return Outcome{Got: fmt.Sprint(status), Paid: "nothing", Harm: "none"}
}

func outerAddress() string {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return ""
	}
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() {
			return n.IP.String()
		}
	}
	return ""
}

func plainSocket(t testing.TB, s *stage) Outcome {
	cfg := provideragent.DefaultConfig()
	// 203.0.113.1 is reserved for documentation and belongs to nobody.
	cfg.WSURL, cfg.Key, cfg.StateDir = "ws://203.0.113.1:8081", config.NewSecret(s.Provider(t, s.title()).Key), t.TempDir()
	cfg.Models = []provideragent.Model{{ModelID: "m", EngineURL: "http://127.0.0.1:1/v1", LocalModel: "m"}}
	_, err := provideragent.New(cfg, provideragent.Deps{Log: slog.New(slog.DiscardHandler)})
	if err == nil {
		t.Errorf("got an agent that sends its key to ws:// off loopback, want a refusal to start")
	}
	return Outcome{Got: fmt.Sprint(err), Paid: "nothing", Harm: "none"}
}

func trustingDatabase(t testing.TB, _ *stage) Outcome {
	at, err := url.Parse(pgtest.URL(t))
	if err != nil {
		t.Fatal("the database's URL cannot be read")
	}
	host, port := at.Hostname(), at.Port()
	if host == "" || strings.HasPrefix(at.Query().Get("host"), "/") {
		return Outcome{Got: "no TCP listener", Paid: "nothing", Harm: "none"}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, fmt.Sprintf("postgres://%s@%s/postgres?sslmode=disable", at.User.Username(),
		net.JoinHostPort(host, port)))
	got := "refused"
	if err == nil {
		_ = conn.Close(ctx)
		got = "a session of " + at.User.Username()
		t.Errorf("got %s over TCP without a password, want a refusal", got)
	}
	return Outcome{Got: got, Paid: "nothing", Harm: "none"}
}
