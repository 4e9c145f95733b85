package providerhub

import (
	"errors"
	"fmt"

	"svc.internal/pkg/node"
	"svc.internal/pkg/serve"
)

// CheckListeners returns a fault for each address that is not on loopback, where a setting
// of development is set: collateral that nobody holds must not let strangers earn, and
// strangers must not have a hub call what is behind it. The addresses are all addresses on which
// the process listens; an empty address is no listener.
func (c Config) CheckListeners(addresses ...string) error {
	var faults []error
	for setting, set := range map[string]bool{
		"development_collateral (SVC_HUB_DEVELOPMENT_COLLATERAL)": c.DevelopmentCollateral,
		"development_endpoints (SVC_HUB_DEVELOPMENT_ENDPOINTS)":   c.DevelopmentEndpoints,
	} {
		for _, address := range addresses {
			if !set || address == "" {
				continue
			}
			if err := serve.Loopback(address); err != nil {
				faults = append(faults, fmt.Errorf("hub: %s is for a process that listens on loopback alone: %w", setting, err))
			}
		}
	}
	return errors.Join(faults...)
}

// listeners are the addresses of a process with a hub, as far as it listens there.
func (c Config) listeners(n *node.Node) []string {
	if own := n.DispatchAddress(); own != node.InProcess {
		return []string{c.WSAddr, n.AdminAddress(), own}
	}
	return []string{c.WSAddr, n.AdminAddress()}
}
