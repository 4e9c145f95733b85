// Package config fills a program's configuration from a strict YAML file and from the
// environment, and reports every fault at once.
//
// A configuration is a struct that holds its defaults. Its fields carry `yaml:"http_addr"
// env:"SVC_HTTP_ADDR"`; the environment wins over the file. (A default in an env tag
// would win too: it is for structs without a file.) It refuses a key that the struct does
// not have, a duration without a unit, and a variable that begins with SVC_ and that no
// program of the tree reads. A struct with a Validate method is checked last.
package config

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/caarlos0/env/v11"
	"go.yaml.in/yaml/v3"
)

// maxFaults bounds the faults of one file that are reported.
const maxFaults = 50

// maxFile bounds a configuration file, in bytes.
const maxFile = 64 << 10

// Validator is a configuration that checks itself. It joins all its faults with
// errors.Join.
type Validator interface {
	Validate() error
}

// Load reads T from the variables in environ, which has the form of
// os.Environ. It returns every fault found, not only the first.
func Load[T any](environ []string) (T, error) {
	var cfg T
	err := Read(&cfg, "", environ)
	return cfg, err
}

// Read fills cfg, a pointer to a struct that holds the defaults: from the file at path, unless that
// is empty, and then from environ, which has the form of os.Environ. It
// returns every fault found, not only the first.
func Read(cfg any, path string, environ []string) error {
	faults := []error{Fill(cfg, path, environ)}
	if v, ok := cfg.(Validator); ok {
		faults = append(faults, v.Validate())
	}
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	return nil
}

// Fill is Read without the configuration's own check, so required settings may be
// missing.
func Fill(cfg any, path string, environ []string) error {
	return errors.Join(append(fromFile(cfg, path), fromEnvironment(cfg, environ)...)...)
}

func fromFile(cfg any, path string) []error {
	if path == "" {
		return nil
	}
	file, err := os.Open(path)
	if err != nil {
		return []error{fmt.Errorf("open the file: %w", err)}
	}
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	err = errors.Join(err, file.Close())
	if err != nil {
		return []error{fmt.Errorf("read the file: %w", err)}
	}
	if len(text) > maxFile {
		return []error{fmt.Errorf("%s is longer than %d bytes", path, maxFile)}
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	err = decoder.Decode(cfg)
	if errors.Is(err, io.EOF) {
		return nil
	}
	var typed *yaml.TypeError
	if errors.As(err, &typed) {
		var faults []error
		for i, text := range typed.Errors {
			if i == maxFaults {
				faults = append(faults, fmt.Errorf("%s: and %d more", path, len(typed.Errors)-i))
				break
			}
			faults = append(faults, fmt.Errorf("%s: %s", path, text))
		}
		return faults
	}
	if err != nil {
		return []error{fmt.Errorf("%s: %w", path, err)}
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return []error{fmt.Errorf("%s holds more than one document", path)}
	}
	return nil
}

func fromEnvironment(cfg any, environ []string) []error {
	faults := misspelt(cfg, environ)
	err := env.ParseWithOptions(cfg, env.Options{Environment: env.ToMap(environ)})
	var all env.AggregateError
	if errors.As(err, &all) {
		return append(faults, all.Errors...)
	}
	if err != nil {
		faults = append(faults, err)
	}
	return faults
}

// redacted is shown instead of a secret.
const redacted = "[redacted]"

// Secret is a value that is never printed or logged. It is read from its variable or key,
// or from the file that follows "file:" there.
type Secret struct{ value string }

// NewSecret wraps a value.
func NewSecret(value string) Secret { return Secret{value} }

// UnmarshalText reads the value or the file that text names.
func (s *Secret) UnmarshalText(text []byte) error {
	if string(text) == redacted {
		return errors.New("this is how a secret is shown, not one")
	}
	path, isFile := strings.CutPrefix(string(text), "file:")
	if !isFile {
		s.value = string(text)
		return nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read secret: %w", err)
	}
	s.value = strings.TrimSpace(string(content))
	return nil
}

// UnmarshalYAML is UnmarshalText for a file.
func (s *Secret) UnmarshalYAML(node *yaml.Node) error { return Text(node, s) }

// Text reads a YAML value that has a text form. It reports the value's fault together
// with the others of the file. The fault of a plain encoding.TextUnmarshaler would be the
// only one.
func Text(node *yaml.Node, into encoding.TextUnmarshaler) error {
	fault := "is not a text"
	if node.Kind == yaml.ScalarNode && node.Tag != "!!null" && strings.HasPrefix(node.Tag, "!!") {
		err := into.UnmarshalText([]byte(node.Value))
		if err == nil {
			return nil
		}
		fault = err.Error()
	}
	return &yaml.TypeError{Errors: []string{fmt.Sprintf("line %d: %s", node.Line, fault)}}
}

// Reveal returns the value itself.
func (s Secret) Reveal() string { return s.value }

// IsSet reports whether there is a value.
func (s Secret) IsSet() bool { return s.value != "" }

// String hides the value.
func (Secret) String() string { return redacted }

// GoString hides the value.
func (Secret) GoString() string { return redacted }

// LogValue hides the value.
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText hides the value. It writes nothing when there is none.
func (s Secret) MarshalText() ([]byte, error) {
	if !s.IsSet() {
		return nil, nil
	}
	return []byte(redacted), nil
}
