package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"svc.internal/pkg/fakeengine"
	agentv2 "svc.internal/proto/svc/agent/v2"
	"svc.internal/services/provider-agent/internal/connection/hubtest"
)

// Models come and go while the agent runs.
func TestAModelThatIsAddedIsOfferedByTheRunningAgent(t *testing.T) {
	engine := fakeengine.New(t)
	engine.Script("local", fakeengine.Behaviour{})
	engine.Script("gone", fakeengine.Behaviour{})
	hub, dir := hubtest.New(t), t.TempDir()
	path := write(t, "models.json", `{"gone":{"endpoint":"`+engine.URL+`"}}`)
	environ := []string{"SVC_SERVICE_URL=" + served(t, "good", "gone"), "SVC_STATE_DIR=" + dir, "SVC_MODELS=" + path}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- command(ctx, []string{"run", "-ws", hub.URL, "-key-file", write(t, "key", providerKeyText(t))}, environ,
			io.Discard, io.Discard)
	}()
	first := hub.AcceptLive()
	do := func(want string, args ...string) {
		t.Helper()
		var out bytes.Buffer
		if err := command(t.Context(), append([]string{"models"}, args...), environ, &out, io.Discard); err != nil {
			t.Fatalf("%v: got the error %v, want none", args, err)
		}
		if !strings.Contains(out.String(), want) {
			t.Errorf("%v: got %q, want %q in it", args, out.String(), want)
		}
	}
	do("has taken it up", "add", "good", engine.URL, "local")
	second := hub.AcceptLive()
	first.WaitClosed()
	do("has taken it up", "remove", "gone")
	third := hub.AcceptLive()
	if got := namesOf(second.Register.GetModels()); got != "gone good/local" {
		t.Errorf("models after add: got %s, want gone and good, which the engine calls local", got)
	}
	if got := namesOf(third.Register.GetModels()); got != "good/local" {
		t.Errorf("models after remove: got %s, want good alone", got)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("run: got the error %v, want none", err)
	}
	do("No agent runs here", "add", "-unchecked", "x", engine.URL)
}

// A model that providers do not serve is refused, and so is a change that would leave a fault.
func TestAChangeOfModelsThatIsRefusedLeavesTheFileAsItWas(t *testing.T) {
	const engine = "http://127.0.0.1:1"
	path := write(t, "models.json", `{"good":{"endpoint":"`+engine+`"}}`)
	environ := []string{"SVC_SERVICE_URL=" + catalog(t), "SVC_STATE_DIR=" + t.TempDir(), "SVC_MODELS=" + path}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no model of the catalog": {[]string{"add", "nonsense", engine}, "the catalog has no model of this id"},
		"a vendor's":              {[]string{"add", "vendor", engine}, "a vendor serves this model"},
		"no catalog":              {[]string{"add", "x", engine, "-service", "http://127.0.0.1:1"}, "-unchecked"},
		"no address":              {[]string{"add", "good"}, "models add <id> <endpoint>"},
		"not there":               {[]string{"remove", "nonsense"}, "is not in the file"},
		"the last":                {[]string{"remove", "good"}, "the only model"},
	} {
		args := append([]string{"models"}, c.args...)
		err := command(t.Context(), args, environ, io.Discard, io.Discard)
		if err == nil {
			t.Errorf("%s: got no error, want one", name)
		} else if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got the error %v, want %q in it", name, err, c.want)
		}
	}
	after, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(before, after) {
		t.Errorf("what is refused changed the file: got\n%s\nwant\n%s", after, before)
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	if len(left) != 1 {
		t.Errorf("files: got %d, want 1", len(left))
	}
}

// namesOf returns the ids of models, with the engines' names where these differ.
func namesOf(models []*agentv2.ModelOffer) string {
	var names []string
	for _, m := range models {
		names = append(names, strings.TrimSuffix(m.GetModelId()+"/"+m.GetEngineModel(), "/"))
	}
	return strings.Join(names, " ")
}
