package main

import (
	"strings"
	"testing"

	"svc.internal/pkg/node"
	"svc.internal/services/settlement"
)

func TestACheckOfTheConfigurationRefusesDevelopmentCollateralOffLoopback(t *testing.T) {
	t.Parallel()
	for address, refused := range map[string]bool{"127.0.0.1:9000": false, "0.0.0.0:9000": true} {
		for _, set := range []func(*program){
			func(p *program) { p.GRPCAddr = address }, func(p *program) { p.AdminAddr = address },
			func(p *program) { p.GRPCAdvertise = address },
		} {
			p := &program{node.DefaultConfig(), settlement.DefaultConfig()}
			p.Settlement.DevelopmentCollateral = true
			set(p)
			err := p.Validate()
			if got := err != nil && strings.Contains(err.Error(), "development_collateral"); got != refused {
				t.Errorf("%s: got the error %v, want a refusal: %t", address, err, refused)
			}
		}
	}
}
