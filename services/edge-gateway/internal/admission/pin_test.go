package admission

import (
	"net/http"
	"strings"
	"testing"

	"svc.internal/pkg/fault"
)

func FuzzParsePin(f *testing.F) {
	f.Add("01890000-0000-7000-8000-00000000000a", "true")
	f.Add("01890000-0000-7000-8000-00000000000A ", "FALSE")
	f.Add("", "")
	f.Add("x\r\ny", "yes")
	f.Fuzz(func(t *testing.T, provider, allow string) {
		pin, err := ParsePin(http.Header{ProviderHeader: {provider}, FallbacksHeader: {allow}})
		if err != nil {
			refused, ok := fault.As(err)
			if !ok || refused.Kind != fault.Invalid || len(provider) > 8 && strings.Contains(refused.Message, provider) {
				t.Errorf("%v", err)
			}
			return
		}
		if len(pin.ProviderID) != 36 || strings.ToLower(pin.ProviderID) != pin.ProviderID ||
			pin.AllowFallbacks != strings.EqualFold(strings.TrimSpace(allow), "true") {
			t.Errorf("%q %q: %+v", provider, allow, pin)
		}
	})
}
