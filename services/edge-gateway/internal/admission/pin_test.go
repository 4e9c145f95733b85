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
			switch {
			case !ok:
				t.Errorf("got the error %v, want a fault", err)
			case refused.Kind != fault.Invalid:
				t.Errorf("refused.Kind: got %d, want %d", refused.Kind, fault.Invalid)
			case len(provider) > 8 && strings.Contains(refused.Message, provider):
				t.Errorf("refused.Message: got %q, want it without %q, where len(provider) > 8", refused.Message, provider)
			}
			return
		}
		switch {
		case len(pin.ProviderID) != 36:
			t.Errorf("%q: len(pin.ProviderID): got %d, want 36, with %q", provider, len(pin.ProviderID), allow)
		case strings.ToLower(pin.ProviderID) != pin.ProviderID:
			t.Errorf("%q: strings.ToLower(pin.ProviderID): got %q, want %q, with %q", provider, strings.ToLower(pin.ProviderID),
				pin.ProviderID, allow)
		case pin.AllowFallbacks != strings.EqualFold(strings.TrimSpace(allow), "true"):
			t.Errorf("%q: pin.AllowFallbacks: got %t, want %t, with %q", provider, pin.AllowFallbacks,
				strings.EqualFold(strings.TrimSpace(allow), "true"), allow)
		}
	})
}
