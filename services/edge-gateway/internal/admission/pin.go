package admission

import (
	"net/http"
	"strings"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
)

// Headers that route a request.
const (
	ProviderHeader  = "X-Svc-Provider"
	FallbacksHeader = "X-Svc-Allow-Fallbacks"
)

// Pin is the client's choice of a provider.
type Pin struct {
	// ProviderID is empty without a pin.
	ProviderID string
	// AllowFallbacks has no meaning without a pin.
	AllowFallbacks bool
	// saidFallbacks reports whether AllowFallbacks is the client's own word.
	saidFallbacks bool
}

// ParsePin reads the routing headers. It fails with invalid_provider or invalid_value,
// and its faults never repeat a header.
func ParsePin(h http.Header) (Pin, error) {
	pin := Pin{AllowFallbacks: true}
	if values := h.Values(FallbacksHeader); len(values) > 0 {
		pin.saidFallbacks = true
		switch value := strings.ToLower(strings.TrimSpace(values[0])); {
		case len(values) == 1 && value == "true":
		case len(values) == 1 && value == "false":
			pin.AllowFallbacks = false
		default:
			return Pin{}, fault.New(fault.Invalid, fault.InvalidValue,
				"%s must be true or false", FallbacksHeader).On(FallbacksHeader)
		}
	}
	if values := h.Values(ProviderHeader); len(values) > 0 {
		id, err := ids.ParseProvider(strings.TrimSpace(values[0]))
		if err != nil || len(values) > 1 {
			return Pin{}, fault.New(fault.Invalid, fault.InvalidProvider,
				"%s must be one provider id", ProviderHeader).On(ProviderHeader)
		}
		pin.ProviderID = id.String()
	}
	return pin, nil
}
