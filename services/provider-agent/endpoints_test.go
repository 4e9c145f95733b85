package provideragent

import (
	"strings"
	"testing"

	"svc.internal/pkg/fakeengine"
	agentv2 "svc.internal/proto/svc/agent/v2"
	"svc.internal/services/provider-agent/internal/connection/hubtest"
)

func TestCapabilitiesAndBoundsAreWhatTheOwnerSays(t *testing.T) {
	for text, want := range map[string]struct {
		bytes int64
		fault bool
	}{
		"":                                  {10 << 20, false},
		"chat,stream,images":                {10 << 20, false},
		"transcriptions,stream":             {26 << 20, false},
		"chat,telepathy":                    {10 << 20, true},
		"chat,stream,cancel,transcriptions": {26 << 20, false},
	} {
		cfg := DefaultConfig()
		cfg.WSURL, cfg.Key, cfg.Models = "wss://hub.invalid", providerKey(t), []Model{{ModelID: "m", EngineURL: "http://h"}}
		if text != "" {
			cfg.Capabilities = strings.Split(text, ",")
		}
		filled := cfg.withDefaults()
		if filled.MaxRequestBytes != want.bytes {
			t.Errorf("%q: bodies up: got %d, want %d", text, filled.MaxRequestBytes, want.bytes)
		}
		if _, err := New(cfg, Deps{}); (err != nil) != want.fault {
			t.Errorf("%q: err != nil: got %t, want %t", text, err != nil, want.fault)
		}
	}
}

func TestEveryEndpointGoesThroughTheAgent(t *testing.T) {
	engine := fakeengine.New(t)
	engine.Script("local", fakeengine.Behaviour{Tokens: []string{"good", " day"}})
	model := Model{ModelID: "m", EngineURL: engine.URL + "/v1", LocalModel: "local"}
	_, hub, _ := startWith(t, func(c *Config) {
		c.Capabilities = []string{"chat", "stream", "embeddings", "images", "transcriptions"}
	}, model)
	s := hub.AcceptLive()
	if r := s.Register; r.GetMaxRequestBytes() != 26<<20 {
		t.Errorf("REGISTER: r.GetMaxRequestBytes(): got %d, want 26<<20", r.GetMaxRequestBytes())
	} else if strings.Join(r.GetCapabilities(), " ") != "chat stream embeddings images transcriptions" {
		t.Errorf(`REGISTER: strings.Join(…): got %q, want "chat stream embeddings images transcriptions"`,
			strings.Join(r.GetCapabilities(), " "))
	}
	form := "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\r\nRIFF\r\n" +
		"--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n--b--\r\n"
	for _, c := range []struct {
		endpoint    agentv2.Endpoint
		media, body string
		want        string
	}{
		{agentv2.Endpoint_ENDPOINT_EMBEDDINGS, "", `{"model":"m","input":["a","b"]}`, `"index":1`},
		{agentv2.Endpoint_ENDPOINT_IMAGES, "", `{"model":"m","n":2}`, `https://images.invalid/1.png`},
		{agentv2.Endpoint_ENDPOINT_IMAGES, "", `{"model":"m","n":2,"stream":true}`, "event: image_generation.completed\n"},
		{agentv2.Endpoint_ENDPOINT_TRANSCRIPTIONS, "multipart/form-data; boundary=b", form, `{"text":"good day"}`},
	} {
		open := hubtest.OpenOf("m", []byte(c.body))
		open.Endpoint, open.ContentType = c.endpoint, c.media
		if c.media != "" {
			open.ModelOffset, open.ModelLength = uint32(strings.LastIndex(c.body, "m\r\n--b--")), 1
		}
		st := s.OpenOnly(open)
		st.SendBody([]byte(c.body))
		switch body, end := st.Answer(); {
		case !end.GetComplete():
			t.Errorf("%v: END: end.GetComplete(): got false, want true, with %v", c.endpoint, end)
		case end.GetEngineStatus() != 200:
			t.Errorf("%v: END: end.GetEngineStatus(): got %d, want 200", c.endpoint, end.GetEngineStatus())
		case !strings.Contains(string(body), c.want):
			t.Errorf("%v: body: got %q, want %q in it", c.endpoint, string(body), c.want)
		}
	}
}

func TestAnEngineWithoutTheEndpointSaysSoToTheHub(t *testing.T) {
	engine := fakeengine.New(t)
	engine.Script("m", fakeengine.Behaviour{Status: 404, Body: `{"detail":"Not Found"}`})
	_, hub, _ := start(t, Model{ModelID: "m", EngineURL: engine.URL + "/v1"})
	s := hub.AcceptLive()
	ask := func(e agentv2.Endpoint) *agentv2.End {
		text := `{"model":"m","input":"a"}`
		open := hubtest.OpenOf("m", []byte(text))
		open.Endpoint = e
		st := s.OpenOnly(open)
		st.SendBody([]byte(text))
		_, end := st.Answer()
		return end
	}
	if end := ask(agentv2.Endpoint_ENDPOINT_EMBEDDINGS); end.GetEngineStatus() != 404 {
		t.Errorf("end.GetEngineStatus(): got %d, want 404", end.GetEngineStatus())
	} else if !end.GetComplete() {
		t.Errorf("end.GetComplete(): got false, want true, with %v", end)
	}
	if end := ask(agentv2.Endpoint_ENDPOINT_IMAGES); end.GetEngineStatus() != 0 {
		t.Errorf("what is not declared: END: end.GetEngineStatus(): got %d, want 0", end.GetEngineStatus())
	} else if end.GetComplete() {
		t.Errorf("what is not declared: END: end.GetComplete(): got true, want false, with %v", end)
	} else if got := len(engine.Requests()); got != 1 {
		t.Errorf("what is not declared: len(engine.Requests()): got %d, want 1", got)
	}
}
