package demo

import (
	"bytes"
	_ "embed" // the demo's own catalog
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"

	catalogv1 "svc.internal/proto/svc/catalog/v1"
)

// maxModels bounds a catalog file.
const maxModels = 1000

//go:embed catalog.yaml
var builtin []byte

// Catalog is the content of SVC_CATALOG: the models to put into the catalog at start,
// with the names by which the demo's agent asks its engine for them.
type Catalog struct {
	Models []Model `yaml:"models"`
}

// Model is one entry of a catalog file. Prices are US dollars per 1M tokens.
type Model struct {
	ID                string   `yaml:"id"`
	Slug              string   `yaml:"slug"`
	Name              string   `yaml:"name"`
	Category          string   `yaml:"category"`
	Kind              string   `yaml:"kind"`
	Tier              string   `yaml:"tier"`
	InputPrice        string   `yaml:"input_price"`
	OutputPrice       string   `yaml:"output_price"`
	PayoutInputPrice  string   `yaml:"payout_input_price"`
	PayoutOutputPrice string   `yaml:"payout_output_price"`
	ContextLength     int32    `yaml:"context_length"`
	MaxOutputTokens   int32    `yaml:"max_output_tokens"`
	Capabilities      []string `yaml:"capabilities"`
	// LocalModel is the engine's name for the model; empty means the id. The demo's agent
	// offers the model when its engine knows that name.
	LocalModel string `yaml:"local_model"`
}

// ParseCatalog reads a catalog file. Unknown keys are refused.
func ParseCatalog(text []byte) (Catalog, error) {
	var c Catalog
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&c); err != nil && !errors.Is(err, io.EOF) {
		return Catalog{}, fmt.Errorf("catalog file: %w", err)
	}
	var faults []error
	if len(c.Models) == 0 || len(c.Models) > maxModels {
		faults = append(faults, fmt.Errorf("catalog file: %d models; it needs 1 to %d", len(c.Models), maxModels))
	}
	for i, m := range c.Models {
		if m.ID == "" {
			faults = append(faults, fmt.Errorf("catalog file: model %d has no id", i+1))
		}
	}
	return c, errors.Join(faults...)
}

// Builtin is the catalog of the built-in tiny model.
func Builtin() (Catalog, error) { return ParseCatalog(builtin) }

// FromEngine makes a catalog of an engine's models, at the demo's prices.
func FromEngine(models []string) Catalog {
	var c Catalog
	for _, name := range models[:min(len(models), 20)] {
		c.Models = append(c.Models, Model{
			ID: "demo/" + safeID(name), Name: name, LocalModel: name,
			InputPrice: "0.10", OutputPrice: "0.40", PayoutInputPrice: "0.09", PayoutOutputPrice: "0.36",
			ContextLength: 4096, MaxOutputTokens: 2048, Capabilities: []string{"chat"},
		})
	}
	return c
}

// safeID replaces characters that a model id may not have.
func safeID(name string) string {
	id := []byte(name)
	for i, b := range id {
		ok := 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || b == '.' || b == '_' || b == '-' ||
			b == ':'
		if !ok {
			id[i] = '-'
		}
	}
	return string(id[:min(len(id), 100)])
}

// local is the engine's name for m.
func (m Model) local() string {
	if m.LocalModel == "" {
		return m.ID
	}
	return m.LocalModel
}

func (m Model) request() *catalogv1.PutModelRequest {
	return &catalogv1.PutModelRequest{
		ModelId: m.ID, Slug: m.Slug, Name: m.Name, Category: m.Category, Kind: m.Kind, Tier: m.Tier,
		InputPrice: m.InputPrice, OutputPrice: m.OutputPrice,
		PayoutInputPrice: m.PayoutInputPrice, PayoutOutputPrice: m.PayoutOutputPrice,
		ContextLength: m.ContextLength, MaxOutputTokens: m.MaxOutputTokens, Capabilities: m.Capabilities,
	}
}
