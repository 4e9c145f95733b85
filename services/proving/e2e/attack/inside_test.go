package attack

import (
	"bufio"
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/fakeengine"
	eventsv1 "svc.internal/proto/svc/events/v1"
	moneyv1 "svc.internal/proto/svc/money/v1"
	"svc.internal/services/proving/internal/fleet"
	"svc.internal/services/proving/internal/trial"
)

// inside are F6: the bus accepts anybody.
func inside() []Case {
	return []Case{
		{Hole: "F6", Name: "forged_usage", Before: "400 tokens settled at 1", Run: forgedUsage},
		{Hole: "F6", Name: "usage_overheard", Before: "every consumer's usage read by anybody", Run: overheard},
	}
}

// bus connects to the bus without an identity: with a single process, to any of its ports
// that greets as NATS.
func (s *stage) bus(t testing.TB) (*nats.Conn, error) {
	t.Helper()
	var urls []string
	if f := s.Fleet(); f != nil {
		urls = []string{f.NATSURL()}
	} else {
		for _, port := range natsPorts(t) {
			urls = append(urls, fmt.Sprintf("nats://127.0.0.1:%d", port))
		}
	}
	err := error(net.ErrClosed)
	for _, url := range urls {
		var conn *nats.Conn
		if conn, err = nats.Connect(url, nats.Timeout(3*time.Second), nats.NoReconnect()); err == nil {
			t.Cleanup(conn.Close)
			return conn, nil
		}
	}
	return nil, err
}

// natsPorts are the ports on which this process greets as NATS does.
func natsPorts(t testing.TB) []int {
	t.Helper()
	var mu sync.Mutex
	var found []int
	var wg sync.WaitGroup
	for _, port := range ownPorts(t) {
		wg.Go(func() {
			conn, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), time.Second)
			if err != nil {
				return
			}
			defer conn.Close()
			if conn.SetReadDeadline(time.Now().Add(time.Second)) != nil {
				return
			}
			greeting, _ := bufio.NewReader(conn).ReadString('\n')
			if strings.HasPrefix(greeting, "INFO {") {
				mu.Lock()
				defer mu.Unlock()
				found = append(found, port)
			}
		})
	}
	wg.Wait()
	return found
}

// ownPorts are the ports that this process listens on.
func ownPorts(t testing.TB) []int {
	t.Helper()
	sockets := map[string]bool{}
	links, err := filepath.Glob("/proc/self/fd/*")
	if err != nil || len(links) == 0 {
		t.Skip("only Linux tells a process's sockets")
	}
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && strings.HasPrefix(to, "socket:[") {
			sockets[strings.Trim(to, "socket:[]")] = true
		}
	}
	table, err := os.ReadFile("/proc/self/net/tcp")
	if err != nil {
		t.Skip("only Linux tells a process's sockets")
	}
	var ports []int
	for _, row := range strings.Split(string(table), "\n") {
		f := strings.Fields(row)
		// 0A is a listening socket; the tenth field is its inode.
		if len(f) < 10 || f[3] != "0A" || !sockets[f[9]] {
			continue
		}
		if b, err := hex.DecodeString(f[1][len(f[1])-4:]); err == nil {
			ports = append(ports, int(b[0])<<8|int(b[1]))
		}
	}
	return ports
}

