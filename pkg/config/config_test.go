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
