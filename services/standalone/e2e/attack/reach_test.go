package attack

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"svc.internal/pkg/fakeengine"
	"svc.internal/services/standalone/internal/trial"
)

// reaches are F11: the consumer reaches what only the provider's machine can.
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
		"http://169.254.169.254/latest/meta-data/", "http://127.0.0.1:11434/api/tags", "http://127.1/x.png", "http://0x7f.1/x.png", "http://2130706433/x.png",
		"http://localhost/x.png", "http://[::1]/x.png", "http://[::ffff:10.0.0.1]/x.png", "http://10.0.0.1/x.png", "http://192.168.0.1/x.png",
		"http://100.64.0.1/x.png", "http://metadata.google.internal/x.png", "https://example.org:5432/x.png", "file:///etc/passwd", "gopher://127.0.0.1/x",
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
			r := s.chat(t, key, fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":[{"type":"text","text":"see"},%s]}]}`, id, fmt.Sprintf(part, url)))
			if reached := len(engine.Requests()) > before; reached || r.status == http.StatusOK {
				through++
				t.Errorf("%s %s: got %d, reached the engine=%v, want it refused", form, url, r.status, reached)
			}
		}
	}
	return Outcome{Got: fmt.Sprintf("%d of %d through", through, all), Paid: "nothing", Harm: "the provider's network"}
}

// redirected asks for a public-looking name that leads to loopback.
func redirected(t testing.TB, s *stage) Outcome {
	var fetched atomic.Int32
	secret := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fetched.Add(1)
		w.Header().Set("Content-Type", "image/png")
	}))
	t.Cleanup(secret.Close)
	_, port, err := net.SplitHostPort(strings.TrimPrefix(secret.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	id, engine, _ := s.served(t, model{category: "multimodal"}, fakeengine.Behaviour{})
	_, key := s.caller(t)
	reached := 0
	// Names that resolve to loopback where there is a resolver, and to nothing elsewhere.
	for _, host := range []string{"localtest.me", "127.0.0.1.nip.io", "loopback.invalid"} {
		before := len(engine.Requests())
		s.chat(t, key, fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://%s:%s/x.png"}}]}]}`, id, host, port))
		if len(engine.Requests()) > before {
			reached++
		}
	}
	if reached > 0 || fetched.Load() > 0 {
		t.Errorf("got %d addresses through to the engine and %d fetched, want none", reached, fetched.Load())
	}
	return Outcome{Got: fmt.Sprintf("%d through, %d fetched", reached, fetched.Load()), Paid: "nothing", Harm: "the provider's network"}
}

func engineMembers(t testing.TB, s *stage) Outcome {
	id, engine, p := s.served(t, model{}, fakeengine.Behaviour{})
	_, key := s.caller(t)
	through := 0
	members := []string{`"kv_transfer_params":{"do_remote_prefill":true,"remote_host":"10.0.0.1"}`, `"chat_template":"{{ x }}"`,
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
	return Outcome{Got: fmt.Sprintf("%d of %d through", through, len(members)), Paid: "nothing", Harm: "the provider's engine"}
}
