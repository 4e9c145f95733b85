package setup

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/config"
	"svc.internal/services/provider-agent/internal/engine"
	"svc.internal/services/provider-agent/internal/offer"
	"svc.internal/services/provider-agent/internal/service"
)

const wallet = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"

// market is a service that answers as the marketplace's API does.
type market struct {
	*httptest.Server
	key string

	mu    sync.Mutex
	calls []string
	// taken has e-mail addresses that have an account.
	taken map[string]bool
}

func newMarket(t *testing.T) *market {
	t.Helper()
	key, err := apikey.Generate(apikey.Provider, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	m := &market{key: key, taken: map[string]bool{}}
	m.Server = httptest.NewServer(m)
	t.Cleanup(m.Close)
	return m
}

func (m *market) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var said map[string]string
	_ = json.Unmarshal(body, &said)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls = append(m.calls, r.Method+" "+r.URL.Path+" "+said["beneficiary_address"])
	bearer := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	answer := func(status int, text string) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}
	switch {
	case r.URL.Path == "/api/v1/models":
		answer(200, `{"code":0,"data":{"list":[`+
			`{"id":"meta/llama-3.1-8b","active":true,"kind":"open","context_length":32768},`+
			`{"id":"qwen3-8b","active":true,"kind":"open","context_length":32768},{"id":"old","active":false},`+
			`{"id":"vendor","active":true,"kind":"gateway"}]}}`)
	case r.URL.Path == "/api/v1/stats/model-demand":
		answer(200, `{"code":0,"data":{"models":[{"model_id":"qwen3-8b","requests_24h":4242,"input_price":0.5}]}}`)
	case r.URL.Path == "/api/v1/user/signup" && m.taken[said["email"]]:
		answer(409, `{"error":"This e-mail address has an account. Sign in instead."}`)
	case r.URL.Path == "/api/v1/user/signup":
		m.taken[said["email"]] = true
		answer(201, `{"token":"session","user":{}}`)
	case r.URL.Path == "/api/v1/user/login" && said["password"] == "right horse":
		answer(200, `{"token":"session","user":{"provider_id":"p1"}}`)
	case r.URL.Path == "/api/v1/user/login":
		answer(401, `{"error":"The e-mail address or the password is wrong."}`)
	case r.URL.Path == "/api/v1/consumer/upgrade-to-provider" && bearer == "session":
		answer(201, `{"provider_id":"p1","provider_api_key":"`+m.key+`"}`)
	case r.URL.Path == "/api/v1/user/me/provider-keys" && bearer == "session":
		answer(201, `{"provider_id":"p1","api_key":"`+m.key+`"}`)
	case r.URL.Path == "/api/v1/provider/me" && bearer == m.key:
		answer(200, `{"beneficiary_address":"","proposals":[{"proposal_id":"x1","address":"`+
			said["beneficiary_address"]+`"}]}`)
	case r.URL.Path == "/api/v1/user/me/provider-proposals/x1" && bearer == "session":
		answer(200, `{}`)
	case r.URL.Path == "/api/v1/provider/status" && bearer == m.key:
		answer(200, `{"provider_id":"p1","status":"pending","api_key_valid":true,"next_steps":["Deposit collateral."]}`)
	default:
		answer(401, `{"error":{"message":"no"}}`)
	}
}

// did returns the calls that were made to paths that hold a text.
func (m *market) did(text string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var found []string
	for _, call := range m.calls {
		if strings.Contains(call, text) {
			found = append(found, call)
		}
	}
	return found
}