// forgedUsage settles a stream that still runs, at one token.
func forgedUsage(t testing.TB, s *stage) Outcome {
	const said = 400
	id := s.put(t, model{})
	price := trial.Text(t, s.Admin(t, http.MethodPut, "/api/v1/admin/models/"+id,
		`{"name":"Attacked","input_price":"1","output_price":"3",
		"payout_input_price":"0.9","payout_output_price":"2.7","context_length":8192,"max_output_tokens":1024,`+
			`"capabilities":["chat"]}`), "price_version_id")
	engine := fakeengine.New(t)
	gate := make(chan struct{}, said)
	gate <- struct{}{}
	engine.Script(id, fakeengine.Behaviour{Tokens: fakeengine.Words(said), BeforeToken: gate})
	p := s.Join(t, s.title(), engine.URL, id)
	_, key := s.caller(t)
	resp := s.Open(t.Context(), t, key, trial.Chat(id, `,"stream":true,"max_tokens":1000`))
	defer resp.Body.Close()
	request := resp.Header.Get(trial.RequestIDHeader)

	got := "no way onto the bus"
	conn, err := s.bus(t)
	if err == nil {
		got = "published, and was believed by nobody"
		for _, hub := range []string{"hub-1", "hub-2"} {
			forged, err := proto.Marshal(&eventsv1.UsageEvent{
				RequestId: request, Attempt: 1, HubId: hub, ProviderId: p.ID, Epoch: 1, ModelId: id, PriceVersionId: price,
				Rates: &moneyv1.Rates{Unit: moneyv1.Unit_UNIT_TOKEN, InputPicoUsdPerToken: 1_000_000,
					OutputPicoUsdPerToken: 3_000_000, PayoutInputPicoUsdPerToken: 900_000, PayoutOutputPicoUsdPerToken: 2_700_000},
				Ending: eventsv1.Ending_ENDING_COMPLETED, BillablePromptTokens: 1, BillableCompletionTokens: 1,
				ClaimState: eventsv1.ClaimState_CLAIM_STATE_VALID, ClaimedPromptTokens: 1, ClaimedCompletionTokens: 1,
				RecountedCompletionTokens: 1,
				DeliveredBytes:            4, EstimatedPromptTokens: 1, DispatchedAt: timestamppb.Now(), EndedAt: timestamppb.Now(),
				EvidenceSource: eventsv1.EvidenceSource_EVIDENCE_SOURCE_HUB,
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := conn.Publish("usage.v1."+hub, forged); err != nil {
				t.Fatal(err)
			}
		}
		if err := conn.FlushTimeout(5 * time.Second); err != nil {
			got = "thrown off the bus"
		}
		pass(t, 2*time.Second)
	}
	close(gate)
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
	}
	b := s.bill(t, key, request)
	if b.completion < said {
		got = fmt.Sprintf("%d tokens", said)
		t.Errorf("got %d tokens settled at %v, want %d: a stranger settled a stream", said, b, said)
	}
	return Outcome{Got: got, Paid: b.String(), Harm: fmt.Sprintf("%s unpaid for %d", short(p), max(0, said-b.completion))}
}

// overheard listens to the subjects of all services.
func overheard(t testing.TB, s *stage) Outcome {
	conn, err := s.bus(t)
	if err != nil {
		return Outcome{Got: "no way onto the bus", Paid: "nothing", Harm: "none"}
	}
	heard, err := conn.SubscribeSync(">")
	if err != nil {
		return Outcome{Got: "no subscription", Paid: "nothing", Harm: "none"}
	}
	id, _, _ := s.served(t, model{}, fakeengine.Behaviour{})
	_, key := s.caller(t)
	s.chat(t, key, trial.Chat(id, ""))
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	n := 0
	for {
		m, err := heard.NextMsgWithContext(ctx)
		if err != nil {
			break
		}
		n++
		if strings.HasPrefix(m.Subject, "usage.v1.") {
			t.Errorf("got usage of others on %s, want nothing", m.Subject)
			break
		}
	}
	if n > 0 {
		t.Errorf("got %d messages of the fleet, want none", n)
	}
	return Outcome{Got: fmt.Sprintf("%d messages", n), Paid: "nothing", Harm: "consumers' usage told"}
}

// logins are the database URLs of a fleet's processes.
func logins(t testing.TB, f *fleet.Fleet) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, service := range []string{fleet.Catalog, fleet.Settlement, fleet.Hub, fleet.Billing} {
		text, err := os.ReadFile(f.Path("secrets", "database-url-"+service+"-1"))
		if err != nil {
			t.Fatal(err)
		}
		found[service] = strings.TrimSpace(string(text))
	}
	return found
}
