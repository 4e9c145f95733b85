package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/fakeengine"
	provideragent "svc.internal/services/provider-agent"
	"svc.internal/services/provider-agent/internal/connection/hubtest"
)

// command does a command with nothing to read.
func command(ctx context.Context, args, environ []string, out, diagnostics io.Writer) error {
	return invocation{
		args: args, environ: environ, in: strings.NewReader(""), out: out, diagnostics: diagnostics,
	}.command(ctx)
}

// write makes a file of the test's and gives its path.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCheckSaysWhetherTheFilesCanBeProven(t *testing.T) {
	engine := fakeengine.New(t)
	engine.Script("m", fakeengine.Behaviour{})
	folder := t.TempDir()
	for weights, want := range map[string]string{
		"": "looked for in the engines' stores", `,"weights_dir":""`: "not proven",
		`,"weights_dir":"` + folder + `"`:        "readable",
		`,"weights_dir":"` + folder + `/absent"`: "no such file", `,"weights_dir":"models.json"`: "it is not a folder",
	} {
		var out, diagnostics bytes.Buffer
		entry := `{"models":[{"model_id":"m","engine_url":"` + engine.URL + `/v1"` + weights + `}]}`
		err := command(t.Context(), []string{"check", "--models", write(t, "models.json", entry)}, nil, &out, &diagnostics)
		if err != nil {
			t.Errorf("%s: got the error %v, want none", weights, err)
		}
		if lines := strings.Split(out.String(), "\n"); !strings.Contains(lines[1], want) {
			t.Errorf("%s: got %q, want %q in it", weights, lines[1], want)
		}
	}
	var out bytes.Buffer
	models := write(t, "models.json", `{"m":{"endpoint":"`+engine.URL+`"}}`)
	if err := command(t.Context(), []string{"check", "-models", models}, []string{"SVC_FIND_FILES=false"}, &out,
		io.Discard); err != nil {
		t.Errorf("not looked for: got the error %v, want none", err)
	}
	if !strings.Contains(out.String(), "no weights_dir") {
		t.Errorf("not looked for: got %q, want that there is no weights_dir", &out)
	}
}

// A fault may repeat what an engine, or whoever stands before it, has sent.
func TestCheckPrintsNothingOfAFaultThatDrivesATerminal(t *testing.T) {
	var out bytes.Buffer
	found := []provideragent.Finding{{Fault: "broken \x1b[2J\u009b1m\n\tFAKE\u202e ok", FilesFault: "lost \x1b[2J"}}
	found[0].Model.ModelID, found[0].Model.WeightsDir = "m", "/w"
	if err := writeTable(&out, found, nil, true); !errors.Is(err, errUnfit) {
		t.Errorf("got the error %v, want %v", err, errUnfit)
	}
	if strings.ContainsAny(out.String(), "\x1b\u009b\u202e\t") {
		t.Errorf("got %q, want nothing that drives a terminal in it", &out)
	}
	if got := strings.Count(out.String(), "\n"); got != 2 {
		t.Errorf("lines: got %d in %q, want 2", got, &out)
	}
}

