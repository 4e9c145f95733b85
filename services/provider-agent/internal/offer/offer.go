// Package offer says what a machine serves: models.json, read strictly, and the bounds of
// each entry.
//
// The file has one of two forms. A list is {"models": [{"model_id": …, "engine_url": …}]}.
// A map by model id is {"llama-3.3-70b": {"endpoint": …, "local_model": …}}, as agents for
// dialect v1 write it; the map may also stand under the key models. Parse refuses unknown
// and repeated keys, reports every fault of the file at once, and names each by line and
// column. A fault never quotes a value, because a key file's content that was pasted into
// the wrong place must not end up in a log.
//
// An engine's address may end in /v1 or not. Root makes one address of both, so that every
// caller asks the engine at the same place.
//
// Limits: 1 MiB of text, MaxModels models.
package offer

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"svc.internal/pkg/config"
)

// Bounds of what one agent offers.
const (
	MaxModels       = 256
	MaxCapacity     = 65_536
	DefaultCapacity = 10

	maxModelID      = 200
	maxLocalModel   = 256
	maxQuantization = 32
	maxRevision     = 64
	maxContext      = 1 << 31
	maxURL          = 2048
	maxPath         = 4096
	maxKey          = 1024
)

// Model is one model of the marketplace and the engine that serves it here.
type Model struct {
	// ModelID is the model's name in the marketplace.
	ModelID string
	// EngineURL is the root of an OpenAI-compatible API, such as
	// http://127.0.0.1:8000/v1.
	EngineURL string
	// LocalModel is the model's name on the engine; empty means ModelID.
	LocalModel string
	// ContextLength in tokens; 0 stands for the engine's, if it reports one.
	ContextLength int64
	// Quantization such as fp8 or q4_k_m, as it is shown to consumers.
	Quantization string
	// Revision of the model's files as their repository names it.
	Revision string
	// Capacity is how many requests are taken at once; 0 means
	// DefaultCapacity.
	Capacity int
	// APIKeyFile holds the engine's own key, if the engine asks for one.
	APIKeyFile string
	// WeightsDir is the folder with the model's files, as its repository has them. Without
	// it the files are looked for in the stores of the engines.
	WeightsDir string
	// APIKey is the engine's own key where the file holds the key itself.
	APIKey config.Secret
	// WithoutFiles reports whether the owner wants no proofs of the model's files, by an empty
	// weights_dir.
	WithoutFiles bool
}

// WithDefaults fills members that may be left out.
func (m Model) WithDefaults() Model {
	if m.LocalModel == "" {
		m.LocalModel = m.ModelID
	}
	if m.Capacity == 0 {
		m.Capacity = DefaultCapacity
	}
	m.EngineURL = Root(m.EngineURL)
	return m
}

// Root is the root of an engine's OpenAI-compatible API: the address with /v1 at its end,
// unless the address ends in a version already.
func Root(address string) string {
	address = strings.TrimRight(address, "/")
	last := address[strings.LastIndexByte(address, '/')+1:]
	if len(last) > 1 && last[0] == 'v' && '0' <= last[1] && last[1] <= '9' && strings.Contains(address, "://") &&
		!strings.HasSuffix(address, "://"+last) {
		return address
	}
	return address + "/v1"
}

// Validate checks models that did not come from Parse. It returns every fault.
func Validate(models []Model) error {
	var faults []error
	if err := checkCount(len(models)); err != nil {
		faults = append(faults, err)
	}
	seen := map[string]bool{}
	for i, m := range models {
		for _, f := range m.faults() {
			faults = append(faults, fmt.Errorf("models[%d].%s: %w", i, f.key, f.err))
		}
		if seen[m.ModelID] {
			faults = append(faults, fmt.Errorf("models[%d].model_id: %w", i, errTwice))
		}
		seen[m.ModelID] = true
	}
	return errors.Join(faults...)
}

var errTwice = errors.New("an earlier entry has the same model_id")

// ExposedKeys reports whether models carry keys of engines that the file at path shows to
// other users of the machine.
func ExposedKeys(path string, models []Model) bool {
	if !slices.ContainsFunc(models, func(m Model) bool { return m.APIKey.IsSet() }) || runtime.GOOS == "windows" {
		return false
	}
	info, err := os.Stat(path)
	return err == nil && info.Mode().Perm()&0o077 != 0
}

func checkCount(n int) error {
	if n == 0 || n > MaxModels {
		return fmt.Errorf("models: 1 to %d are needed, there are %d", MaxModels, n)
	}
	return nil
}

// keyFault is a fault of one key of an entry.
type keyFault struct {
	key string
	err error
}

// faults checks each value by itself.
func (m Model) faults() []keyFault {
	var all []keyFault
	check := func(key string, err error) {
		if err != nil {
			all = append(all, keyFault{key, err})
		}
	}
	check("model_id", checkModelID(m.ModelID))
	check("engine_url", checkEngineURL(m.EngineURL))
	check("local_model", checkText(m.LocalModel, maxLocalModel))
	check("quantization", checkText(m.Quantization, maxQuantization))
	check("revision", checkText(m.Revision, maxRevision))
	check("context_length", checkRange(m.ContextLength, 0, maxContext))
	check("capacity", checkRange(int64(m.Capacity), 0, MaxCapacity))
	check("weights_dir", checkText(m.WeightsDir, maxPath))
	if m.APIKey.IsSet() {
		check("api_key", checkKey(m))
	}
	return all
}

func checkModelID(id string) error {
	if id == "" || len(id) > maxModelID {
		return fmt.Errorf("needs 1 to %d characters", maxModelID)
	}
	for i := range len(id) {
		c := id[i]
		if alphanumeric := '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z'; !alphanumeric &&
			strings.IndexByte("._:/@+-", c) < 0 {
			return errors.New("may hold letters, digits and . _ : / @ + - only")
		}
	}
	return nil
}

func checkEngineURL(text string) error {
	if text == "" || len(text) > maxURL {
		return errors.New("must be the engine's root, such as http://127.0.0.1:8000/v1")
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return errors.New("is not a URL")
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return errors.New("must begin with http:// or https:// and a host")
	case u.User != nil:
		return errors.New("must not hold a password; use api_key_file")
	case u.RawQuery != "" || u.Fragment != "":
		return errors.New("must not hold a query or a fragment")
	}
	for _, path := range []string{"/chat/completions", "/embeddings", "/images/generations", "/audio/transcriptions"} {
		if strings.HasSuffix(strings.TrimRight(u.Path, "/"), path) {
			return errors.New("must be the root above " + path)
		}
	}
	return nil
}

func checkKey(m Model) error {
	if m.APIKeyFile != "" {
		return errors.New("stands beside api_key_file; give one of them")
	}
	return checkText(m.APIKey.Reveal(), maxKey)
}

func checkText(text string, maxRunes int) error {
	if utf8.RuneCountInString(text) > maxRunes {
		return fmt.Errorf("may hold %d characters at most", maxRunes)
	}
	for _, r := range text {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return errors.New("may hold printable characters only")
		}
	}
	return nil
}

func checkRange(n, low, high int64) error {
	if n < low || n > high {
		return fmt.Errorf("must be %d to %d", low, high)
	}
	return nil
}
