package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

type sample struct {
	Addr  string        `env:"SVC_ADDR" envDefault:"127.0.0.1:1"`
	Wait  time.Duration `env:"SVC_WAIT" envDefault:"2s"`
	Count int           `env:"SVC_COUNT" envDefault:"3"`
	Token Secret        `env:"SVC_TOKEN"`
}

func (s *sample) Validate() error {
	if s.Count < 1 {
		return errors.New("SVC_COUNT must be at least 1")
	}
	return nil
}

func TestWhatIsNotSetHasItsDefault(t *testing.T) {
	cfg, err := Load[sample]([]string{"SVC_WAIT=5s", "OTHER=x"})
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case cfg.Addr != "127.0.0.1:1":
		t.Errorf(`cfg.Addr: got %q, want "127.0.0.1:1"`, cfg.Addr)
	case cfg.Wait != 5*time.Second:
		t.Errorf("cfg.Wait: got %v, want %v", cfg.Wait, 5*time.Second)
	case cfg.Count != 3:
		t.Errorf("cfg.Count: got %d, want 3", cfg.Count)
	case cfg.Token.IsSet():
		t.Error("cfg.Token.IsSet(): got true, want false")
	}
}

func TestAllFaultsAreReportedAtOnce(t *testing.T) {
	_, err := Load[sample]([]string{"SVC_WAIT=soon", "SVC_COUNT=many"})
	switch {
	case err == nil:
		t.Error("got no error, want one")
	case !strings.Contains(err.Error(), "Wait"):
		t.Errorf(`got the error %q, want "Wait" in it`, err)
	case !strings.Contains(err.Error(), "Count"):
		t.Errorf(`got the error %q, want "Count" in it`, err)
	}
	if _, err := Load[sample]([]string{"SVC_COUNT=0"}); err == nil {
		t.Error("a value that Validate refuses passed")
	}
}

func TestASecretIsNeverPrinted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte("hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := Load[sample]([]string{"SVC_TOKEN=file:" + path})
	if err != nil {
		t.Fatalf("got the error %v, want none", err)
	}
	if got := cfg.Token.Reveal(); got != "hunter2" {
		t.Fatalf(`cfg.Token.Reveal(): got %q, want "hunter2"`, got)
	}
	encoded, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{fmt.Sprintf("%v %+v %#v", cfg, cfg, cfg), string(encoded), cfg.Token.LogValue().String()} {
		if strings.Contains(s, "hunter2") {
			t.Errorf(`printed: got %q, want it without "hunter2"`, s)
		}
	}
	if _, err := Load[sample]([]string{"SVC_TOKEN=file:" + path + ".missing"}); err == nil {
		t.Error("a missing file passed")
	}
}

type fileSample struct {
	Addr  string        `yaml:"addr" env:"SVC_ADDR"`
	Wait  time.Duration `yaml:"wait" env:"SVC_WAIT"`
	Inner struct {
		Token Secret        `yaml:"token" env:"SVC_TOKEN"`
		Pause time.Duration `yaml:"pause"`
	} `yaml:"inner"`
}

func (f *fileSample) Validate() error {
	if f.Addr == "bad" {
		return errors.New("addr is bad")
	}
	return nil
}

func readFile(t *testing.T, text string, environ ...string) (fileSample, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "svc.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := fileSample{Addr: "default", Wait: time.Minute}
	err := Read(&cfg, path, environ)
	return cfg, err
}

func TestTheEnvironmentWinsOverTheFileAndTheFileOverTheDefaults(t *testing.T) {
	cfg, err := readFile(t, "wait: 3s\ninner: {token: abc, pause: 1500ms}\n", "SVC_TOKEN=xyz")
	if err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if cfg.Addr != "default" {
		t.Errorf(`cfg.Addr: got %q, want "default"`, cfg.Addr)
	} else if cfg.Wait != 3*time.Second {
		t.Errorf("cfg.Wait: got %v, want %v", cfg.Wait, 3*time.Second)
	} else if got := cfg.Inner.Token.Reveal(); got != "xyz" {
		t.Errorf(`cfg.Inner.Token.Reveal(): got %q, want "xyz"`, got)
	} else if cfg.Inner.Pause != 1500*time.Millisecond {
		t.Errorf("cfg.Inner.Pause: got %v, want %v", cfg.Inner.Pause, 1500*time.Millisecond)
	}
	if cfg, err := readFile(t, ""); err != nil {
		t.Errorf("an empty file: got the error %v, want none", err)
	} else if cfg.Addr != "default" {
		t.Errorf(`an empty file: cfg.Addr: got %q, want "default"`, cfg.Addr)
	}
}

func TestEveryFaultOfAFileIsReportedAtOnce(t *testing.T) {
	_, err := readFile(t, "addr: bad\nwiat: 3s\nwait: soon\ninner: {token: file:/nowhere/at/all, pause: 3, pauze: 1s}\n",
		"SVC_WAIT=later")
	for _, want := range []string{"wiat", "soon", "pauze", "!!int `3`", "/nowhere/at/all", "later", "addr is bad",
		"svc.yaml"} {
		if err == nil {
			t.Errorf("naming %s: got no error, want one", want)
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("naming %s: got the error %q, want %q in it", want, err, want)
		}
	}
}

func TestAFileThatIsNoConfigurationIsRefused(t *testing.T) {
	for name, text := range map[string]string{
		"no YAML": "a: [", "a list": "- a", "two documents": "addr: a\n---\naddr: b\n",
		"too long":       strings.Repeat("#", maxFile+1),
		"a repeated key": "addr: a\naddr: b\n",
	} {
		if _, err := readFile(t, text); err == nil {
			t.Errorf("%s passed", name)
		}
	}
	if err := Read(&fileSample{}, filepath.Join(t.TempDir(), "none"), nil); err == nil {
		t.Error("a file that is not there passed")
	}
}

func TestWhatIsShownInsteadOfASecretIsNotOne(t *testing.T) {
	for _, text := range []string{"'[redacted]'", "!secret abc", "[a]"} {
		if cfg, err := readFile(t, "inner: {token: "+text+"}\n"); err == nil {
			t.Errorf("%s was taken for %q", text, cfg.Inner.Token.Reveal())
		}
	}
}

func TestAFaultNeverShowsASecret(t *testing.T) {
	_, err := readFile(t, "addr: bad\ninner: {token: hunter2}\n")
	if err == nil {
		t.Error("got no error, want one")
	} else if strings.Contains(err.Error(), "hunter2") {
		t.Errorf(`got the error %q, want it without "hunter2"`, err)
	}
}
