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
	if cfg.Addr != "127.0.0.1:1" || cfg.Wait != 5*time.Second || cfg.Count != 3 || cfg.Token.IsSet() {
		t.Errorf("%+v", cfg)
	}
}

func TestAllFaultsAreReportedAtOnce(t *testing.T) {
	_, err := Load[sample]([]string{"SVC_WAIT=soon", "SVC_COUNT=many"})
	if err == nil || !strings.Contains(err.Error(), "Wait") || !strings.Contains(err.Error(), "Count") {
		t.Errorf("got %v", err)
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
	if err != nil || cfg.Token.Reveal() != "hunter2" {
		t.Fatalf("%v", err)
	}
	encoded, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{fmt.Sprintf("%v %+v %#v", cfg, cfg, cfg), string(encoded), cfg.Token.LogValue().String()} {
		if strings.Contains(s, "hunter2") {
			t.Errorf("printed: %s", s)
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
	if err != nil || cfg.Addr != "default" || cfg.Wait != 3*time.Second || cfg.Inner.Token.Reveal() != "xyz" ||
		cfg.Inner.Pause != 1500*time.Millisecond {
		t.Errorf("%v %+v", err, cfg)
	}
	if cfg, err := readFile(t, ""); err != nil || cfg.Addr != "default" {
		t.Errorf("an empty file: %v %+v", err, cfg)
	}
}

func TestEveryFaultOfAFileIsReportedAtOnce(t *testing.T) {
	_, err := readFile(t, "addr: bad\nwiat: 3s\nwait: soon\ninner: {token: file:/nowhere/at/all, pause: 3, pauze: 1s}\n",
		"SVC_WAIT=later")
	for _, want := range []string{"wiat", "soon", "pauze", "!!int `3`", "/nowhere/at/all", "later", "addr is bad",
		"svc.yaml"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not named in: %v", want, err)
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
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %v", err)
	}
}
