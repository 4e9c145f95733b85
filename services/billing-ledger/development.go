package billingledger

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"svc.internal/pkg/node"
	"svc.internal/pkg/serve"
)

// development maps each development setting in use to the reason why strangers must not reach this
// process.
func (c Config) development() map[string]string {
	found := map[string]string{}
	if c.Webhooks.Development {
		found["webhooks.development (SVC_BILLING_WEBHOOK_DEVELOPMENT)"] = "accounts may name loopback with it"
	}
	if c.OpenIDDevelopmentCA != "" {
		found["openid_development_ca (SVC_BILLING_OPENID_DEVELOPMENT_CA)"] = "whoever has a key of the file's authorities " +
			"signs in as anybody"
	}
	return found
}

// CheckListeners returns one fault for each pair of a development setting in use and an address that
// is not on loopback.
func (c Config) CheckListeners(addresses ...string) error {
	var faults []error
	settings := c.development()
	for _, setting := range slices.Sorted(maps.Keys(settings)) {
		for _, address := range addresses {
			if address == "" {
				continue
			}
			if err := serve.Loopback(address); err != nil {
				faults = append(faults, fmt.Errorf("billing-ledger: %s is for a process that listens on loopback alone, because "+
					"%s: %w", setting, settings[setting], err))
			}
		}
	}
	return errors.Join(faults...)
}

// listeners are the addresses on which the process listens.
func listeners(n *node.Node) []string {
	if own := n.DispatchAddress(); own != node.InProcess {
		return []string{n.AdminAddress(), own}
	}
	return []string{n.AdminAddress()}
}
