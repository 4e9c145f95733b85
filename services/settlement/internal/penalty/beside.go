package penalty

import "svc.internal/pkg/fault"

// Whole is all of a provider's collateral, in parts of 10,000.
const Whole = 10_000

// The reasons for which a penalty does not fit beside others.
const (
	// AlreadyOpen says that a penalty of the same provider, model and kind is open.
	AlreadyOpen fault.Reason = "penalty_open"
	// SharesExceeded says that the shares would be more than the whole collateral.
	SharesExceeded fault.Reason = "penalty_shares"
)

// fits decides whether a penalty may be opened beside others of the same provider (see
// Store.Open). Penalties of different models, or of different kinds, may stand at once. Of
// one model and kind, one penalty is open at a time. All shares together are at most Whole:
// shares are of the collateral at the opening, so those of penalties that stood at the same
// time are parts of one whole. The database refuses the same (penalty_one_open,
// penalty_shares).
func (d Draft) fits(beside []Penalty) error {
	shares := d.ShareBasisPoints
	for i := range beside {
		p := &beside[i]
		if !p.State.Final() && p.ModelID == d.ModelID && p.Kind == d.Kind {
			return fault.New(fault.Precondition, AlreadyOpen,
				"a penalty of this provider, model and kind is open: %s", p.ID).On("model_id")
		}
		shares += p.ShareBasisPoints
	}
	if shares > Whole {
		return fault.New(fault.Precondition, SharesExceeded,
			"with those that stand, the shares would be %d of %d", shares, Whole).On("share_basis_points")
	}
	return nil
}