func TestCheckPrintsATableAndFailsWhenSomethingIsWrong(t *testing.T) {
	engine := fakeengine.New(t)
	engine.Script("local", fakeengine.Behaviour{})
	entry := `{"model_id":"good","engine_url":"` + engine.URL + `/v1","local_model":"local","context_length":4096}`
	var out, diagnostics bytes.Buffer
	err := command(t.Context(), []string{"check", "--models", write(t, "models.json", `{"models":[`+entry+`]}`)},
		nil, &out, &diagnostics)
	if err != nil {
		t.Fatalf("%v\n%s", err, &diagnostics)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	switch {
	case len(lines) != 2:
		t.Errorf("len(lines): got %d, want 2", len(lines))
	case strings.Index(lines[0], "STATE") != strings.Index(lines[1], "ok"):
		t.Errorf(`strings.Index(lines[0], "STATE"): got %d, want %d`, strings.Index(lines[0], "STATE"),
			strings.Index(lines[1], "ok"))
	case !strings.Contains(lines[1], "4096"):
		t.Errorf(`lines[1]: got %q, want "4096" in it`, lines[1])
	}
	out.Reset()
	bad := `,{"model_id":"bad","engine_url":"` + engine.URL + `/v1"}`
	err = command(t.Context(), []string{"check", "--models", write(t, "models.json", `{"models":[`+entry+bad+`]}`)},
		nil, &out, &diagnostics)
	if !errors.Is(err, errUnfit) {
		t.Errorf("got the error %v, want %v", err, errUnfit)
	} else if !strings.Contains(out.String(), `does not list "bad"`) {
		t.Errorf("out: got %q, want %q in it", out.String(), `does not list "bad"`)
	}
	err = command(t.Context(), []string{"check", "--models", write(t, "models.json", `{"models":[{}]}`)}, nil, &out,
		&diagnostics)
	if err == nil {
		t.Error("faults of the file: got no error, want one")
	} else if strings.Count(err.Error(), "line 1") != 2 {
		t.Errorf(`faults of the file: strings.Count(err.Error(), "line 1"): got %d, want 2`,
			strings.Count(err.Error(), "line 1"))
	}
}

func TestRunConnectsWithWhatItIsGiven(t *testing.T) {
	key, err := apikey.Generate(apikey.Provider, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	engine := fakeengine.New(t)
	models := write(t, "models.json", `{"models":[{"model_id":"ok","engine_url":"`+engine.URL+`/v1"}]}`)
	keyFile := write(t, "key", key+"\n")
	for name, c := range map[string]struct{ args, environ []string }{
		"environment": {[]string{"--models", models}, []string{"SVC_PROVIDER_KEY=" + key, "SVC_WS_URL=",
			"SVC_STATE_DIR=" + t.TempDir(), "SVC_NODE_NAME=rig", "SVC_REGION=eu", "SVC_CAPABILITIES=chat,stream,images"}},
		"key file": {[]string{"--key-file", keyFile, "--state", t.TempDir(), "--name", "rig", "--region", "eu",
			"--capabilities", "chat,stream,images"}, []string{"SVC_MODELS=" + models, "SVC_CAPABILITIES=embeddings"}},
		"named file": {[]string{"--capabilities", "chat,stream,images", "--models", models, "--state", t.TempDir(), "--name",
			"rig", "--region", "eu"}, []string{"SVC_PROVIDER_KEY=file:" + keyFile}},
	} {
		t.Run(name, func(t *testing.T) {
			hub := hubtest.New(t)
			ctx, cancel := context.WithCancel(t.Context())
			var out, diagnostics bytes.Buffer
			done := make(chan error, 1)
			go func() {
				done <- command(ctx, append([]string{"run", "--ws", strings.TrimSuffix(hub.URL, "/ws")}, c.args...), c.environ,
					&out, &diagnostics)
			}()
			s := hub.AcceptLive()
			switch r := s.Register; {
			case r.GetToken() != key:
				t.Errorf("REGISTER: r.GetToken(): got %q, want %q", r.GetToken(), key)
			case r.GetNodeName() != "rig":
				t.Errorf(`REGISTER: r.GetNodeName(): got %q, want "rig"`, r.GetNodeName())
			case r.GetRegion() != "eu":
				t.Errorf(`REGISTER: r.GetRegion(): got %q, want "eu"`, r.GetRegion())
			case r.GetModels()[0].GetModelId() != "ok":
				t.Errorf(`REGISTER: r.GetModels()[0].GetModelId(): got %q, want "ok"`, r.GetModels()[0].GetModelId())
			case r.GetAgentVersion() == "":
				t.Error(`REGISTER: r.GetAgentVersion(): got "", want some text`)
			case strings.Join(r.GetCapabilities(), " ") != "chat stream images":
				t.Errorf(`REGISTER: strings.Join(…): got %q, want "chat stream images"`, strings.Join(r.GetCapabilities(), " "))
			}
			cancel()
			if err := <-done; err != nil {
				t.Errorf("run: %v", err)
			}
			switch log := diagnostics.String(); {
			case strings.Contains(log, key):
				t.Errorf("the log: got %q, want it without %q", log, key)
			case !strings.Contains(log, "agent starts"):
				t.Errorf(`the log: got %q, want "agent starts" in it`, log)
			case !strings.Contains(log, "agent stops"):
				t.Errorf(`the log: got %q, want "agent stops" in it`, log)
			}
		})
	}
}

func TestWrongCommandsAreRefused(t *testing.T) {
	for _, args := range [][]string{nil, {"serve"}, {"run", "--nonsense"}, {"run", "--ws", "ws://h", "stray"},
		{"run", "--key-file", "/nowhere"}, {"run", "--models", "/nowhere"}} {
		var out, diagnostics bytes.Buffer
		if err := command(t.Context(), args, nil, &out, &diagnostics); err == nil {
			t.Errorf("%v is accepted", args)
		}
	}
	for _, args := range [][]string{{"version"}, {"help"}} {
		var out bytes.Buffer
		if err := command(t.Context(), args, nil, &out, &out); err != nil {
			t.Errorf("%v: got the error %v, want none", args, err)
		} else if !strings.Contains(out.String(), "svc-agent") {
			t.Errorf(`%v: out: got %q, want "svc-agent" in it`, args, out.String())
		}
	}
}

func TestSettingsComeFromTheFileUnderTheEnvironmentUnderFlags(t *testing.T) {
	engine := fakeengine.New(t)
	engine.Script("local", fakeengine.Behaviour{})
	models := write(t, "models.json", `{"models":[{"model_id":"local","engine_url":"`+engine.URL+`/v1"}]}`)
	file := "models: " + models + "\n"
	for name, c := range map[string]struct {
		file, want string
		environ    []string
		args       []string
	}{
		"the file":          {file: file},
		"the environment":   {file: "models: /nowhere\n", environ: []string{"SVC_MODELS=" + models}},
		"flags":             {file: file, environ: []string{"SVC_MODELS=/nowhere"}, args: []string{"-models", models}},
		"neither":           {file: "", want: "models.json"},
		"an unknown key":    {file: file + "model: x\n", want: "model not found"},
		"a key of no known": {file: file, environ: []string{"SVC_MODLES=x"}, want: "SVC_MODELS"},
	} {
		home := t.TempDir()
		if err := os.WriteFile(filepath.Join(home, "config.yaml"), []byte(c.file), 0o600); err != nil {
			t.Fatal(err)
		}
		for how, where := range map[string]string{
			"by the state": "SVC_STATE_DIR=" + home, "by its name": "SVC_CONFIG=" + filepath.Join(home, "config.yaml"),
		} {
			err := command(t.Context(), append([]string{"check"}, c.args...), append(c.environ, where), io.Discard, io.Discard)
			switch {
			case c.want == "" && err != nil:
				t.Errorf("%s, %s: got the error %v, want none", name, how, err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("%s, %s: got the error %v, want %q in it", name, how, err, c.want)
			}
		}
	}
}

func TestEveryCommandIsInTheUsageAndDescribesItsFlags(t *testing.T) {
	var out bytes.Buffer
	if err := command(t.Context(), []string{"help"}, nil, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, known := range commands() {
		if !strings.Contains(out.String(), "  "+known.name+" ") {
			t.Errorf("%s is missing in %s", known.name, &out)
		}
		if known.name == "version" {
			continue
		}
		described := 0
		err := known.run(t.Context(), invocation{out: io.Discard, diagnostics: io.Discard, describe: func(f *flag.FlagSet) {
			f.VisitAll(func(*flag.Flag) { described++ })
		}})
		if !errors.Is(err, flag.ErrHelp) {
			t.Errorf("%s: got the error %v, want %v", known.name, err, flag.ErrHelp)
		}
		if described == 0 {
			t.Errorf("%s: described: got 0, want some flag", known.name)
		}
	}
}
