package attack

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync/atomic"
	"testing"

	"svc.internal/pkg/fakeengine"
	provideragent "svc.internal/services/provider-agent"
	"svc.internal/services/proving/internal/trial"
)

// reaches are F11: the consumer reaches what only the provider's machine can reach.
func reaches() []Case {
	return []Case{
		{Hole: "F11", Name: "private_addresses", Before: "all of them reach the engine", Run: privateAddresses},
		{Hole: "F11", Name: "redirect_to_loopback", Before: "the engine fetches it", Run: redirected},
		{Hole: "F11", Name: "engine_members", Before: "all of them reach the engine", Run: engineMembers},
	}
}

func privateAddresses(t testing.TB, s *stage) Outcome {
	id, engine, _ := s.served(t, model{category: "multimodal"}, fakeengine.Behaviour{})
	_, key := s.caller(t)
	through, all := 0, 0
	for _, url := range []string{
		"http://169.254.169.254/latest/meta-data/", "http://127.0.0.1:11434/api/tags", "http://127.1/x.png",
		"http://0x7f.1/x.png", "http://2130706433/x.png",
		"http://localhost/x.png", "http://[::1]/x.png", "http://[::ffff:10.0.0.1]/x.png", "http://10.0.0.1/x.png",
		"http://192.168.0.1/x.png",
		"http://100.64.0.1/x.png", "http://metadata.google.internal/x.png", "https://example.org:5432/x.png",
		"file:///etc/passwd", "gopher://127.0.0.1/x",
		"http://[64:ff9b::a00:1]/x.png", "http://[fd00::1]/x.png",
	} {
		for form, part := range map[string]string{
			"image_url": `{"type":"image_url","image_url":{"url":%q}}`,
			"video_url": `{"type":"video_url","video_url":{"url":%q}}`,
			"deep":      `{"type":"acme_part","acme":{"list":[{"thumbnail_url":%q}]}}`,
			"upper":     `{"type":"acme_part","acme":{"Image_URL":%q}}`,
		} {
			all++
			before := len(engine.Requests())
			r := s.chat(t, key,
				fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":[{"type":"text","text":"see"},%s]}]}`, id,
					fmt.Sprintf(part, url)))
			if reached := len(engine.Requests()) > before; reached || r.status == http.StatusOK {
				through++
				t.Errorf("%s %s: got %d, reached the engine=%v, want it refused", form, url, r.status, reached)
			}
		}
	}
	return Outcome{Got: fmt.Sprintf("%d of %d through", through, all), Paid: "nothing", Harm: "the provider's network"}
}

// redirected asks for a public name that leads to loopback, on a port that the gateway
// accepts, so that only the connecting side can see where the name leads.
func redirected(t testing.TB, s *stage) Outcome {
	const inside = "127.70.0.1"
	lis, err := net.Listen("tcp", inside+":8080")
	if err != nil {
		lis, err = net.Listen("tcp", inside+":8443")
	}
	if err != nil {
		t.Fatal(err)
	}
	var fetched atomic.Int32
	secret := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fetched.Add(1)
		w.Header().Set("Content-Type", "image/png")
	}))
	_ = secret.Listener.Close()
	secret.Listener = lis
	secret.Start()
	t.Cleanup(secret.Close)
	_, port, err := net.SplitHostPort(lis.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	names, asked := namesTo(t, netip.MustParseAddr(inside))
	id := s.put(t, model{category: "multimodal"})
	engine := fakeengine.New(t)
	engine.Script(id, fakeengine.Behaviour{})
	s.JoinWith(t, s.title(), engine.URL, provideragent.Deps{Resolver: names}, id)
	_, key := s.caller(t)
	r := s.chat(t, key,
		fmt.Sprintf(
			`{"model":%q,"messages":[{"role":"user","content":[{"type":"image_url",`+
				`"image_url":{"url":"http://pictures.example.net:%s/x.png"}}]}]}`, id, port))
	reached := len(engine.Requests())
	if reached > 0 || fetched.Load() > 0 || r.status != http.StatusBadRequest {
		t.Errorf("got %d, %d requests through to the engine and %d files fetched, want 400 and none", r.status,
			reached, fetched.Load())
	}
	if asked.Load() == 0 {
		t.Errorf("got %d %s before the name was looked up, want it judged by where it leads", r.status,
			trial.Tail(r.body, 200))
	}
	return Outcome{Got: fmt.Sprintf("%d, %d fetched", r.status, fetched.Load()), Paid: "nothing",
		Harm: "the provider's network"}
}

// namesTo resolves every name to one IPv4 address, and counts the queries.
func namesTo(t testing.TB, to netip.Addr) (names *net.Resolver, asked *atomic.Int32) {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	asked = new(atomic.Int32)
	go func() {
		query := make([]byte, 1<<10)
		for {
			n, from, err := conn.ReadFrom(query)
			if err != nil {
				return
			}
			asked.Add(1)
			_, _ = conn.WriteTo(resolved(query[:n], to), from)
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", conn.LocalAddr().String())
	}}, asked
}

// resolved answers a query of DNS: with the address if it asks for an IPv4 address, and
// else with none.
func resolved(query []byte, to netip.Addr) []byte {
	const header, ipv4 = 12, 1
	end := header
	for end < len(query) && query[end] != 0 {
		end += 1 + int(query[end]) // a label behind its length
	}
	end += 1 + 4 // the end of the name, then the type and the class
	if end > len(query) {
		return nil
	}
	// The header says that this is an answer, and how many records follow.
	answer := append(append([]byte{}, query[:2]...), 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0)
	answer = append(answer, query[header:end]...)
	if query[end-4] == 0 && query[end-3] == ipv4 {
		answer[7] = 1
		answer = append(answer, 0xc0, header, 0, ipv4, 0, 1, 0, 0, 0, 0, 0, 4) // the name is the query's
		answer = append(answer, to.AsSlice()...)
	}
	return answer
}

func engineMembers(t testing.TB, s *stage) Outcome {
	id, engine, p := s.served(t, model{}, fakeengine.Behaviour{})
	_, key := s.caller(t)
	through := 0
	members := []string{`"kv_transfer_params":{"do_remote_prefill":true,"remote_host":"10.0.0.1"}`,
		`"chat_template":"{{ x }}"`,
		`"lora_request":{"lora_path":"/etc"}`, `"extra_args":{"x":1}`}
	for _, member := range members {
		before := len(engine.Requests())
		r := s.chat(t, key, trial.Chat(id, ","+member))
		if len(engine.Requests()) > before {
			through++
			t.Errorf("%s: got %d and it reached the engine, want it refused by the agent", member, r.status)
		}
	}
	// The provider did nothing wrong.
	if r := s.chat(t, key, trial.Chat(id, "")); r.status != http.StatusOK || r.header.Get("X-Svc-Provider-Id") != p.ID {
		t.Errorf("behind it: got %d, want the same provider to serve", r.status)
	}
	return Outcome{Got: fmt.Sprintf("%d of %d through", through, len(members)), Paid: "nothing",
		Harm: "the provider's engine"}
}
