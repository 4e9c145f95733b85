// Package config reads a program's configuration from the environment into a
// struct: one field a variable, with its default, strictly, and with every
// fault reported at once.
//
// Fields carry `env:"SVC_HTTP_ADDR" envDefault:"127.0.0.1:8080"`; a struct
// with a Validate method is checked after it is read.
package config

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/caarlos0/env/v11"
)

// Validator is a configuration that can check itself. All its faults are
// joined with errors.Join.
type Validator interface {
	Validate() error
}

// Load reads T from the variables in environ, which has the form of
// os.Environ. It returns every fault found, not only the first.
func Load[T any](environ []string) (T, error) {
	cfg, err := env.ParseAsWithOptions[T](env.Options{Environment: env.ToMap(environ)})
	if err != nil {
		var all env.AggregateError
		if errors.As(err, &all) {
			err = errors.Join(all.Errors...)
		}
		return cfg, fmt.Errorf("configuration: %w", err)
	}
	if v, ok := any(&cfg).(Validator); ok {
		if err := v.Validate(); err != nil {
			return cfg, fmt.Errorf("configuration: %w", err)
		}
	}
	return cfg, nil
}

// Secret is a value that is never printed or logged. It is read from its
// variable, or, when that begins with "file:", from the file named there.
type Secret struct{ value string }

// NewSecret wraps a value.
func NewSecret(value string) Secret { return Secret{value} }

// UnmarshalText reads the value or the file that text names.
func (s *Secret) UnmarshalText(text []byte) error {
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

// Reveal is the value itself.
func (s Secret) Reveal() string { return s.value }

// IsSet tells whether there is a value.
func (s Secret) IsSet() bool { return s.value != "" }

// String hides the value.
func (Secret) String() string { return "[redacted]" }

// GoString hides the value.
func (Secret) GoString() string { return "[redacted]" }

// LogValue hides the value.
func (Secret) LogValue() slog.Value { return slog.StringValue("[redacted]") }

// MarshalText hides the value.
func (Secret) MarshalText() ([]byte, error) { return []byte("[redacted]"), nil }
