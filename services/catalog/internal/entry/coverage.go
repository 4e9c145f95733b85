package entry

import "svc.internal/pkg/money"

// Coverage is how the Token Plan pays for a model.
type Coverage string

// The coverages. A plan whose allowance is in money covers whatever one in tokens does.
const (
	// ByTokens draws on the allowance.
	ByTokens Coverage = "tokens"
	// ByImages draws on the images of the day.
	ByImages Coverage = "images"
	// ByMoney is covered only while the allowance is in money.
	ByMoney Coverage = "money"
	// Undrawn is covered and draws on no allowance.
	Undrawn Coverage = "undrawn"
	// NotCovered is paid from credit.
	NotCovered Coverage = "none"
	// Unneeded costs nothing.
	Unneeded Coverage = "unneeded"
)

// CoverageOf returns how the Token Plan pays for models of a tier at these rates.
func CoverageOf(tier Tier, rates money.Rates) Coverage {
	switch {
	case rates.Free():
		return Unneeded
	case tier == Premium:
		return NotCovered
	case rates.Unit == money.AudioMinute:
		return ByMoney
	case rates.Unit == money.Image:
		return ByImages
	case tier == Free:
		return Undrawn
	}
	return ByTokens
}
