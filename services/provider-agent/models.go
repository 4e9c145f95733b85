package provideragent

import (
	"svc.internal/services/provider-agent/internal/offer"
	"svc.internal/services/provider-agent/internal/weights"
)

// Model is one model of the marketplace and the engine that serves it here.
type Model = offer.Model

// ExposedKeys reports whether a models.json that holds keys of engines can be read by other
// users of the machine.
func ExposedKeys(path string, models []Model) bool { return offer.ExposedKeys(path, models) }

// LoadModels reads a models.json.
func LoadModels(path string) ([]Model, error) { return offer.Load(path) }

// Stores are the folders in which engines keep the files of models.
type Stores = weights.Stores

// StoresOf returns the stores of Ollama and the caches of Hugging Face: those that the variables of an
// environment name, and those at the usual places.
func StoresOf(variable func(name string) string) Stores { return weights.StoresOf(variable) }

// AddModel adds a model to the models.json at path, which need not exist yet.
func AddModel(path string, m Model) error {
	return offer.Edit(path, func(existing []byte) ([]byte, error) { return offer.Add(existing, m) })
}

// RemoveModel removes a model from the models.json at path.
func RemoveModel(path, modelID string) error {
	return offer.Edit(path, func(existing []byte) ([]byte, error) { return offer.Remove(existing, modelID) })
}

// StoreVariables returns the variables that StoresOf reads, except HOME.
func StoreVariables() []string { return weights.StoreVariables() }
