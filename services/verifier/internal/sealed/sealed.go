// Package sealed keeps the settings of verification that nobody outside may know: the
// secret of prompts, schedules and nonces, the key of the archive, the thresholds that
// were drawn for this installation, and the bank of prompts.
//
// They are one file, outside the repository and outside every configuration that is
// published, because whoever knows them can tell probes from requests. No bound on false
// verdicts rests on them (package evidence). The file is made at the first start, with
// mode 0600, whole or not at all. Replicas share one file; a cluster mounts it from a
// secret. Losing it loses the evidence that was sealed with it and no verdict.
package sealed

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"

	"svc.internal/services/verifier/internal/archive"
	"svc.internal/services/verifier/internal/prompt"
)

// The ranges that thresholds are drawn from (verification.md §9). The lower ends of watch
// and notice are those of the bounds; more evidence than that only lowers the errors.
const (
	LowestWatch   = 15
	HighestWatch  = 30
	LowestNotice  = 1_000
	HighestNotice = 2_000
)

const (
	version = 1
	maxFile = 8 << 20
	// open is what nobody but the owner, and a group that may only read, has.
	open fs.FileMode = 0o037
)

// Errors of this package; each is wrapped with what is wrong.
var (
	ErrMode   = errors.New("others can read or change the sealed settings")
	ErrFormat = errors.New("the sealed settings are malformed")
)

// Settings are the sealed settings. They print as nothing.
type Settings struct {
	Secret  prompt.Secret
	Archive archive.Key
	// Watch and Notice are the evidence M from which an offer is watched, and from which
	// its provider is given notice.
	Watch, Notice float64
	Bank          prompt.Bank
}

// Format keeps the settings out of everything that is printed, whatever the verb.
func (Settings) Format(to fmt.State, _ rune) { _, _ = io.WriteString(to, "sealed") }

// MarshalJSON keeps the settings out of logs in JSON.
func (Settings) MarshalJSON() ([]byte, error) { return []byte(`"sealed"`), nil }

// file is the form of the file.
type file struct {
	Version int     `json:"version"`
	Secret  string  `json:"secret"`
	Archive string  `json:"archive_key"`
	Watch   float64 `json:"watch"`
	Notice  float64 `json:"notice"`
	// Bank is left out for the demo's.
	Bank json.RawMessage `json:"bank,omitempty"`
}

// Open reads the file at path, and makes it first when there is none. random is read for
// 96 bytes then. Of two programs that make it at once, one makes it and both read it.
func Open(path string, random io.Reader) (Settings, error) {
	text, err := read(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := create(path, random); err != nil {
			return Settings{}, err
		}
		text, err = read(path)
	}
	if err != nil {
		return Settings{}, err
	}
	return parse(text)
}

func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open the sealed settings: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, fmt.Errorf("look at the sealed settings: %w", err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%w: %s is not a file", ErrFormat, path)
	case info.Mode()&open != 0:
		return nil, fmt.Errorf("%w: %s has mode %04o; run chmod 600 on it", ErrMode, path, info.Mode().Perm())
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read the sealed settings: %w", err)
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("%w: %s has more than %d bytes", ErrFormat, path, maxFile)
	}
	return text, nil
}

// create writes new settings beside path and links them there, so that the file is there
// whole or not at all and never takes another's place.
func create(path string, random io.Reader) error {
	text, err := draw(random)
	if err != nil {
		return err
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the folder of the sealed settings: %w", err)
	}
	f, err := os.CreateTemp(dir, ".sealed-*") // with mode 0600
	if err != nil {
		return fmt.Errorf("make the sealed settings: %w", err)
	}
	defer func() { _ = os.Remove(f.Name()) }() // what was linked stays
	_, err = f.Write(text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write the sealed settings: %w", err)
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make the sealed settings: %w", err)
	}
	return syncDir(dir)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("open the folder of the sealed settings: %w", err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("write the folder of the sealed settings: %w", err)
	}
	return nil
}

// draw returns new settings with the demo's bank.
func draw(random io.Reader) ([]byte, error) {
	var seed [96]byte
	if _, err := io.ReadFull(random, seed[:]); err != nil {
		return nil, fmt.Errorf("read randomness for the sealed settings: %w", err)
	}
	dice := rand.New(rand.NewChaCha8([32]byte(seed[64:]))) //nolint:gosec // seeded with 32 random bytes
	text, err := json.MarshalIndent(file{
		Version: version,
		Secret:  base64.StdEncoding.EncodeToString(seed[:32]), Archive: base64.StdEncoding.EncodeToString(seed[32:64]),
		Watch:  LowestWatch + dice.Float64()*(HighestWatch-LowestWatch),
		Notice: LowestNotice + dice.Float64()*(HighestNotice-LowestNotice),
	}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the sealed settings: %w", err)
	}
	return append(text, '\n'), nil
}

// parse reads settings. Its errors never repeat a value.
func parse(text []byte) (Settings, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	var f file
	if d.Decode(&f) != nil || d.More() {
		return Settings{}, fmt.Errorf("%w: it is no JSON object of the known members", ErrFormat)
	}
	s := Settings{Watch: f.Watch, Notice: f.Notice}
	switch {
	case f.Version != version:
		return Settings{}, fmt.Errorf("%w: its version is not %d", ErrFormat, version)
	case !decode(s.Secret[:], f.Secret):
		return Settings{}, fmt.Errorf("%w: secret is not 32 bytes of base64", ErrFormat)
	case !decode(s.Archive[:], f.Archive):
		return Settings{}, fmt.Errorf("%w: archive_key is not 32 bytes of base64", ErrFormat)
	case !(f.Watch >= LowestWatch && f.Watch <= HighestWatch):
		return Settings{}, fmt.Errorf("%w: watch is not %d to %d", ErrFormat, LowestWatch, HighestWatch)
	case !(f.Notice >= LowestNotice && f.Notice <= HighestNotice):
		return Settings{}, fmt.Errorf("%w: notice is not %d to %d", ErrFormat, LowestNotice, HighestNotice)
	}
	if f.Bank == nil {
		s.Bank = prompt.Demo()
		return s, nil
	}
	var err error
	if s.Bank, err = prompt.ReadBank(f.Bank); err != nil {
		return Settings{}, fmt.Errorf("%w: its bank of prompts is malformed", ErrFormat)
	}
	return s, nil
}

// decode reads base64 of exactly as many bytes as into has.
func decode(into []byte, text string) bool {
	raw, err := base64.StdEncoding.DecodeString(text)
	return err == nil && copy(into, raw) == len(raw) && len(raw) == len(into)
}
