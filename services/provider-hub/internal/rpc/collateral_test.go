package rpc_test

import (
	"testing"

	"svc.internal/pkg/fault"
	hubv1 "svc.internal/proto/svc/hub/v1"
	"svc.internal/services/provider-hub/internal/rpc"
)

// Settlement alone cannot make providers earn without collateral: the hub must consent.
func TestOnlyAHubThatConsentsTakesDevelopmentCollateral(t *testing.T) {
	t.Parallel()
	const development, contract = hubv1.CollateralSource_COLLATERAL_SOURCE_DEVELOPMENT,
		hubv1.CollateralSource_COLLATERAL_SOURCE_CONTRACT
	for _, c := range []struct {
		name              string
		consents, confirm bool
		source            hubv1.CollateralSource
		refused           bool
	}{
		{"development at a hub that consents", true, true, development, false},
		{"development at a hub that does not", false, true, development, true},
		{"its withdrawal there", false, false, development, false},
		{"a contract's", false, true, contract, false},
		{"without a source", true, true, hubv1.CollateralSource_COLLATERAL_SOURCE_UNSPECIFIED, true},
		{"of an unknown source", true, true, 99, true},
	} {
		d := setup(t)
		m := d.signUp()
		_, err := rpc.NewCollateral(d.accounts, d.registry, c.consents).SetCollateral(t.Context(),
			&hubv1.SetCollateralRequest{ProviderId: m.id, Confirmed: c.confirm, Revision: 1, Source: c.source})
		if got := fault.Is(err, fault.InvalidValue); got != c.refused {
			t.Errorf("%s: got the error %v, want a refusal: %t", c.name, err, c.refused)
		}
		if got, want := d.read(m).GetQualification().GetCollateralConfirmed(), c.confirm && !c.refused; got != want {
			t.Errorf("%s: got the collateral confirmed %t, want %t", c.name, got, want)
		}
	}
}
