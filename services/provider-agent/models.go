package provideragent

import "svc.internal/services/provider-agent/internal/offer"

// Model is one model of the marketplace and the engine that serves it here.
type Model = offer.Model

// ExposedKeys reports whether a models.json that holds keys of engines can be read by other
// users of the machine.
func ExposedKeys(path string, models []Model) bool { return offer.ExposedKeys(path, models) }

// LoadModels reads a models.json.
func LoadModels(path string) ([]Model, error) { return offer.Load(path) }
