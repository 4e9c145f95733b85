package sealed_test

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"svc.internal/services/verifier/internal/prompt"
	"svc.internal/services/verifier/internal/sealed"
)

func open(t *testing.T, path string) sealed.Settings {
	t.Helper()
	s, err := sealed.Open(path, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSettingsAreMadeOnceAndForTheirOwnerAlone(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "new", "sealed.json")
	first := open(t, path)
	if again := open(t, path); again.Secret != first.Secret {
		t.Error("the second start has another secret")
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o600 {
		t.Errorf("mode: got %04o, want 0600", got)
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	if len(left) != 1 {
		t.Errorf("files: got %v, want the settings alone", left)
	}
	if other := open(t, filepath.Join(t.TempDir(), "sealed.json")); other.Secret == first.Secret {
		t.Error("another installation has the same secret")
	}
	if first.Secret == prompt.Secret(first.Archive) {
		t.Error("the archive's key is the secret of prompts")
	}
}

func TestProgramsThatStartAtOnceHaveOneSecret(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "sealed.json")
	var starts sync.WaitGroup
	secrets := make([]prompt.Secret, 16)
	for i := range secrets {
		starts.Go(func() {
			s, err := sealed.Open(path, rand.Reader)
			if err != nil {
				t.Error(err)
			}
			secrets[i] = s.Secret
		})
	}
	starts.Wait()
	for i, secret := range secrets {
		if secret != secrets[0] {
			t.Errorf("program %d has another secret", i)
		}
	}
}

func TestThresholdsAreDrawnWithinTheirRanges(t *testing.T) {
	t.Parallel()
	watches := map[float64]bool{}
	for i := range 50 {
		s := open(t, filepath.Join(t.TempDir(), fmt.Sprint(i)))
		if s.Watch < sealed.LowestWatch || s.Watch > sealed.HighestWatch {
			t.Errorf("watch: got %v, want %d to %d", s.Watch, sealed.LowestWatch, sealed.HighestWatch)
		}
		if s.Notice < sealed.LowestNotice || s.Notice > sealed.HighestNotice {
			t.Errorf("notice: got %v, want %d to %d", s.Notice, sealed.LowestNotice, sealed.HighestNotice)
		}
		watches[s.Watch] = true
	}
	if len(watches) != 50 {
		t.Errorf("thresholds: got %d different ones of 50 installations, want 50", len(watches))
	}
}

func TestSettingsThatOthersCanReadAreRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "sealed.json")
	open(t, path)
	for _, mode := range []os.FileMode{0o604, 0o602, 0o620, 0o644, 0o666} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := sealed.Open(path, rand.Reader); !errors.Is(err, sealed.ErrMode) {
			t.Errorf("mode %04o: got the error %v, want %v", mode, err, sealed.ErrMode)
		}
	}
	for _, mode := range []os.FileMode{0o400, 0o440, 0o600, 0o640} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := sealed.Open(path, rand.Reader); err != nil {
			t.Errorf("mode %04o: got the error %v, want none", mode, err)
		}
	}
}

func TestBrokenSettingsAreRefusedWithoutRepeatingThem(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "sealed.json")
	open(t, path)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var good map[string]any
	if err := json.Unmarshal(text, &good); err != nil {
		t.Fatal(err)
	}
	secret := fmt.Sprint(good["secret"])
	for name, change := range map[string]func(map[string]any){
		"another version":    func(m map[string]any) { m["version"] = 2 },
		"a short secret":     func(m map[string]any) { m["secret"] = secret[4:] },
		"no secret":          func(m map[string]any) { delete(m, "secret") },
		"a long key":         func(m map[string]any) { m["archive_key"] = secret[:40] + secret },
		"an unknown member":  func(m map[string]any) { m["watsh"] = 20 },
		"watch at nothing":   func(m map[string]any) { m["watch"] = 0 },
		"watch too high":     func(m map[string]any) { m["watch"] = 31 },
		"notice too low":     func(m map[string]any) { m["notice"] = 999 },
		"a bank of nothing":  func(m map[string]any) { m["bank"] = map[string]any{} },
		"a bank that is not": func(m map[string]any) { m["bank"] = 7 },
	} {
		bad := map[string]any{}
		for k, v := range good {
			bad[k] = v
		}
		change(bad)
		text, err := json.Marshal(bad)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err = sealed.Open(path, rand.Reader)
		if !errors.Is(err, sealed.ErrFormat) {
			t.Errorf("%s: got the error %v, want %v", name, err, sealed.ErrFormat)
		}
		if err != nil && strings.Contains(err.Error(), secret[4:12]) {
			t.Errorf("%s: the error repeats the secret", name)
		}
	}
	for name, text := range map[string]string{
		"empty": "", "cut": "{", "two values": "{}{}", "too long": strings.Repeat(" ", 9<<20),
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := sealed.Open(path, rand.Reader); !errors.Is(err, sealed.ErrFormat) {
			t.Errorf("%s: got the error %v, want %v", name, err, sealed.ErrFormat)
		}
	}
	if _, err := sealed.Open(dir, rand.Reader); !errors.Is(err, sealed.ErrFormat) {
		t.Errorf("a folder: got the error %v, want %v", err, sealed.ErrFormat)
	}
}

func TestABankOfTheInstallationIsUsed(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "sealed.json")
	open(t, path)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var settings map[string]any
	if err := json.Unmarshal(text, &settings); err != nil {
		t.Fatal(err)
	}
	bank := prompt.Demo()
	bank.Systems = []string{"You are ours."}
	settings["bank"] = bank
	if text, err = json.Marshal(settings); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := open(t, path).Bank.Systems[0]; got != "You are ours." {
		t.Errorf("system prompt: got %q, want that of the installation's bank", got)
	}
}

func TestSettingsPrintAsNothing(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "sealed.json"))
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%d", "%x"} {
		if got := fmt.Sprintf(format, s); got != "sealed" {
			t.Errorf("%s: got %q, want %q", format, got, "sealed")
		}
	}
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("start", "settings", s)
	if got, want := log.String(), `"settings":"sealed"`; !strings.Contains(got, want) {
		t.Errorf("log: got %q, want it with %q", got, want)
	}
}
