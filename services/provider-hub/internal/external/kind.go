package external

import (
	"svc.internal/pkg/fault"
	"svc.internal/services/provider-hub/internal/kinds"
)

// checkKinds refuses models of a kind that the owner of the endpoint may not serve: a vendor serves
// gateway models alone, and nobody else serves gateway models. It refuses a vendor until the catalog
// is known.
func checkKinds(known *kinds.Models, vendor bool, models []Model) error {
	if vendor && !known.Known() {
		return fault.New(fault.Unavailable, fault.ServiceUnavailable,
			"the catalog was not heard yet, so nobody knows which models are a vendor's; try again later")
	}
	for i, m := range models {
		if why := known.Refusal(vendor, m.ID); why != "" {
			return fault.New(fault.Invalid, fault.InvalidValue, "models[%d].model_id must be of another kind: %s", i, why).
				On("models")
		}
	}
	return nil
}