// ollama answers as Ollama does, with one model.
func ollama(t *testing.T) (port int, created func() string) {
	t.Helper()
	var mu sync.Mutex
	made := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch r.URL.Path {
		case "/v1/models":
			_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"qwen3:8b"},{"id":"odd:latest"}]}`)
		case "/api/tags":
			_, _ = io.WriteString(w, `{"models":[]}`)
		case "/api/show":
			_, _ = io.WriteString(w, `{"model_info":{"qwen3.context_length":40960}}`)
		case "/api/create":
			mu.Lock()
			made = string(body)
			mu.Unlock()
			_, _ = io.WriteString(w, `{"status":"success"}`)
		case "/api/pull":
			_, _ = io.WriteString(w, `{"status":"pulling a","total":4,"completed":2}`+"\n"+`{"status":"success"}`)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(server.Close)
	_, text, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if port, err = strconv.Atoi(text); err != nil {
		t.Fatal(err)
	}
	return port, func() string {
		mu.Lock()
		defer mu.Unlock()
		return made
	}
}

// runs runs the wizard with typed lines and returns what it said.
func runs(t *testing.T, o Options, typed string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := Run(t.Context(), o, Terminal{In: strings.NewReader(typed), Out: &out})
	return out.String(), err
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestTheWizardAsksSixThingsAndWritesThreeFiles(t *testing.T) {
	m := newMarket(t)
	port, _ := ollama(t)
	home := filepath.Join(t.TempDir(), "svc-agent")
	out, err := runs(t, Options{Ports: []int{port}, Home: home, NodeName: "rig"},
		m.URL+"\nall\n0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAee\n"+wallet+"\nbox\n4\nsignup\nann@example.org\nright horse\n")
	if err != nil {
		t.Fatalf("%v, after\n%s", err, out)
	}
	for _, want := range []string{"Found ollama", "4242", "no model of this name", "its checksum", "Deposit collateral.",
		"Next: svc-agent run"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	for _, secret := range []string{m.key, "right horse", "session"} {
		if strings.Contains(out, secret) {
			t.Errorf("%q is in\n%s", secret, out)
		}
	}
	if n := strings.Count(out, "]: ") + strings.Count(out, "…: ") + strings.Count(out, "later): "); n > 8 {
		t.Errorf("questions: got %d, in\n%s", n, out)
	}
	models, err := offer.Load(filepath.Join(home, "models.json"))
	if err != nil {
		t.Fatal(err)
	}
	want := []offer.Model{{ModelID: "qwen3-8b", EngineURL: fmt.Sprintf("http://127.0.0.1:%d/v1", port),
		LocalModel: "qwen3:8b", Capacity: 4}}
	if fmt.Sprint(models) != fmt.Sprint(want) {
		t.Errorf("models: got %v, want %v", models, want)
	}
	if key := read(t, home, "provider-key"); key != m.key+"\n" {
		t.Errorf("the key: got %q, want %q", key, m.key+"\n")
	}
	for _, name := range []string{"provider-key", "models.json", "config.yaml"} {
		info, err := os.Stat(filepath.Join(home, name))
		if err != nil {
			t.Fatal(err)
		}
		if mode := info.Mode().Perm(); mode != 0o600 {
			t.Errorf("%s: mode: got %o, want 600", name, mode)
		}
	}
	for _, line := range []string{"service_url: " + m.URL, "ws_url: ws" + strings.TrimPrefix(m.URL, "http") + "/ws",
		"node_name: box", "provider_key: file:" + home + "/provider-key", "models: " + home + "/models.json"} {
		if text := read(t, home, "config.yaml"); !strings.Contains(text, line+"\n") {
			t.Errorf("%q is missing in\n%s", line, text)
		}
	}
	if calls := m.did("upgrade-to-provider"); len(calls) != 1 {
		t.Errorf("the account was opened by %q, want one call", calls)
	} else if !strings.HasSuffix(calls[0], wallet) {
		t.Errorf("the account was opened by %q, want the address in it", calls[0])
	}
}

func TestASecondRunChangesOnlyWhatIsSaid(t *testing.T) {
	m := newMarket(t)
	port, created := ollama(t)
	home := t.TempDir()
	first := Options{ServiceURL: m.URL, HubURL: "ws://127.0.0.1:1", Ports: []int{port}, Home: home, NodeName: "rig",
		Yes: true, Account: "signup", Email: "a@b", Password: config.NewSecret("right horse"), Offer: "all"}
	if out, err := runs(t, first, ""); err != nil {
		t.Fatalf("%v, after\n%s", err, out)
	}
	settings := "# mine\nlog_level: debug\n" + read(t, home, "config.yaml")
	if err := os.WriteFile(filepath.Join(home, "config.yaml"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	models := read(t, home, "models.json")
	again := Options{ServiceURL: m.URL, HubURL: "ws://127.0.0.1:1", Key: config.NewSecret(m.key), Ports: []int{port},
		Home: home, NodeName: "rig", Yes: true}
	if out, err := runs(t, again, ""); err != nil {
		t.Fatalf("%v, after\n%s", err, out)
	}
	if got := read(t, home, "config.yaml"); got != settings {
		t.Errorf("the settings: got\n%s\nwant\n%s", got, settings)
	}
	if got := read(t, home, "models.json"); got != models {
		t.Errorf("the models: got\n%s\nwant\n%s", got, models)
	}
	if n := len(m.did("signup")); n != 1 {
		t.Errorf("sign-ups: got %d, want 1", n)
	}
	if got := created(); got != "" {
		t.Errorf("a model was made without consent: %s", got)
	}
	again.Offer, again.Context, again.Pull = "all", 16384, "other:1b"
	out, err := runs(t, again, "")
	if err != nil {
		t.Fatalf("%v, after\n%s", err, out)
	}
	if !strings.Contains(out, "pulling a 50 %") {
		t.Errorf("the progress of the download is missing in\n%s", out)
	}
	for _, want := range []string{`"num_ctx":16384`, `"from":"qwen3:8b"`} {
		if got := created(); !strings.Contains(got, want) {
			t.Errorf("made: got %s, want %s in it", got, want)
		}
	}
	for _, want := range []string{`"local_model": "qwen3:8b-ctx16384"`, `"context_length": 16384`} {
		if got := read(t, home, "models.json"); !strings.Contains(got, want) {
			t.Errorf("%s is missing in\n%s", want, got)
		}
	}
}

func TestAnAccountThatFailsIsAskedForAgain(t *testing.T) {
	m := newMarket(t)
	m.taken["ann@example.org"] = true
	port, _ := ollama(t)
	o := Options{ServiceURL: m.URL, Ports: []int{port}, Home: t.TempDir(), NodeName: "rig", Offer: "all",
		Beneficiary: wallet}
	out, err := runs(t, o, "\n\nsignup\nann@example.org\nright horse\nlogin\nann@example.org\nwrong\nlogin\n"+
		"ann@example.org\nright horse\n")
	if err != nil {
		t.Fatalf("%v, after\n%s", err, out)
	}
	for _, want := range []string{"Sign in instead", "the password is wrong"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	// The user's session confirms the address of an account that was open.
	if n := len(m.did("provider-proposals/x1")); n != 1 {
		t.Errorf("confirmations of the address: got %d, want 1", n)
	}
	if got := read(t, o.Home, "provider-key"); got != m.key+"\n" {
		t.Errorf("the key: got %q, want %q", got, m.key+"\n")
	}
}

func TestWhatIsMissingOrWrongIsAFault(t *testing.T) {
	m := newMarket(t)
	port, _ := ollama(t)
	for name, c := range map[string]struct {
		change func(*Options)
		typed  string
		want   string
	}{
		"no service":        {func(o *Options) { o.ServiceURL = "" }, "", "-service"},
		"in the clear":      {func(o *Options) { o.ServiceURL = "http://192.0.2.1" }, "", "travel in the clear"},
		"no such service":   {func(o *Options) { o.ServiceURL = "ftp://h" }, "", "must be http"},
		"no password":       {func(o *Options) { o.Password = config.Secret{} }, "", "SVC_SETUP_PASSWORD"},
		"no way":            {func(o *Options) { o.Account = "magic" }, "", `"magic" is none`},
		"a wrong password":  {func(o *Options) { o.Password = config.NewSecret("wrong") }, "", "the password is wrong"},
		"a mistyped wallet": {func(o *Options) { o.Beneficiary = strings.ToLower(wallet[:41]) }, "", "40 hexadecimal"},
		"a wallet of no checksum": {func(o *Options) {
			o.Beneficiary, o.Account = strings.ToLower(wallet), "magic"
		}, "", "Compare it: " + wallet},
		"nobody's wallet":     {func(o *Options) { o.Beneficiary = "0x" + strings.Repeat("0", 40) }, "", "nobody"},
		"an unknown model":    {func(o *Options) { o.Offer = "nonsense=qwen3:8b" }, "", "is not a model of the catalog"},
		"a vendor's model":    {func(o *Options) { o.Offer = "vendor=qwen3:8b" }, "", "is not a model of the catalog"},
		"a model out of use":  {func(o *Options) { o.Offer = "old=qwen3:8b" }, "", "is not a model of the catalog"},
		"a model not here":    {func(o *Options) { o.Offer = "qwen3-8b=gone" }, "", "no engine here has"},
		"no number":           {func(o *Options) { o.Offer = "9" }, "", "there is no number 9"},
		"a number of no name": {func(o *Options) { o.Offer = "3" }, "", "say which with id=odd"},
		"twice":               {func(o *Options) { o.Offer = "1,2" }, "", "chosen twice"},
		"a false key":         {func(o *Options) { o.Account, o.Key = "key", config.NewSecret("sk-prov-x") }, "", "mistyped"},
		"a key of others": {func(o *Options) {
			o.Account, o.Key = "key", config.NewSecret(newMarket(t).key)
		}, "", "refuses the provider key"},
		"no Ollama":       {func(o *Options) { o.Pull, o.Ports = "x", nil }, "", "no Ollama was found"},
		"silence":         {func(o *Options) { o.Yes, o.Offer = false, "" }, "7\n", "there is no number 7"},
		"too much of all": {func(o *Options) { o.Capacity = offer.MaxCapacity + 1 }, "", "give a number"},
	} {
		o := Options{ServiceURL: m.URL, Ports: []int{port}, Home: t.TempDir(), NodeName: "rig", Yes: true, Account: "login",
			Email: "a@b", Password: config.NewSecret("right horse"), Offer: "1"}
		c.change(&o)
		out, err := runs(t, o, c.typed)
		if err == nil {
			t.Errorf("%s: got no error, want one, after\n%s", name, out)
		} else if !strings.Contains(err.Error()+out, c.want) {
			t.Errorf("%s: got the error %v, want %q, after\n%s", name, err, c.want, out)
		}
		if _, err := os.Stat(filepath.Join(o.Home, "config.yaml")); err == nil {
			t.Errorf("%s: settings were written", name)
		}
	}
}

func TestModelsWithAFaultAreNotTouched(t *testing.T) {
	m := newMarket(t)
	port, _ := ollama(t)
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, "models.json"), []byte(`{"qwen3-8b": {`), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := runs(t, Options{ServiceURL: m.URL, Ports: []int{port}, Home: home, Yes: true, Offer: "all"}, "")
	if err == nil {
		t.Error("got no error, want one")
	} else if !strings.Contains(err.Error(), "line 1") {
		t.Errorf("got the error %v, want one that names the line", err)
	}
	if got := read(t, home, "models.json"); got != `{"qwen3-8b": {` {
		t.Errorf("the file: got %q, want it as it was", got)
	}
}

// Any program on this machine may listen where engines do, and name its models as it likes.
func TestNamesOfOthersDoNotDriveTheTerminal(t *testing.T) {
	var out bytes.Buffer
	p := newPrompt(Terminal{In: strings.NewReader(""), Out: &out}, true)
	p.say("Made %s.", "a\x1b]0;x\x07b\u202ec\u009bd")
	if got, want := out.String(), "Made a]0;xbcd.\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAKeyThatIsNoneIsNotKept(t *testing.T) {
	m := newMarket(t)
	port, _ := ollama(t)
	m.key = "sk-prov-x"
	o := Options{ServiceURL: m.URL, Ports: []int{port}, Home: t.TempDir(), NodeName: "rig", Yes: true, Account: "login",
		Email: "a@b", Password: config.NewSecret("right horse"), Offer: "1"}
	if out, err := runs(t, o, ""); err == nil {
		t.Errorf("got no error, want one, after\n%s", out)
	}
	if _, err := os.Stat(filepath.Join(o.Home, "provider-key")); err == nil {
		t.Error("the key is kept")
	}
}

func TestNamesOfOneModelMatch(t *testing.T) {
	catalog := []service.CatalogModel{
		{ID: "meta/llama-3.1-8b", Active: true}, {ID: "qwen3-8b", Active: true}, {ID: "a/twin", Active: true},
		{ID: "b/twin", Active: true}, {ID: "gemma-2", Slug: "gemma-2-9b-it", Active: true}, {ID: "gone", Active: false},
	}
	for local, want := range map[string]string{
		"qwen3-8b": "qwen3-8b", "qwen3:8b": "qwen3-8b", "Qwen/Qwen3-8B": "qwen3-8b", "qwen3-8b:latest": "qwen3-8b",
		"meta-llama/Llama-3.1-8B-Instruct": "meta/llama-3.1-8b", "llama3.1:8b-instruct-q4_K_M": "meta/llama-3.1-8b",
		"gemma2:9b": "gemma-2", "twin": "", "a/twin": "a/twin", "qwen3:4b": "", "llama3.1:70b": "", "gone": "", "": "",
	} {
		if got := matched(local, catalog); got != want {
			t.Errorf("%s: got %q, want %q", local, got, want)
		}
	}
}

// matched is the id of the model that a local name matches; empty for none.
func matched(local string, catalog []service.CatalogModel) string {
	m, ok := match(local, catalog)
	if !ok {
		return ""
	}
	return m.ID
}

func TestAWiderModelIsAChoiceOfItsOwn(t *testing.T) {
	found := []engine.Found{{Kind: "ollama", URL: "http://h/v1",
		Models: []engine.FoundModel{
			{Name: "qwen3:8b", Window: 4096, Trained: 40960}, {Name: "odd", Window: 4096, Trained: 9000},
		}}}
	catalog := []service.CatalogModel{{ID: "qwen3-8b", Active: true, ContextLength: 131072}}
	var got []int64
	for _, o := range optionsOf(found, catalog, 0) {
		got = append(got, o.window)
	}
	if fmt.Sprint(got) != "[0 40960 0]" {
		t.Errorf("windows: got %v, want [0 40960 0]", got)
	}
	chosen, err := choose("all", optionsOf(found, catalog, 0), catalog)
	switch {
	case err != nil:
		t.Errorf("all: got the error %v, want none", err)
	case len(chosen) != 1:
		t.Errorf("all: got %+v, want one model", chosen)
	case chosen[0].window != 0:
		t.Errorf("all: got the window %d, want the model as it is", chosen[0].window)
	}
	if name := widened("hf.co/a/b:Q4", 512); name != "hf.co/a/b:Q4-ctx512" {
		t.Errorf("the name: got %s", name)
	}
}

func TestAnEndedContextEndsTheWizard(t *testing.T) {
	m := newMarket(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := Run(ctx, Options{ServiceURL: m.URL, Home: t.TempDir(), Yes: true}, Terminal{In: strings.NewReader(""),
		Out: io.Discard})
	if err == nil {
		t.Error("it goes on")
	}
}
